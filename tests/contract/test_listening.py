"""From a trigger's word to the close: on time by the store's clock, once, whatever the trigger and the clocks do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from duetime.closing import Closing, ClosingOptions
from duetime.hold import HeldHold, Hold
from duetime.listening import Listening, ListeningOptions, Sources
from duetime.observer import Attempt, Observers
from duetime.order import Blocked, Busy, NotYetDue, Outcome, Placed
from duetime.placing import Placement, Placing, Timeouts
from duetime.retrying import WAITING, Failures, Retrying, RetryingOptions
from duetime.shop import sample_assets
from duetime.store import Failure, FailureQuery, Quarantine, Stage, Store
from duetime.store_time import StoreTime
from duetime.stores.memory import MemoryStore
from duetime.testing import ManualClock
from duetime.testing.faults import Fault, FaultsAt, FaultyStore
from duetime.testing.memory_hand import MemoryShopHand
from duetime.testing.memory_trigger import MemoryTrigger
from duetime.testing.shop_hand import ShopRow
from duetime.trigger import Arming, Purpose, Trigger
from duetime.triggers.database import DatabaseTrigger, DatabaseTriggerOptions
from duetime.triggers.wheel import WheelTrigger
from tests.support.silent import SilentObserver

ASSETS = {asset.kind: asset for asset in sample_assets()}
GRACE = timedelta(seconds=1)
MILLISECOND = timedelta(milliseconds=1)


@dataclass
class Attempts(SilentObserver):
    """Every outcome that was answered."""

    outcomes: list[Outcome] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def troubled(self, what: str, error: BaseException) -> None:  # noqa: ARG002 - as the contract says
        self.troubles.append(what)

    def attempted(self, attempt: Attempt) -> None:
        self.outcomes += [outcome for _, outcome in attempt.outcomes]


@dataclass
class Shop:
    clock: ManualClock
    store: MemoryStore
    hand: MemoryShopHand
    listening: Listening
    trigger: Trigger
    placing: Placing
    heard: Attempts

    async def add(self, *order_nos: str, due_in: float) -> datetime:
        at = self.clock.now() + timedelta(seconds=due_in)
        await self.hand.add_orders([ShopRow(order_no, at) for order_no in order_nos])
        return at

    def another(self) -> Listening:
        """Another worker with its own trigger."""
        time, told = StoreTime(self.clock), Observers([self.heard])
        sources = Sources([database(self.store, time, told)], time)
        return Listening(self.store, retrying_on(self.store, told), sources, ListeningOptions(GRACE), observers=told)

    def look_ahead_in(self, store: Store) -> None:
        """Have the trigger read from this store from now on."""
        assert isinstance(self.trigger, DatabaseTrigger)
        self.trigger._store = store

    async def failures(self) -> list[Failure]:
        async with self.store.transaction(write=False) as tx:
            return await tx.find_failures(FailureQuery(None, WAITING, Stage.CLOSE))

    async def closed(self) -> dict[str, datetime]:
        rows = (await self.hand.orders()).values()
        return {row.order_no: row.closed_at for row in rows if row.status == "closed" and row.closed_at is not None}


def retrying_on(store: MemoryStore, told: Observers) -> Retrying:
    closing = Closing(store, ClosingOptions(GRACE, ASSETS), clock=store.clock, observers=told)
    return Retrying(store, closing, Failures(store, RetryingOptions(), clock=store.clock))


def database(store: MemoryStore, time: StoreTime, told: Observers) -> Trigger:
    return DatabaseTrigger(store, time, DatabaseTriggerOptions(grace=GRACE), name="database", observers=told)


def wheel(_: MemoryStore, time: StoreTime, __: Observers) -> Trigger:
    return WheelTrigger(time, name="wheel")


def memory(store: MemoryStore, _: StoreTime, __: Observers) -> Trigger:
    return MemoryTrigger(store.clock)


@asynccontextmanager
async def listening(kind: object = database, **limits: int) -> AsyncIterator[Shop]:
    clock, heard = ManualClock(), Attempts()
    store, time, told = MemoryStore(clock=clock), StoreTime(clock), Observers([heard])
    retrying = retrying_on(store, told)
    trigger: Trigger = kind(store, time, told)  # type: ignore[operator]  # one of the three above
    options = ListeningOptions(GRACE, **limits)  # type: ignore[arg-type]  # counts
    listener = Listening(store, retrying, Sources([trigger], time), options, observers=told)
    placing = Placing(store, ASSETS, Timeouts(timedelta(minutes=30)), clock=clock)
    placing.on_placed = listener.placed
    listener.start()
    await clock.advance(0.01)
    try:
        yield Shop(clock, store, MemoryShopHand(store), listener, trigger, placing, heard)
    finally:
        stopping = listener.stop(patience_seconds=5)
        await stopping


async def test_an_order_closes_in_the_millisecond_in_which_it_is_due_and_not_before() -> None:
    async with listening() as shop:
        at = await shop.add("so-1", due_in=7.3005)
        due = at + GRACE
        await shop.clock.advance(due - shop.clock.now() - MILLISECOND)
        assert await shop.closed() == {}
        await shop.clock.advance(2 * MILLISECOND)
        assert due <= (await shop.closed())["so-1"] <= due + MILLISECOND
        assert len(shop.heard.outcomes) == 1


async def test_many_orders_of_one_instant_close_together() -> None:
    async with listening() as shop:
        await shop.add(*(f"so-{n}" for n in range(1200)), due_in=5)
        await shop.clock.advance(6.01)
        assert len(await shop.closed()) == 1200
        assert len(shop.heard.outcomes) == 1200


async def test_an_order_placed_here_closes_though_nothing_looks_ahead() -> None:
    async with listening(wheel) as shop:
        (placed,) = await shop.placing.place([Placement("so-1")])
        assert isinstance(placed, Placed)
        await shop.clock.advance(timedelta(minutes=30) + GRACE + MILLISECOND)
        assert set(await shop.closed()) == {"so-1"}


async def test_what_was_not_placed_is_not_armed() -> None:
    async with listening(wheel) as shop:
        outcomes = await shop.placing.place([Placement("so-1", [Hold("stock", "no such", 1)])])
        assert not isinstance(outcomes[0], Placed)
        await shop.clock.advance(timedelta(hours=1))
        assert shop.heard.outcomes == []


async def test_an_extension_costs_one_early_attempt_and_closes_at_the_new_deadline() -> None:
    async with listening() as shop:
        await shop.add("so-1", due_in=3)
        await shop.clock.advance(3.5)
        later = shop.clock.now() + timedelta(seconds=100)
        await shop.hand.set_expire_at("so-1", later)
        await shop.clock.advance(later + GRACE - shop.clock.now() - MILLISECOND)
        assert await shop.closed() == {}
        assert len(shop.heard.outcomes) == 1
        await shop.clock.advance(2 * MILLISECOND)
        assert set(await shop.closed()) == {"so-1"}
        assert len(shop.heard.outcomes) == 2


async def test_a_trigger_that_is_early_and_repeats_itself_makes_nobody_early() -> None:
    async with listening(memory) as shop:
        at = await shop.add("so-1", due_in=20)
        await shop.trigger.arm([Arming("so-1", Purpose.CLOSE, shop.clock.now())])
        await shop.clock.advance(at + GRACE - shop.clock.now() - MILLISECOND)
        assert await shop.closed() == {}
        assert len(shop.heard.outcomes) <= 2
        await shop.clock.advance(2 * MILLISECOND)
        assert set(await shop.closed()) == {"so-1"}
        await shop.clock.advance(60)
        assert sum(outcome.order_no == "so-1" for outcome in shop.heard.outcomes) <= 3


async def test_a_signal_some_seconds_early_is_tried_once_and_then_held_until_it_is_due() -> None:
    async with listening(memory) as shop:
        at = await shop.add("so-1", due_in=5)
        await shop.trigger.arm([Arming("so-1", Purpose.CLOSE, shop.clock.now())])
        await shop.clock.advance(at + GRACE - shop.clock.now() - MILLISECOND)
        assert [type(outcome) for outcome in shop.heard.outcomes] == [NotYetDue]
        await shop.clock.advance(2 * MILLISECOND)
        assert set(await shop.closed()) == {"so-1"}
        assert len(shop.heard.outcomes) == 2


async def test_a_busy_row_is_tried_again_soon_and_in_the_end_left_to_the_sweep() -> None:
    async with listening() as shop:
        await shop.add("so-1", "so-2", due_in=1)
        async with shop.hand.lock_order("so-1"):
            await shop.clock.advance(2.1)
            assert set(await shop.closed()) == {"so-2"}
        await shop.clock.advance(3)
        assert set(await shop.closed()) == {"so-1", "so-2"}
        await shop.add("so-3", due_in=1)
        async with shop.hand.lock_order("so-3"):
            await shop.clock.advance(60)
        busy = [outcome for outcome in shop.heard.outcomes if isinstance(outcome, Busy) and outcome.order_no == "so-3"]
        assert 3 < len(busy) < 15


async def test_a_store_whose_clock_is_set_back_closes_nothing_early_and_is_not_pestered() -> None:
    async with listening() as shop:
        at = await shop.add("so-1", due_in=5)
        await shop.clock.advance(4.5)
        shop.clock.jump(timedelta(minutes=-10))
        await shop.clock.advance(at + GRACE - shop.clock.now() - MILLISECOND)
        assert await shop.closed() == {}
        assert len(shop.heard.outcomes) < 5
        await shop.clock.advance(2 * MILLISECOND)
        assert set(await shop.closed()) == {"so-1"}


async def test_a_store_whose_clock_is_set_ahead_closes_what_is_due_by_it() -> None:
    async with listening() as shop:
        await shop.add("so-1", due_in=100)
        shop.clock.jump(timedelta(seconds=101))
        await shop.clock.advance(1.2)
        assert set(await shop.closed()) == {"so-1"}


async def test_it_can_be_stopped_and_started_again() -> None:
    async with listening() as shop:
        await shop.listening.stop(patience_seconds=5)
        await shop.add("so-1", due_in=1)
        await shop.clock.advance(3)
        assert await shop.closed() == {}
        shop.listening.start()
        await shop.clock.advance(0.1)
        assert set(await shop.closed()) == {"so-1"}


async def test_a_clock_of_the_stores_that_went_back_a_little_is_not_asked_hundreds_of_times() -> None:
    async with listening(wheel) as shop:
        (placed,) = await shop.placing.place([Placement("so-1")])
        assert isinstance(placed, Placed)
        due = placed.expire_at + GRACE
        await shop.clock.advance(due - shop.clock.now() - timedelta(seconds=1))
        shop.clock.jump(timedelta(seconds=-3))
        await shop.clock.advance(due - shop.clock.now() - MILLISECOND)
        assert await shop.closed() == {}
        assert len(shop.heard.outcomes) < 10
        await shop.clock.advance(0.1)
        assert set(await shop.closed()) == {"so-1"}


async def test_workers_that_meet_a_bad_order_at_once_count_one_failure() -> None:
    async with listening() as shop:
        others = [shop.another() for _ in range(4)]
        for other in others:
            other.start()
        await shop.add("bad", "good", due_in=3)
        await shop.hand.add_holds([HeldHold("bad", Hold("stock", "no such", 1))])
        await shop.clock.advance(4.5)
        failures = await shop.failures()
        assert [(one.order_no, one.failures, one.state) for one in failures] == [("bad", 1, Quarantine.RETRYING)]
        assert set(await shop.closed()) == {"good"}
        for other in others:
            await other.stop()


async def test_what_failed_before_is_left_to_the_retries_whatever_a_trigger_says() -> None:
    async with listening(memory) as shop:
        await shop.add("bad", due_in=-5)
        await shop.hand.add_holds([HeldHold("bad", Hold("stock", "no such", 1))])
        await shop.trigger.arm([Arming("bad", Purpose.CLOSE, shop.clock.now())])
        await shop.clock.advance(0.1)
        assert [type(outcome) for outcome in shop.heard.outcomes] == [Blocked]
        await shop.trigger.arm([Arming("bad", Purpose.CLOSE, shop.clock.now())])
        await shop.clock.advance(0.1)
        assert len(shop.heard.outcomes) == 1
        assert (await shop.trigger.ping()).facts["armed"] == 0


async def test_triggers_wait_while_too_many_orders_are_held() -> None:
    async with listening(memory, orders_at_most=100) as shop:
        at = shop.clock.now() + timedelta(seconds=8)
        await shop.add(*(f"so-{n}" for n in range(2000)), due_in=7)
        await shop.trigger.arm([Arming(f"so-{n}", Purpose.CLOSE, shop.clock.now()) for n in range(2000)])
        await shop.clock.advance(1)
        # The list that was taken before there were too many, and the one that came while it was tried.
        assert len(shop.listening._entries) <= 1000
        await shop.clock.advance(at - shop.clock.now() + timedelta(seconds=20))
        assert len(await shop.closed()) == 2000


async def test_the_sweep_is_given_a_margin_only_while_a_trigger_works() -> None:
    async with listening() as shop:
        assert await shop.listening.margin_now() == timedelta(seconds=2)
        shop.look_ahead_in(FaultyStore(shop.store, FaultsAt({"begin": [Fault()] * 2})))
        await shop.clock.advance(1.5)
        assert await shop.listening.margin_now() == timedelta(0)
        shop.look_ahead_in(shop.store)
        await shop.clock.advance(5)
        assert await shop.listening.margin_now() == timedelta(seconds=2)


async def test_a_look_ahead_that_fails_is_told() -> None:
    async with listening() as shop:
        shop.look_ahead_in(FaultyStore(shop.store, FaultsAt({"begin": [Fault()] * 2})))
        await shop.clock.advance(5)
        assert set(shop.heard.troubles) == {"the look ahead of trigger database failed and will be tried again"}
