"""Time, as duetime needs it from outside: a way to wait, and the machine's clock for stores that have none.

Deadlines are judged by the *store's* clock (``store.Transaction.now``). What is here serves two other needs: waiting
(between sweep runs, before a retry), and telling the time for the stores that live inside this process (memory and
SQLite), whose clock is this machine's. ``duetime.testing.ManualClock`` stands in for both.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> datetime:
        """Answer the present instant in UTC, with microseconds."""
        ...

    def monotonic(self) -> float:
        """Answer seconds from an arbitrary start; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``; at once where that is not above zero."""
        ...


class SystemClock:
    """This machine's clock."""

    def now(self) -> datetime:
        """Answer the present instant in UTC, with microseconds."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Answer seconds from an arbitrary start; never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``; at once where that is not above zero."""
        await asyncio.sleep(max(0.0, seconds))
