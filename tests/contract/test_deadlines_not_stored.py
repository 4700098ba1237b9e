"""Deadlines that no column holds by itself: a time of creation and a time-out, or what the database computes."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from duetime.errors import InvalidInput
from duetime.order import Extended, Placed, PlaceOutcome, Refused
from tests.support.found_orders import FoundOrders
from tests.support.shop_database import ShopDatabase

PLAIN = ("id bigint PRIMARY KEY", "sn varchar(64) NOT NULL UNIQUE", "state smallint NOT NULL")
PLUS = timedelta(minutes=45)


async def with_time_of_creation(shop: ShopDatabase) -> FoundOrders:
    found = FoundOrders(shop, (*PLAIN, "pay_by INSTANT"), {"expire_plus": "45m"})
    await found.create()
    return found


async def with_computed_deadline(shop: ShopDatabase) -> FoundOrders:
    columns = (*PLAIN, "placed bigint", "pay_by bigint GENERATED ALWAYS AS (placed + 600) STORED")
    found = FoundOrders(shop, columns, {"time_form": "epoch_s"})
    await found.create()
    return found


async def placed(found: FoundOrders, **columns: object) -> PlaceOutcome:
    async with found.shop.duetime(**found.sections) as duetime:
        return await duetime.place("so-1", columns={"id": 1, **columns})


async def test_a_time_of_creation_is_never_rewritten(empty_shop: ShopDatabase) -> None:
    found = await with_time_of_creation(empty_shop)
    await found.add({"id": 1, "sn": "so-1", "state": 0, "pay_by": "due"})
    before = await found.rows()
    async with found.shop.duetime(**found.sections) as duetime:
        outcome = await duetime.extend("so-1", datetime.now(UTC) + timedelta(hours=1))
    assert isinstance(outcome, Refused)
    assert "t_order.pay_by and orders.expire_plus (45m)" in outcome.why
    assert await found.rows() == before


async def test_placing_writes_now_as_the_time_of_creation(empty_shop: ShopDatabase) -> None:
    found = await with_time_of_creation(empty_shop)
    async with found.shop.duetime(**found.sections) as duetime:
        async with duetime.wired.store.transaction(write=False) as tx:
            earliest = await tx.now()
        outcome = await duetime.place("so-1", columns={"id": 1})
        story = await duetime.story("so-1")
        async with duetime.wired.store.transaction(write=False) as tx:
            latest = await tx.now()
    assert isinstance(outcome, Placed)
    assert earliest + PLUS <= outcome.expire_at <= latest + PLUS
    assert story is not None
    assert story.order.expire_at == outcome.expire_at
    assert await found.shop.number("SELECT count(*) FROM t_order WHERE pay_by > :now", now=latest) == 0


async def test_a_computed_deadline_is_told_as_the_row_has_it(empty_shop: ShopDatabase) -> None:
    found, now = await with_computed_deadline(empty_shop), int(time.time())
    outcome = await placed(found, placed=now)
    assert outcome == Placed("so-1", datetime.fromtimestamp(now + 600, UTC), getattr(outcome, "event_id", ""))
    async with found.shop.duetime(**found.sections) as duetime:
        extended = await duetime.extend("so-1", datetime.now(UTC) + timedelta(hours=1))
        assert not isinstance(extended, Extended)
        assert isinstance(extended, Refused)
        assert "the database computes its deadline, t_order.pay_by" in extended.why


async def test_an_order_whose_deadline_cannot_be_computed_is_not_placed(empty_shop: ShopDatabase) -> None:
    found = await with_computed_deadline(empty_shop)
    with pytest.raises(InvalidInput, match="order so-1: the database computes its deadline and found none"):
        await placed(found)
    assert await found.rows() == {}
