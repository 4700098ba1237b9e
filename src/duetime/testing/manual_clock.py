"""A clock that moves only when a test says so."""

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count

START = datetime(2026, 1, 1, tzinfo=UTC)

_TURNS_OF_THE_LOOP = 25


class ManualClock:
    """A ``clock.Clock`` whose time stands still between calls of ``advance``.

    ``advance`` walks from sleeper to sleeper: each wakes at exactly its own instant, earlier ones first, those of the
    same instant in the order in which they fell asleep, and what a woken task puts to sleep again within the same
    stretch of time is woken too. Between two of them the event loop turns a number of times, so that a task that waits
    for nothing but this clock, locks and queues gets its work done; a task that waits for a socket does not.

    ``jump`` moves the wall clock alone, as an administrator or NTP would: nobody wakes.
    """

    def __init__(self, start: datetime = START) -> None:
        """Stand at ``start``, an aware instant."""
        self._start = start.astimezone(UTC)
        self._elapsed = timedelta(0)
        self._skew = timedelta(0)
        self._number = count()
        self._sleepers: list[tuple[timedelta, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Answer the instant at which the clock stands, in UTC."""
        return self._start + self._elapsed + self._skew

    def monotonic(self) -> float:
        """Answer the seconds that this clock was advanced by; jumps do not count."""
        return self._elapsed.total_seconds()

    @property
    def sleepers(self) -> int:
        """How many tasks sleep by this clock."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Sleep until the clock was advanced by ``seconds``; at once where that is not above zero."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + timedelta(seconds=seconds), next(self._number), future))
        await future

    async def advance(self, by: timedelta | float) -> None:
        """Let ``by`` (a duration, or seconds) pass, waking sleepers on the way."""
        target = self._elapsed + (by if isinstance(by, timedelta) else timedelta(seconds=by))
        if target < self._elapsed:
            raise ValueError("time only goes forward; jump() moves the wall clock back")
        await self._turn()
        while self._sleepers and self._sleepers[0][0] <= target:
            at, _, future = heapq.heappop(self._sleepers)
            if future.done():  # its task was cancelled
                continue
            self._elapsed = at
            future.set_result(None)
            await self._turn()
        self._elapsed = target

    def jump(self, by: timedelta) -> None:
        """Move the wall clock by ``by``, forward or back, without time passing."""
        self._skew += by

    async def _turn(self) -> None:
        # asyncio's own loop shows what it has yet to run: once that is nothing, no further turn brings anything.
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        for _ in range(_TURNS_OF_THE_LOOP):
            await asyncio.sleep(0)
            if ready is not None and not ready:
                return
