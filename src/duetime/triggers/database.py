"""The trigger ``database``: reads the next seconds of deadlines from the store; no middleware.

Every ``ahead / 2`` it reads the orders that are due between ``ahead`` ago and ``ahead`` from now, and says those that
it has not said for this deadline yet. The windows overlap on purpose: a transaction that commits late may bring an
order whose deadline is nearer than others that were read before, and a place from which to read on would pass over it.

=======================================  ====================================================================
what happens                             what follows
=======================================  ====================================================================
an order commits late, near its          the next window has it: up to ``ahead / 2`` late
deadline
an order commits later than ``ahead``    the sweep's
after its deadline
a deadline is moved to a later one       the old one is said in vain, and the new one when its window comes
the store is away                        it is asked again, with growing pauses; what was due for longer than
                                         ``ahead`` meanwhile is the sweep's
more is due than can be closed           what was read is kept, up to 100,000 orders, until the listener comes back for
                                         more; the rest is the sweep's
=======================================  ====================================================================

It keeps in memory what lies within its windows, however many orders are pending.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from duetime.loop import Loop
from duetime.observer import Observers
from duetime.order import Order
from duetime.store import DueQuery, PageKey, Store
from duetime.store_time import StoreTime
from duetime.trigger import Arming, ArmResult, NotTaken, Purpose, Signal, TriggerHealth, TriggerLimits
from duetime.triggers.owed import Key, OwedTrigger
from duetime.wheel import tick_of

KEPT_AT_MOST = 100_000
SHORTEST_AHEAD = timedelta(milliseconds=100)
"""A shorter look ahead would ask the store without a pause."""

_FORGOTTEN_AFTER = 3
"""Windows after which an order is forgotten that was seen: no later one reaches it."""


@dataclass(frozen=True, slots=True)
class DatabaseTriggerOptions:
    """``ahead``: how far it looks. ``grace``: as in closing. ``not_before``: older deadlines are not read."""

    ahead: timedelta = timedelta(seconds=2)
    grace: timedelta = timedelta(0)
    not_before: datetime | None = None
    page_size: int = 1000


class DatabaseTrigger(OwedTrigger):
    """Fulfils ``duetime.trigger.Trigger`` on any store. Signals come up to ``ahead`` early."""

    def __init__(
        self,
        store: Store,
        time: StoreTime,
        options: DatabaseTriggerOptions,
        *,
        name: str,
        observers: Observers | None = None,
    ) -> None:
        """Read ``store``, whose time ``time`` keeps."""
        super().__init__(time, name=name)
        options = replace(options, ahead=max(options.ahead, SHORTEST_AHEAD))
        self.limits = TriggerLimits(
            longest_delay=None,
            precision=options.ahead,
            survives_restart=True,
            can_disarm=False,
            redelivers_after=None,
            redelivers_to_next=True,
        )
        self._store = store
        self._time = time
        self._options = options
        self._seen: dict[str, datetime] = {}
        """Orders of the last windows and their deadlines, whatever became of them since."""
        self._far: set[Key] = set()
        """What was postponed beyond the windows: it does not count towards what may be kept."""
        self._observers = observers or Observers()
        self._error = ""
        self.mine: Callable[[str], bool] = lambda _: True
        """Which orders that are read are said: one that another worker has is not *seen*, for the case that it dies."""

    async def arm(self, armings: Sequence[Arming]) -> ArmResult:
        """Keep what lies within the next window; of what is further ahead the store's rows will tell.

        Orders that are armed must be committed. Reminders further ahead are not taken.
        """
        far = self._time.now() + 2 * self._options.ahead
        near = [arming for arming in armings if arming.at <= far]
        self._seen.update((arming.order_no, arming.at) for arming in near if arming.purpose is Purpose.CLOSE)
        await super().arm(near)
        replaced = {(one.order_no, one.purpose) for one in armings if one.at > far}
        for key in replaced - {(one.order_no, one.purpose) for one in near}:
            self._wheel.discard([key])
            self._owed.pop(key, None)
        why = "it looks ahead for deadlines only"
        far_reminders = (one for one in armings if one.at > far and one.purpose is Purpose.REMIND)
        return ArmResult(tuple(NotTaken(one, why) for one in far_reminders))

    def _say_at(self, at: datetime) -> int:
        return tick_of(at - self._options.ahead)

    async def signals(self) -> AsyncIterator[Sequence[Signal]]:
        """Say what the windows bring."""
        seconds = self._options.ahead.total_seconds() / 2
        name = f"the look ahead of trigger {self.name}"
        looking = Loop(name, self._look_ahead, interval_seconds=seconds, clock=self._time, observers=self._observers)
        looking.start()
        try:
            async with aclosing(super().signals()) as source:  # type: ignore[type-var]  # it is a generator
                async for signals in source:
                    yield signals
        finally:
            await looking.stop(patience_seconds=0)

    async def _look_ahead(self) -> None:
        try:
            if self._has_room():
                await self._look()
        except Exception as error:
            self._error = str(error) or repr(error)
            raise
        self._error = ""

    def _has_room(self) -> bool:
        return len(self._owed) - len(self._far) < KEPT_AT_MOST

    async def _look(self) -> None:
        options, after = self._options, None
        while True:
            asked_at = self._time.monotonic()
            async with self._store.transaction(write=False) as tx:
                now = await tx.now()
                self._time.heard(asked_at, now, self._time.monotonic())
                due_by, since = now + options.ahead - options.grace, now - options.ahead - options.grace
                oldest = since if options.not_before is None else max(since, options.not_before)
                orders = await tx.due_page(DueQuery(due_by, options.page_size, after, oldest))
            self._found(orders)
            if len(orders) < options.page_size or not self._has_room():
                break
            after = PageKey(orders[-1].expire_at, orders[-1].id, orders[-1].page_key)
        long_ago = now - _FORGOTTEN_AFTER * options.ahead
        self._seen = {no: at for no, at in self._seen.items() if at >= long_ago}

    def _found(self, orders: Sequence[Order]) -> None:
        deadlines = [(one.order_no, one.expire_at + self._options.grace) for one in orders if one.expire_at is not None]
        new = [(no, at) for no, at in deadlines if self._seen.get(no) != at and self.mine(no)]
        self._seen.update(new)
        self._owe(((order_no, Purpose.CLOSE), at) for order_no, at in new)

    async def postpone(self, signals: Sequence[Signal], until: datetime) -> None:
        """Say these again at ``until``."""
        await super().postpone(signals, until)
        if until > self._time.now() + 2 * self._options.ahead:
            self._far.update((signal.order_no, signal.purpose) for signal in signals)
            self._far &= self._owed.keys()

    def _say(self, key: Key) -> Signal:
        self._far.discard(key)
        return super()._say(key)

    def _forget(self, key: Key) -> None:
        self._far.discard(key)
        super()._forget(key)

    async def ping(self) -> TriggerHealth:
        """Say how many orders lie within its windows, and whether the store answers."""
        if self._error:
            return TriggerHealth(up=False, summary=f"the store does not answer: {self._error}")
        return await super().ping()
