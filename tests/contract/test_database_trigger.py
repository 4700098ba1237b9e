"""The database trigger: the suite of all triggers, and what it finds by itself."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from duetime.store_time import StoreTime
from duetime.stores.memory import MemoryStore
from duetime.testing import ManualClock
from duetime.testing.faults import Fault, FaultsAt, FaultyStore
from duetime.testing.memory_hand import MemoryShopHand
from duetime.testing.shop_hand import ShopRow
from duetime.testing.suites import TriggerBench, TriggerSuite
from duetime.testing.suites.trigger import Listener
from duetime.trigger import Arming, ArmResult, Purpose
from duetime.triggers.database import DatabaseTrigger, DatabaseTriggerOptions


class WhereOrdersArePlaced(DatabaseTrigger):
    """The trigger, and a shop whose order rows have the deadlines that it is armed with."""

    def __init__(self, clock: ManualClock, **options: Any) -> None:  # noqa: ANN401 -- of DatabaseTriggerOptions
        store = MemoryStore(clock=clock)
        super().__init__(store, StoreTime(clock), DatabaseTriggerOptions(**options), name="database")
        self.store, self.hand = store, MemoryShopHand(store)

    async def arm(self, armings: Sequence[Arming]) -> ArmResult:
        there = await self.hand.orders()
        for one in armings:
            if one.purpose is Purpose.CLOSE and one.order_no in there:
                await self.hand.set_expire_at(one.order_no, one.at)
        new = [one for one in armings if one.purpose is Purpose.CLOSE and one.order_no not in there]
        await self.hand.add_orders([ShopRow(one.order_no, one.at) for one in new])
        return await super().arm(armings)


class TestDatabaseTrigger(TriggerSuite):
    @pytest.fixture
    async def bench(self) -> TriggerBench:
        clock = ManualClock()
        return TriggerBench(WhereOrdersArePlaced(clock), clock)


@dataclass
class Looking:
    """A database trigger with a listener, and the shop's hand."""

    clock: ManualClock
    trigger: WhereOrdersArePlaced
    listener: Listener

    async def add(self, order_no: str, due_in: float) -> datetime:
        at = self.clock.now() + timedelta(seconds=due_in)
        await self.trigger.hand.add_orders([ShopRow(order_no, at)])
        return at


@asynccontextmanager
async def looking(**options: Any) -> AsyncIterator[Looking]:  # noqa: ANN401 -- of DatabaseTriggerOptions
    clock = ManualClock()
    trigger = WhereOrdersArePlaced(clock, **options)
    async with TriggerBench(trigger, clock).listening() as listener:
        await clock.advance(0.1)
        yield Looking(clock, trigger, listener)


async def test_it_finds_by_itself_what_will_be_due_and_says_it_ahead_once() -> None:
    async with looking() as shop:
        at = await shop.add("so-1", due_in=10)
        await shop.clock.advance(7.5)
        assert shop.listener.heard == []
        await shop.clock.advance(1.5)
        assert [(one.order_no, one.at) for one in shop.listener.heard] == [("so-1", at)]
        assert shop.listener.times[0] < at
        await shop.clock.advance(20)
        assert len(shop.listener.heard) == 1


async def test_an_order_that_commits_late_is_met_by_the_next_window() -> None:
    async with looking() as shop:
        await shop.add("early", due_in=1.9)
        await shop.clock.advance(1.5)
        await shop.add("committed late", due_in=-0.3)
        await shop.clock.advance(1.0)
        assert shop.listener.names() == ["committed late", "early"]


async def test_what_another_worker_has_is_left_to_it_and_said_when_it_is_gone() -> None:
    async with looking() as shop:
        shop.trigger.mine = lambda order_no: order_no == "mine"
        for order_no in ("mine", "theirs"):
            await shop.add(order_no, due_in=3)
        await shop.clock.advance(2.5)
        assert shop.listener.names() == ["mine"]
        shop.trigger.mine = lambda _: True
        await shop.clock.advance(1)
        assert shop.listener.names() == ["mine", "theirs"]


async def test_a_moved_deadline_is_said_again_and_a_settled_one_is_not() -> None:
    async with looking() as shop:
        await shop.add("moved", due_in=1)
        await shop.add("settled", due_in=1)
        await shop.clock.advance(1.0)
        await shop.trigger.settle(shop.listener.heard)
        moved = shop.clock.now() + timedelta(seconds=1)
        await shop.trigger.hand.set_expire_at("moved", moved)
        await shop.clock.advance(3)
        assert [(one.order_no, one.at) for one in shop.listener.heard[2:]] == [("moved", moved)]


async def test_grace_and_not_before_bound_the_windows() -> None:
    grace = timedelta(seconds=30)
    async with looking(grace=grace, not_before=ManualClock().now() - timedelta(seconds=20)) as shop:
        at = await shop.add("within", due_in=-19)
        await shop.add("too old", due_in=-21)
        await shop.clock.advance(12)
        assert [(one.order_no, one.at) for one in shop.listener.heard] == [("within", at + grace)]


async def test_what_was_settled_is_forgotten_after_some_windows() -> None:
    async with looking() as shop:
        for n in range(50):
            await shop.add(f"so-{n}", due_in=n)
        for _ in range(60):
            await shop.clock.advance(1)
            await shop.trigger.settle(shop.listener.heard)
        assert len(shop.listener.heard) == 50
        assert (await shop.trigger.ping()).facts["kept"] == 0
        assert len(shop.trigger._seen) < 10


async def test_a_store_that_is_away_is_told_and_asked_again() -> None:
    clock = ManualClock()
    shop = WhereOrdersArePlaced(clock)
    store = FaultyStore(shop.store, FaultsAt({"begin": [Fault()] * 5}))
    shop._store = store
    async with TriggerBench(shop, clock).listening() as listener:
        await clock.advance(2)
        health = await shop.ping()
        assert not health.up
        assert "does not answer" in health.summary
        await shop.hand.add_orders([ShopRow("so-1", clock.now() + timedelta(seconds=20))])
        await clock.advance(21)
        assert listener.names() == ["so-1"]
        assert (await shop.ping()).up
