"""Pace: how many closes a second this worker does.

Theory: a token bucket. ``_tokens`` grow at the rate, up to what it allows in ``BURST_SECONDS``; whoever wants to close
waits until they are no longer below zero, and takes what it is let through, so that the mean is the rate. What closed
nothing is given back: with several workers it is closes that count, not attempts. Why not a library: those for asyncio
read the event loop's own clock, and here time is an argument.

Batches are cut to what the rate allows in ``BATCH_SECONDS``, so that hot rows are locked briefly while a backlog
drains; where the store is too slow for that, they grow up to one burst. What is let through is finished: a pause takes
effect between batches.
"""

import asyncio
from typing import Final

from duetime.clock import Clock
from duetime.fleet import UNLIMITED, Fleet

BATCH_SECONDS: Final = 0.025
BURST_SECONDS: Final = 0.1

LOOK_AGAIN_SECONDS: Final = 0.25
"""Whoever waits looks so often whether the pace has changed."""

LEAST_PAUSE_SECONDS: Final = 0.001
"""What is left to wait may be less than any clock can tell."""


class Pace:
    """Lets orders through to be closed. ``configured``: closes per second of all workers, unless somebody says."""

    def __init__(self, clock: Clock, configured: float = UNLIMITED) -> None:
        """Begin at the configured pace, as if this were the only worker."""
        self._clock = clock
        self._configured = configured
        self._share = configured
        self._tokens = 0.0
        self._looked_at = clock.monotonic()
        self._turn = asyncio.Lock()
        self.paused_by: str | None = None
        self.stopping = False
        """Set when nobody who waits is to be let through any more."""

    def begin(self) -> None:
        """Let nothing through until something is heard: closing may be paused."""
        self.stopping = False
        self._look()
        self._share = 0.0

    def heard(self, fleet: Fleet) -> None:
        """Take over what was said, and the number of workers."""
        self._look()
        self.paused_by = fleet.paused_by
        self._share = fleet.share(self._configured)

    async def room(self, wanted: int) -> int:
        """Wait until some of ``wanted`` orders may be closed; answer how many, 0 where this worker is to stop."""
        if self._share == UNLIMITED:
            return wanted
        async with self._turn:
            while not self.stopping:
                self._look()
                if self._share == UNLIMITED:
                    return wanted
                if self._tokens >= 0 and self._share > 0:
                    let = min(wanted, max(1, int(self._share * BATCH_SECONDS), int(self._tokens)))
                    self._tokens -= let
                    return let
                await self._clock.sleep(self._pause_seconds())
        return 0

    def unused(self, orders: int) -> None:
        """Take back what was let through and closed nothing: others were first, or it was busy or not due."""
        self._add(orders)

    def _look(self) -> None:
        now = self._clock.monotonic()
        passed, self._looked_at = now - self._looked_at, now
        self._add(passed * self._share)

    def _add(self, tokens: float) -> None:
        self._tokens = 0.0 if self._share == UNLIMITED else min(self._tokens + tokens, self._share * BURST_SECONDS)

    def _pause_seconds(self) -> float:
        if self._share == 0:
            return LOOK_AGAIN_SECONDS
        return min(max(-self._tokens / self._share, LEAST_PAUSE_SECONDS), LOOK_AGAIN_SECONDS)
