"""What a trigger that lives in this process owes its listener: the books that ``wheel`` and ``database`` both keep."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from duetime.clock import Clock
from duetime.loop import first_of
from duetime.trigger import Arming, ArmResult, Purpose, Signal, TriggerHealth, TriggerLimits
from duetime.wheel import Wheel, seconds_until, tick_of, ticks_passed

AT_ONCE = 1000
Key = tuple[str, Purpose]


@dataclass(slots=True)
class _Owed:
    at: datetime
    token: str | None = None
    """The word by which it was said last; None where it waits in the wheel."""


class OwedTrigger:
    """Keeps armings in a wheel and says each when it is time; what was said stays owed until it is settled.

    A signal's token is the number of its delivery. Whoever settles or postpones with an older number is ignored, and so
    is whoever does it after the order was armed again. A listener that begins hears all that is unsettled again.
    """

    limits: TriggerLimits

    def __init__(self, clock: Clock, *, name: str) -> None:
        """Tell the time by ``clock``."""
        self.name = name
        self._clock = clock
        self._owed: dict[Key, _Owed] = {}
        self._wheel: Wheel[Key] = Wheel()
        self._number = 0
        self._changed = asyncio.Event()
        self._closed = False

    async def arm(self, armings: Sequence[Arming]) -> ArmResult:
        """Take all of them; a later arming replaces the earlier one."""
        self._owe(((arming.order_no, arming.purpose), arming.at) for arming in armings)
        return ArmResult()

    def _owe(self, items: Iterable[tuple[Key, datetime]]) -> None:
        placed = [(key, at) for key, at in items]
        self._owed.update((key, _Owed(at)) for key, at in placed)
        self._wheel.put((key, self._say_at(at)) for key, at in placed)
        self._changed.set()

    def _say_at(self, at: datetime) -> int:
        return tick_of(at)

    async def disarm(self, order_nos: Sequence[str]) -> None:
        """Forget these orders."""
        keys = [(order_no, purpose) for order_no in order_nos for purpose in Purpose]
        self._wheel.discard(keys)
        for key in keys:
            self._owed.pop(key, None)

    async def signals(self) -> AsyncIterator[Sequence[Signal]]:
        """Say what is owed now, earliest first; sleep until there is more."""
        # What was said, or taken out of the wheel to be said, when the last listener ended.
        left = [(key, self._say_at(owed.at)) for key, owed in self._owed.items() if key not in self._wheel]
        self._wheel.put(left)
        while not self._closed:
            self._changed.clear()
            fired = self._wheel.advance(ticks_passed(self._clock.now()))
            for n in range(0, len(fired), AT_ONCE):
                signals = [self._say(key) for key in fired[n : n + AT_ONCE] if key in self._owed]
                if signals:
                    yield signals
            await self._wait()

    def _say(self, key: Key) -> Signal:
        self._number += 1
        owed = self._owed[key]
        owed.token = str(self._number)
        return Signal(*key, owed.token, owed.at)

    async def _wait(self) -> None:
        """Wait for the next tick or for a change, whichever comes first."""
        await first_of(self._clock, seconds_until(self._wheel.next_at(), self._clock.now()), self._changed)

    async def settle(self, signals: Sequence[Signal]) -> None:
        """Owe these no longer."""
        self._answered(signals, self._forget)

    def _forget(self, key: Key) -> None:
        del self._owed[key]

    async def postpone(self, signals: Sequence[Signal], until: datetime) -> None:
        """Say these again at ``until``."""
        self._answered(signals, lambda key: self._owe([(key, until)]))

    def _answered(self, signals: Sequence[Signal], act: Callable[[Key], None]) -> None:
        for signal in signals:
            key = (signal.order_no, signal.purpose)
            owed = self._owed.get(key)
            if owed is not None and owed.token == signal.token:
                act(key)

    async def ping(self) -> TriggerHealth:
        """Say how many orders it keeps."""
        return TriggerHealth(not self._closed, f"{len(self._owed)} orders kept", {"kept": len(self._owed)})

    async def aclose(self) -> None:
        """End ``signals``."""
        self._closed = True
        self._changed.set()
