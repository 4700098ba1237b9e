"""The store's clock, as a process knows it between two looks at it.

Deadlines are judged by the store's clock, and asking it costs a round trip. So each look is kept: at some moment
between asking and hearing, the store's clock showed what it answered. From this machine's steady clock (which no
correction of its wall clock touches) follows a moment that the store's clock has reached *for certain*; the answer here
is the latest of these, so it is behind by less than the shortest round trip of the last minute, and never ahead.

=====================================  ======================================================================
what happens                           what follows
=====================================  ======================================================================
this machine's clock jumps, is wrong   nothing: only its steady clock is read
one look takes long                    it is behind all others and decides nothing
the steady clock runs too fast         ahead by its drift over a minute, at most: an attempt comes early, the
                                       store says *not yet due*, and it is repeated
the store's clock is set back          the next look contradicts what was certain: all earlier looks are
                                       forgotten
the store's clock is set ahead         the next look is the latest, and decides
=====================================  ======================================================================

Cristian, *Probabilistic clock synchronization* (Distributed Computing 3, 1989), bounds a remote clock by a round trip
in this way.
"""

from collections import deque
from datetime import UTC, datetime, timedelta

from duetime.clock import Clock

KEPT_SECONDS = 60.0
LOOKS_AT_MOST = 240


class StoreTime:
    """A ``clock.Clock`` that shows the store's time. Before the first look it shows this machine's."""

    def __init__(self, clock: Clock) -> None:
        """Count on the steady clock of ``clock``, and wait by it."""
        self._clock = clock
        self._looks: deque[tuple[float, datetime]] = deque(maxlen=LOOKS_AT_MOST)
        """When it was heard, and what was shown at the latest then."""
        self._best: tuple[float, datetime] | None = None

    def heard(self, asked_at: float, shown: datetime, heard_at: float) -> None:
        """Take a look: the store's clock showed ``shown`` between two readings of the steady clock."""
        if self._best is not None and self._at(asked_at) > shown:
            self._looks.clear()
        self._looks.append((heard_at, shown))
        while heard_at - self._looks[0][0] > KEPT_SECONDS:
            self._looks.popleft()
        self._best = max(self._looks, key=_certain)

    def now(self) -> datetime:
        """Answer what the store's clock shows by now, or has shown less than a round trip ago."""
        return self._clock.now().astimezone(UTC) if self._best is None else self._at(self._clock.monotonic())

    def monotonic(self) -> float:
        """Answer the steady clock."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._clock.sleep(seconds)

    def _at(self, steady: float) -> datetime:
        assert self._best is not None
        heard_at, shown = self._best
        return shown + timedelta(seconds=steady - heard_at)


def _certain(look: tuple[float, datetime]) -> float:
    heard_at, shown = look
    return shown.timestamp() - heard_at
