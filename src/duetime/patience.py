"""How long, and how, an attempt is repeated when the store stands in the way.

* A conflict (deadlock, serialization failure, lock time-out) is repeated at once, with a little jitter.
* A lost connection is repeated when the store answers again, with growing pauses. Whether the last commit took place
  is unknown then; every attempt therefore looks for its own fact before it says that somebody else was first.
"""

import random

from duetime.clock import Clock
from duetime.errors import StoreConflict, StoreError, StoreUnavailable
from duetime.observer import Observers
from duetime.store import Store

FIRST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 2.0
_DOUBLINGS_AT_MOST = 40
CONFLICTS_AT_MOST = 8
CONFLICT_SECONDS = 6.0
"""How long conflicts are repeated: each may have waited for a lock for some seconds already."""


class Patience:
    """One attempt's patience with the store."""

    def __init__(self, store: Store, clock: Clock, observers: Observers, *, seconds: float) -> None:
        """Wait up to ``seconds`` in all for a store that is away."""
        self._store = store
        self._clock = clock
        self._observers = observers
        self._seconds = seconds
        self._started = clock.monotonic()
        self.conflicts = 0
        self.losses = 0

    async def after(self, error: StoreError) -> None:
        """Wait for the right moment to try again.

        Raises:
            StoreError: ``error`` itself, where trying again cannot help or the patience is at its end.
        """
        if isinstance(error, StoreUnavailable):
            self.losses += 1
            self._observers.troubled("the store is away or the connection was lost", error)
            await self._until_back(error)
        elif isinstance(error, StoreConflict) and self._may_conflict_again():
            self.conflicts += 1
            await self._clock.sleep(jittered(FIRST_PAUSE_SECONDS * 2**self.conflicts))
        else:
            raise error

    def _may_conflict_again(self) -> bool:
        return self.conflicts < CONFLICTS_AT_MOST and self._clock.monotonic() - self._started < CONFLICT_SECONDS

    async def _until_back(self, error: StoreError) -> None:
        """Pause, longer each time, until the store answers: also a store that answers and then fails is not hurried."""
        pause = FIRST_PAUSE_SECONDS * 2 ** min(self.losses, 10)
        while self._clock.monotonic() - self._started < self._seconds:
            await self._clock.sleep(jittered(min(pause, LONGEST_PAUSE_SECONDS)))
            pause *= 2
            try:
                async with self._store.transaction(write=False) as tx:
                    await tx.now()
                    return
            except StoreError:
                continue
        raise error


def jittered(seconds: float) -> float:
    """Answer between half and all of ``seconds``, so that those who failed together do not come back together."""
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries; nothing secret depends on it


def growing(first_seconds: float, failures: int, longest_seconds: float) -> float:
    """Answer a jittered pause that doubles with each failure, up to ``longest_seconds``, however many there were."""
    return jittered(min(first_seconds * 2 ** min(failures, _DOUBLINGS_AT_MOST), longest_seconds))
