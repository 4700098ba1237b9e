"""The shop holds rows that duetime wants: briefly, for long, and most of the time."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.support.figures import Figures
from tests.support.shop_database import Filling, ShopDatabase, sku
from tests.support.waiting import eventually, let_pass

ORDERS = 200
SKUS = 10


@asynccontextmanager
async def transaction(shop: ShopDatabase) -> AsyncIterator[AsyncConnection]:
    """A transaction of the shop's own that the test commits."""
    async with shop.engine.connect() as connection:
        yield connection
        await connection.commit()


async def test_hold_that_is_added_while_its_order_is_due_goes_back_too(shop: ShopDatabase) -> None:
    """The shop locks a due order, adds a hold and commits late: the close waits for the row, then sees the hold."""
    await shop.fill(Filling(orders=20, skus=SKUS))
    async with shop.duetime() as app, app.wired.service.running():
        # Closed before the first sweep, or not: whoever adds a hold finds out by locking the row.
        await eventually("the backlog is closed", shop.settled)
        await shop.add_orders(Filling(orders=1, first=20, skus=SKUS, late_by=timedelta(seconds=-1)))
        async with transaction(shop) as late:
            locking = "SELECT status FROM orders WHERE order_no = 'o20' FOR UPDATE"
            assert (await shop.run(late, locking)).scalar_one() == "pending"
            await let_pass(2, because="the order falls due and is swept while the shop still holds its row")
            await shop.run(
                late, "UPDATE stock SET available = available - 3, held = held + 3 WHERE sku_id = :sku", sku=sku(7)
            )
            adding = "INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES ('o20', 'stock', :sku, 3)"
            await shop.run(late, adding, sku=sku(7))
            assert await shop.count("pending") == 1, "it was closed although the shop held its row"
        await eventually("the order is closed", shop.settled)
    books = await shop.judge()
    assert sorted((hold.ref, hold.quantity) for hold in books.holds_of("o20")) == [
        (sku(0), 1), (sku(1), 1), (sku(7), 3)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "seconds", [pytest.param(12, id="12 s"), pytest.param(60, id="a minute", marks=pytest.mark.long)]
)
@pytest.mark.timeout(180)
async def test_idle_shop_session_on_one_sku_delays_nothing_else(
    shop: ShopDatabase, figures: Figures, seconds: float
) -> None:
    await shop.fill(Filling(orders=ORDERS, skus=SKUS))
    async with shop.duetime() as app, transaction(shop) as idle:
        await shop.run(idle, "UPDATE stock SET available = available WHERE sku_id = :sku", sku=sku(3))
        started = time.monotonic()
        async with app.wired.service.running():
            await eventually("all orders are closed on time", lambda: all_closed(shop, ORDERS))
            closed_after = time.monotonic() - started
            others = "SELECT count(*) FROM duetime_hold WHERE state <> 'released' AND ref <> :sku"
            await eventually("all other units are back", lambda: none(shop, others, sku=sku(3)))
            others_after = time.monotonic() - started
            await let_pass(seconds - others_after, because="the session is idle for so long")
            assert await shop.unfinished() > 0, "the row was not held"
            assert await shop.number("SELECT count(*) FROM duetime_quarantine") == 0
            await idle.commit()
            let_go = time.monotonic()
            await eventually("the units come back as soon as the shop lets go", shop.settled, seconds_max=10)
            back_after = time.monotonic() - let_go
    figures(
        f"{ORDERS} orders closed after {closed_after:.2f} s, other units back after {others_after:.2f} s, "
        f"those of the held SKU {back_after:.2f} s after {seconds} s"
    )
    books = await shop.judge()
    assert not books.quarantine


@pytest.mark.timeout(120)
async def test_sku_that_is_locked_nine_tenths_of_the_time_gets_its_units_back(
    shop: ShopDatabase, figures: Figures
) -> None:
    await shop.fill(Filling(orders=10 * ORDERS, skus=SKUS))
    stop = asyncio.Event()

    async def busy() -> int:
        rounds = 0
        async with shop.engine.connect() as connection:
            while not stop.is_set():
                await shop.run(connection, "UPDATE stock SET available = available WHERE sku_id = :sku", sku=sku(3))
                await let_pass(0.45, because="the shop holds the row")
                await connection.commit()
                await let_pass(0.05, because="and lets go of it for a moment")
                rounds += 1
        return rounds

    async with shop.duetime(closing={"batch_size": 50}, sweep={"interval": "300ms", "page_size": 50}) as app:
        hand = asyncio.create_task(busy())
        started = time.monotonic()
        async with app.wired.service.running():
            await eventually("all units come back", shop.settled, seconds_max=60)
        took = time.monotonic() - started
        stop.set()
        rounds = await hand
    figures(f"all units of a SKU that is locked nine tenths of the time were back after {took:.2f} s, {rounds} rounds")
    assert not (await shop.judge()).quarantine


async def all_closed(shop: ShopDatabase, count: int) -> bool:
    return await shop.count("closed") == count


async def none(shop: ShopDatabase, query: str, **values: object) -> bool:
    return await shop.number(query, **values) == 0
