"""A loop: work, again and again, until it is told to stop.

Loop and work are two things. The work does one round and says when the next is due (seconds, or None for the usual
interval); the loop repeats it, can be woken early, survives what the work raises, and ends in order.

The contract, held to by ``tests/unit/test_loop.py``:

* ``start`` twice is one start; ``stop`` before ``start`` makes the later start do nothing; ``stop`` twice is one stop;
* ``wake`` while the work runs makes the next wait end at once, so that no call is lost;
* work that raises is reported, and tried again after a growing pause; the loop goes on;
* ``stop`` lets the round in hand finish; after ``stop`` has returned nothing of it is running.
"""

import asyncio
from collections.abc import Awaitable, Callable

from duetime.clock import Clock, SystemClock
from duetime.observer import Observers
from duetime.patience import growing

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0


class Loop:
    """Repeats ``work`` every ``interval_seconds``, and when it is woken."""

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[float | None]],
        *,
        interval_seconds: float,
        clock: Clock | None = None,
        observers: Observers | None = None,
    ) -> None:
        """Prepare; nothing runs before ``start``."""
        self.name = name
        self._work = work
        self._interval_seconds = interval_seconds
        self._clock = clock or SystemClock()
        self._observers = observers or Observers()
        self._awake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._failures = 0

    @property
    def running(self) -> bool:
        """Whether the loop was started and has not ended."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Begin with the first round at once."""
        if self._task is None and not self._stopping:
            self._task = asyncio.create_task(self._run(), name=f"duetime {self.name}")

    def wake(self) -> None:
        """End the present wait, or the next one where none is on."""
        self._awake.set()

    async def stop(self, *, patience_seconds: float = 8.0) -> None:
        """Let the round in hand finish, for up to ``patience_seconds``; then it is cancelled."""
        self._stopping = True
        self.wake()
        if self._task is None:
            return
        _, late = await asyncio.wait({self._task}, timeout=patience_seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self._stopping:
            self._awake.clear()
            pause = await self._round()
            if not self._stopping:
                await self._wait(self._interval_seconds if pause is None else pause)

    async def _round(self) -> float | None:
        try:
            pause = await self._work()
        except Exception as error:  # noqa: BLE001 - a loop that ends because of one bad round forgets every order
            self._failures += 1
            self._observers.troubled(f"{self.name} failed and will be tried again", error)
            return growing(FIRST_PAUSE_SECONDS, self._failures, LONGEST_PAUSE_SECONDS)
        self._failures = 0
        return pause

    async def _wait(self, seconds: float) -> None:
        await first_of(self._clock, seconds, self._awake)


async def first_of(clock: Clock, seconds: float, event: asyncio.Event) -> None:
    """Wait for so long, or until something happens, whichever comes first."""
    sleeping = asyncio.ensure_future(clock.sleep(seconds))
    waking = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sleeping, waking):
            task.cancel()
        await asyncio.gather(sleeping, waking, return_exceptions=True)
