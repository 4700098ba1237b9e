"""What closing, paying and placing promise where a real database is not needed to show it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from duetime.closing import CloseRequest, Closing, ClosingOptions
from duetime.event import FactType
from duetime.hold import HeldHold, Hold, HoldState
from duetime.order import AlreadyPlaced, Blocked, Busy, Closed, Paid, Placed
from duetime.paying import Paying, PaymentNotice
from duetime.placing import Placement, Placing, Timeouts
from duetime.shop import sample_assets
from duetime.stores.memory import MemoryStore
from duetime.testing import ManualClock
from duetime.testing.memory_hand import MemoryShopHand
from duetime.testing.shop_hand import ShopRow, StockRow

ASSETS = {asset.kind: asset for asset in sample_assets()}
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Shop:
    def __init__(self, *, not_before: datetime | None = None) -> None:
        self.clock = ManualClock(NOW)
        self.store = MemoryStore(sample_assets(), self.clock)
        self.hand = MemoryShopHand(self.store)
        options = ClosingOptions(timedelta(0), ASSETS, not_before=not_before)
        self.closing = Closing(self.store, options)
        self.paying = Paying(self.store, ASSETS, self.closing)
        self.placing = Placing(self.store, ASSETS, Timeouts(HOUR))

    async def hold(self, order_no: str, *holds: Hold) -> None:
        await self.hand.add_holds([HeldHold(order_no, hold) for hold in holds])

    async def states(self, order_nos: Sequence[str]) -> set[HoldState]:
        async with self.store.transaction(write=False) as tx:
            return {held.state for held in await tx.read_holds(order_nos, HoldState)}


async def test_money_is_taken_also_for_a_hold_that_nobody_described() -> None:
    shop = Shop()
    await shop.hand.add_orders([ShopRow("so-1", NOW + HOUR)])
    await shop.hold("so-1", Hold("lounge", "seat-1"))
    assert await shop.paying.pay([PaymentNotice("so-1", "p-1", 1, "CNY")]) == [Paid("so-1", "p-1")]
    assert await shop.states(["so-1"]) == {HoldState.CONSUMING}


async def test_order_that_holds_what_nobody_described_is_not_closed_but_named() -> None:
    shop = Shop()
    await shop.hand.add_orders([ShopRow("so-1", NOW - HOUR)])
    await shop.hold("so-1", Hold("lounge", "seat-1"))
    (outcome,) = await shop.closing.close([CloseRequest("so-1")])
    assert outcome == Blocked("so-1", "its hold is of kind lounge, which [[assets]] does not describe")
    assert await shop.states(["so-1"]) == {HoldState.HELD}


async def test_list_of_placements_is_written_in_its_own_order_and_a_repeat_is_placed_already() -> None:
    shop = Shop()
    await shop.hand.put_stock([StockRow("sku-1", 10)])
    names = ["so-3", "so-1", "so-2"]
    outcomes = await shop.placing.place([Placement(name, [Hold("stock", "sku-1")]) for name in [*names, "so-1"]])
    assert [type(outcome) for outcome in outcomes] == [Placed, Placed, Placed, AlreadyPlaced]
    assert [fact.order_no for fact in await shop.hand.facts()] == names


async def test_busy_order_of_a_list_is_waited_for_alone_and_the_others_are_answered() -> None:
    shop = Shop()
    for name in ("so-1", "so-2"):
        await shop.hand.add_orders([ShopRow(name, NOW + HOUR)])
    shop.store.locked_orders.add("so-1")
    outcomes = await shop.closing.close([CloseRequest(name, "customer", "customer") for name in ("so-1", "so-2")])
    assert isinstance(outcomes[0], Busy)
    assert isinstance(outcomes[1], Closed)


async def test_list_of_notices_is_taken_one_by_one_where_a_row_is_busy() -> None:
    shop = Shop()
    for name in ("so-1", "so-2"):
        await shop.hand.add_orders([ShopRow(name, NOW + HOUR)])
    shop.store.locked_orders.add("so-1")
    notices = [PaymentNotice(name, f"p-{name}", 1, "CNY") for name in ("so-1", "so-2")]
    assert await shop.paying.pay(notices) == [Busy("so-1"), Paid("so-2", "p-so-2")]


@pytest.mark.parametrize("hours", [1, 2, 3])
async def test_order_older_than_the_shop_allows_is_not_closed_by_its_deadline(hours: int) -> None:
    shop = Shop(not_before=NOW - 2 * HOUR)
    await shop.hand.add_orders([ShopRow("so-1", NOW - hours * HOUR)])
    (outcome,) = await shop.closing.close([CloseRequest("so-1")])
    assert isinstance(outcome, Blocked if hours == 3 else Closed)


async def test_order_older_than_the_shop_allows_is_closed_for_a_person() -> None:
    shop = Shop(not_before=NOW - 2 * HOUR)
    await shop.hand.add_orders([ShopRow("so-1", NOW - 3 * HOUR)])
    (outcome,) = await shop.closing.close([CloseRequest("so-1", "staff", "an operator")])
    assert isinstance(outcome, Closed)
    kinds = [fact.type for fact in await shop.hand.facts()]
    assert kinds == [FactType.ORDER_CLOSED]
