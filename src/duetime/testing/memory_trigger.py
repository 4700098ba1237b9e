"""The smallest trigger that keeps the contract: what the suite runs on, and a reading aid for those who write one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from duetime.clock import Clock
from duetime.trigger import Arming, ArmResult, NotTaken, Purpose, Signal, TriggerHealth, TriggerLimits

_AT_ONCE = 500

_LIMITS = TriggerLimits(
    longest_delay=timedelta(days=30),
    precision=timedelta(0),
    survives_restart=False,
    can_disarm=True,
    redelivers_after=timedelta(seconds=10),
    redelivers_to_next=True,
)


@dataclass(frozen=True, slots=True)
class _Owed:
    """What is owed for one order and purpose: when it is said next, and by which word it was said last, if ever."""

    at: datetime
    say_at: datetime
    token: str | None = None


class MemoryTrigger:
    """Keeps armings in a dictionary; a signal that is not settled within the lease comes again.

    A signal's token is the number of its delivery. Whoever settles or postpones with an older number is ignored, and so
    is whoever does it after the order was armed again: the new arming has no token yet.
    """

    def __init__(self, clock: Clock, *, name: str = "memory", limits: TriggerLimits = _LIMITS) -> None:
        """Tell the time by ``clock``."""
        self.name = name
        self.limits = limits
        self._clock = clock
        self._owed: dict[tuple[str, Purpose], _Owed] = {}
        self._number = count(1)
        self._changed = asyncio.Event()
        self._closed = False

    async def arm(self, armings: Sequence[Arming]) -> ArmResult:
        """Take what is not too far ahead; a later arming replaces the earlier one."""
        longest, now = self.limits.longest_delay, self._clock.now()
        too_far = [arming for arming in armings if longest is not None and arming.at - now > longest]
        refused = {id(arming) for arming in too_far}
        for arming in armings:
            if id(arming) not in refused:
                self._owed[arming.order_no, arming.purpose] = _Owed(arming.at, arming.at)
        self._changed.set()
        return ArmResult(tuple(NotTaken(arming, f"further ahead than {longest}") for arming in too_far))

    async def disarm(self, order_nos: Sequence[str]) -> None:
        """Forget these orders."""
        for order_no in order_nos:
            for purpose in Purpose:
                self._owed.pop((order_no, purpose), None)

    async def signals(self) -> AsyncIterator[Sequence[Signal]]:
        """Yield what is owed now, in the order of its instants; sleep until there is more."""
        while not self._closed:
            self._changed.clear()
            said = self._say()
            if said:
                yield said
            else:
                await self._wait()

    def _say(self) -> list[Signal]:
        now = self._clock.now()
        due = sorted((owed.say_at, key) for key, owed in self._owed.items() if owed.say_at <= now)
        return [self._say_one(key, now) for _, key in due[:_AT_ONCE]]

    def _say_one(self, key: tuple[str, Purpose], now: datetime) -> Signal:
        owed, token = self._owed[key], str(next(self._number))
        again = now + (self.limits.redelivers_after or timedelta.max)
        self._owed[key] = _Owed(owed.at, again, token)
        return Signal(*key, token, owed.at)

    async def _wait(self) -> None:
        """Wait for the next instant or for a change, whichever comes first."""
        now = self._clock.now()
        ahead = min((owed.say_at - now for owed in self._owed.values()), default=timedelta(hours=1))
        sleeping = asyncio.ensure_future(self._clock.sleep(ahead.total_seconds()))
        waking = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait([sleeping, waking], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()

    async def settle(self, signals: Sequence[Signal]) -> None:
        """Owe these no longer."""
        for signal in signals:
            if self._is_current(signal):
                del self._owed[signal.order_no, signal.purpose]

    async def postpone(self, signals: Sequence[Signal], until: datetime) -> None:
        """Say these again at ``until``."""
        for signal in signals:
            if self._is_current(signal):
                self._owed[signal.order_no, signal.purpose] = _Owed(until, until)
        self._changed.set()

    def _is_current(self, signal: Signal) -> bool:
        owed = self._owed.get((signal.order_no, signal.purpose))
        return owed is not None and owed.token == signal.token

    async def ping(self) -> TriggerHealth:
        """Say how many are armed."""
        return TriggerHealth(not self._closed, f"{len(self._owed)} armed", {"armed": len(self._owed)})

    async def aclose(self) -> None:
        """End ``signals``."""
        self._closed = True
        self._changed.set()
