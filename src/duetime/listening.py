"""Listening: what triggers say, held until it is due by the store's clock, and closed in batches.

    triggers ──signals──► wheel ──due──► batcher ──batch──► closing ──outcomes──► settle · again later

Triggers are asked to call a little early, or do so by themselves. The wheel here keeps each order until its deadline
plus grace has passed by the store's clock (``store_time``), so that every trigger is as precise as that clock.

======================================  =====================================================================
an attempt finds                        what becomes of the signal
======================================  =====================================================================
closed, or done with in any other way   settled
not due yet                             back into the wheel for the instant that the store named; where that is
                                        far ahead, postponed by the trigger
busy (somebody holds the row)           back into the wheel with a growing pause; after some tries settled: the
                                        sweep comes again
blocked                                 settled: ``retrying`` has written it down and tries again; until then it is
                                        settled untried, whoever says it
the store stays away                    back into the wheel
nothing, because the process ends       unsettled: it comes again elsewhere, or the sweep finds the order
======================================  =====================================================================
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta

from duetime.batcher import Batcher, BatcherOptions, Entry
from duetime.closing import CloseRequest
from duetime.errors import DuetimeError, TriggerError
from duetime.loop import Loop
from duetime.observer import Observers
from duetime.order import Blocked, Busy, NotYetDue, Outcome, Placed
from duetime.patience import jittered
from duetime.retrying import Retrying
from duetime.store import Store
from duetime.store_time import StoreTime
from duetime.trigger import Arming, Purpose, Signal, Trigger
from duetime.wheel import Wheel, seconds_until, tick_of, ticks_passed

LOOK_AT_THE_CLOCK_SECONDS = 5.0
BUSY_TRIES = 8
BUSY_PAUSE_SECONDS = 0.05
AGAIN_SECONDS = 0.05
"""After how long an order is tried again that is due by what we know of the store's time, not by the store's own."""

_IDLE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class ListeningOptions:
    """``grace``: as in closing. ``batch_size``, ``concurrency``: of what is closed at once.

    ``margin``: how long the sweep leaves due orders to the triggers while they run. ``held_at_most``: a signal for an
    instant further ahead is given back to its trigger; longer than any trigger is early by itself. ``orders_at_most``:
    orders held here; at that number the triggers are kept waiting.
    """

    grace: timedelta
    margin: timedelta = timedelta(seconds=2)
    held_at_most: timedelta = timedelta(seconds=10)
    batch_size: int = 500
    concurrency: int = 2
    orders_at_most: int = 50_000


@dataclass(frozen=True, slots=True)
class Sources:
    """The triggers, and the store's time, which those that read the store keep too."""

    triggers: Sequence[Trigger]
    time: StoreTime


@dataclass(frozen=True, slots=True)
class Said:
    """A signal and who said it."""

    trigger: Trigger
    signal: Signal


class Listening:
    """Closes what the triggers say."""

    def __init__(
        self,
        store: Store,
        retrying: Retrying,
        sources: Sources,
        options: ListeningOptions,
        *,
        observers: Observers | None = None,
    ) -> None:
        """Listen to ``sources``, and close through ``retrying``."""
        self._store = store
        self._retrying = retrying
        self.triggers = sources.triggers
        self._options = options
        self._time = sources.time
        self._observers = observers or Observers()
        self._wheel: Wheel[str] = Wheel()
        self._entries: dict[str, Entry[Said]] = {}
        self._placed: list[Arming] = []
        self._batcher: Batcher[Said] | None = None
        self._loops: tuple[Loop, ...] = ()
        self._hearing: list[Loop] = []
        self._room = asyncio.Event()
        self._any_failed = True
        """Whether any order waits after a failure; looked up with the clock, and known at once for our own."""

    def start(self) -> None:
        """Begin to listen."""
        options = self._options
        sizes = BatcherOptions(options.batch_size, options.concurrency)
        self._batcher = Batcher(self._close, sizes)
        self._turning = self._loop("the wheel", self._turn, _IDLE_SECONDS)
        self._arming = self._loop("arming", self._arm, _IDLE_SECONDS)
        self._hearing = [self._loop(f"trigger {one.name}", self._hear(one), 1.0) for one in self.triggers]
        self._looking = self._loop("reading the store's clock", self._look_at_the_clock, LOOK_AT_THE_CLOCK_SECONDS)
        self._loops = (self._looking, self._turning, self._arming, *self._hearing)
        self._batcher.start()
        for loop in self._loops:
            loop.start()

    def _loop(self, name: str, work: "Work", seconds: float) -> Loop:
        return Loop(name, work, interval_seconds=seconds, clock=self._time, observers=self._observers)

    async def stop(self, *, patience_seconds: float = 8.0) -> None:
        """Stop listening; the batches in hand are finished."""
        loops, self._loops = self._loops, ()
        async with asyncio.TaskGroup() as stopping:
            if self._batcher is not None:
                stopping.create_task(self._batcher.stop(patience_seconds=patience_seconds))
            for loop in loops:
                # Hearing can be cut short anywhere: what is unsettled comes again.
                cut = loop in self._hearing
                stopping.create_task(loop.stop(patience_seconds=0.0 if cut else patience_seconds))

    async def margin_now(self) -> timedelta:
        """Answer how long the sweep leaves due orders to the triggers: not at all where none of them works."""
        working = [(await trigger.ping()).up for trigger in self.triggers]
        return self._options.margin if any(working) else timedelta(0)

    async def aclose(self) -> None:
        """Close the triggers."""
        for trigger in self.triggers:
            await trigger.aclose()

    def placed(self, orders: Sequence[Placed]) -> None:
        """Hear that orders were placed and committed by this process: they need not be looked for."""
        if self._loops:
            grace = self._options.grace
            self._placed += [Arming(one.order_no, Purpose.CLOSE, one.expire_at + grace) for one in orders]
            self._arming.wake()

    async def _arm(self) -> None:
        armings, self._placed = self._placed, []
        for trigger in self.triggers if armings else ():
            try:
                refused = (await trigger.arm(armings)).not_taken
            except DuetimeError as error:
                self._observers.troubled(f"trigger {trigger.name} did not take {len(armings)} orders", error)
            else:
                if refused:
                    words = f"trigger {trigger.name} did not take {len(refused)} of {len(armings)} orders"
                    self._observers.troubled(words, TriggerError(refused[0].why))

    async def _look_at_the_clock(self) -> None:
        asked_at = self._time.monotonic()
        async with self._store.transaction(write=False) as tx:
            self._time.heard(asked_at, await tx.now(), self._time.monotonic())
            self._any_failed = await self._retrying.failures.any_waiting(tx)
        self._turning.wake()

    # From signals to batches

    def _hear(self, trigger: Trigger) -> "Work":
        async def hear() -> None:
            async with aclosing(trigger.signals()) as source:  # type: ignore[type-var]  # an iterator may be a generator
                async for signals in source:
                    await self._take(trigger, signals)

        return hear

    async def _take(self, trigger: Trigger, signals: Sequence[Signal]) -> None:
        while len(self._entries) >= self._options.orders_at_most:
            self._room.clear()
            await self._room.wait()
        far, other, later = self._time.now() + self._options.held_at_most, [], []
        for signal in signals:
            if signal.purpose is not Purpose.CLOSE:
                other.append(Said(trigger, signal))
            elif signal.at is not None and signal.at > far:
                later.append((Said(trigger, signal), signal.at))
            else:
                at = self._time.now() if signal.at is None else signal.at
                self._put(Entry(signal.order_no, tick_of(at), [Said(trigger, signal)]))
        await self._settle(other, later)

    def _put(self, entry: Entry[Said]) -> None:
        held = self._entries.get(entry.key)
        if held is not None:
            # A deadline that was moved says so when it is tried: not due yet, and when.
            entry = Entry(entry.key, min(entry.due, held.due), [*held.items, *entry.items], held.tries)
        self._entries[entry.key] = entry
        self._wheel.put([(entry.key, entry.due)])
        self._turning.wake()

    async def _turn(self) -> float | None:
        assert self._batcher is not None
        fired = self._wheel.advance(ticks_passed(self._time.now()))
        due = [self._entries.pop(order_no) for order_no in fired]
        self._room.set()
        await self._batcher.put(due)
        return seconds_until(self._wheel.next_at(), self._time.now())

    # From batches to outcomes

    async def _close(self, batch: Sequence[Entry[Said]]) -> None:
        try:
            failed = await self._failed_before(batch)
            fresh = [one for one in batch if one.key not in failed]
            requests = [CloseRequest(one.key, source=one.items[0].trigger.name) for one in fresh]
            outcomes = await self._retrying.close(requests)
        except Exception as error:  # noqa: BLE001 - a writer that ends because of one batch closes nothing any more
            self._observers.troubled("closing what triggers said failed and will be tried again", error)
            for entry in batch:
                self._again(entry, self._time.now() + timedelta(seconds=jittered(1.0)))
            return
        await self._settle([said for one in batch if one.key in failed for said in one.items], [])
        await self._answer(fresh, outcomes)

    async def _failed_before(self, batch: Sequence[Entry[Said]]) -> set[str]:
        """Answer which of these failed before and are left to ``retrying``, as the sweep leaves them."""
        if not self._any_failed:
            return set()
        async with self._store.transaction(write=False) as tx:
            return await self._retrying.failures.waiting(tx, [one.key for one in batch])

    async def _answer(self, batch: Sequence[Entry[Said]], outcomes: Sequence[Outcome]) -> None:
        done: list[Said] = []
        later: list[tuple[Said, datetime]] = []
        now = self._time.now()
        far = now + self._options.held_at_most
        for entry, outcome in zip(batch, outcomes, strict=True):
            match outcome:
                case NotYetDue(due_at=datetime() as due_at) if due_at > far:
                    later += [(said, due_at) for said in entry.items]
                case NotYetDue(due_at=datetime() as due_at) if due_at > now:
                    self._again(entry, due_at)
                case NotYetDue(due_at=datetime()):
                    self._looking.wake()
                    self._again(entry, now + timedelta(seconds=AGAIN_SECONDS))
                case Busy() if entry.tries < BUSY_TRIES:
                    pause = jittered(BUSY_PAUSE_SECONDS * 2**entry.tries)
                    self._again(entry, now + timedelta(seconds=pause), tries=entry.tries + 1)
                case Blocked():
                    self._any_failed = True
                    done += entry.items
                case _:
                    done += entry.items
        await self._settle(done, later)

    def _again(self, entry: Entry[Said], at: datetime, *, tries: int = 0) -> None:
        self._put(Entry(entry.key, tick_of(at), list(entry.items), tries))

    async def _settle(self, done: Sequence[Said], later: Sequence[tuple[Said, datetime]]) -> None:
        for trigger in self.triggers:
            settled = [said.signal for said in done if said.trigger is trigger]
            postponed: dict[datetime, list[Signal]] = {}
            for said, until in later:
                if said.trigger is trigger:
                    postponed.setdefault(until, []).append(said.signal)
            try:
                if settled:
                    await trigger.settle(settled)
                for until, signals in postponed.items():
                    await trigger.postpone(signals, until)
            except Exception as error:  # noqa: BLE001 - what it did not hear comes again, and is settled then
                self._observers.troubled(f"trigger {trigger.name} did not hear what became of its signals", error)


Work = Callable[[], Awaitable[float | None]]
