"""MySQL TIMESTAMP is an instant that each session sees through its own zone: pages and indexes in the hour twice.

Tested on MariaDB 10.11.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from duetime.app import Duetime
from duetime.store import DueQuery, PageKey
from duetime.stores.sql.plain.recipes import Recipes
from duetime.stores.sql.printing import named
from tests.acceptance.test_times_on_servers import BERLIN, CHANGES, HOUR, MINUTE, NEVER, NONE, SECOND
from tests.plans.limits import expect_proportion
from tests.plans.watching import RULERS, watching
from tests.support.moved_time import MOVED, MovedTime, a_moved_shop
from tests.support.shop_database import numbers
from tests.support.small_shop import run, states

pytestmark = pytest.mark.services
FORWARD, BACK = CHANGES[BERLIN, "forward"], CHANGES[BERLIN, "back"]
ORDERS = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, order_no varchar(40) NOT NULL UNIQUE, status varchar(10) NOT NULL, "
    "at_ timestamp NULL)"
)
DESCRIBED = {**NONE, "expire_at": "at_", "time_form": "instant"}
PAGE = 100


@asynccontextmanager
async def a_shop_in_berlin(url: str, **orders: object) -> AsyncIterator[tuple[Duetime, AsyncEngine, MovedTime]]:
    time = MOVED["mariadb"](BERLIN)
    async with a_moved_shop(url, time, ORDERS, orders={**DESCRIBED, **orders}, assets=[]) as (duetime, engine):
        yield duetime, engine, time


async def fill(engine: AsyncEngine, count: int, first: datetime, every: timedelta) -> None:
    """Add pending orders whose deadlines begin with ``first``; the primary keys run the other way."""
    at = f"TIMESTAMPADD(SECOND, n * {every // SECOND}, '{first.replace(tzinfo=None)}')"
    new = f"SELECT {count} - n, concat('so-', n), if(n % 2, 'pending', 'waiting'), {at} FROM {numbers(0, count)}"
    await run(engine, f"INSERT INTO orders (id, order_no, status, at_) {new}", "ANALYZE TABLE orders")


@pytest.mark.parametrize("pending", [["pending", "waiting"], ["waiting", "pending"]])
async def test_pages_in_the_hour_that_comes_twice_miss_and_repeat_none(mariadb_url: str, pending: list[str]) -> None:
    described = {"pending": pending, "paid": "paid", "closed": "closed"}
    async with a_shop_in_berlin(mariadb_url, states=described) as (duetime, engine, time):
        await fill(engine, 100, BACK - 70 * MINUTE, 2 * MINUTE)
        seen = 0
        for minutes in (-62, -30, 0, 30, 59, 61, 90, 200):
            await time.move(engine, BACK + minutes * MINUTE)
            found = (await duetime.wired.sweep.run_once()).due_found
            due = min(100, (minutes + 70) // 2 + 1)
            assert found == due - seen, f"{minutes} minutes after the change"
            seen = due
            closed = [no for no, state in (await states(engine)).items() if state == "closed"]
            assert sorted(closed) == sorted(f"so-{n}" for n in range(due))


@pytest.mark.parametrize("minutes", [-30, 0, 30])
async def test_not_before_counts_instants_and_not_what_the_clock_shows(mariadb_url: str, minutes: int) -> None:
    async with a_shop_in_berlin(mariadb_url) as (duetime, engine, time):
        await fill(engine, 100, BACK - 70 * MINUTE, 2 * MINUTE)
        await time.move(engine, BACK + 3 * HOUR)
        limit = BACK + minutes * MINUTE
        async with duetime.wired.store.transaction(write=False) as tx:
            page = await tx.due_page(DueQuery(await tx.now(), 200, not_before=limit))
    expected = {n for n in range(1, 100, 2) if BACK - 70 * MINUTE + n * 2 * MINUTE >= limit}
    assert {int(order.order_no.removeprefix("so-")) for order in page} == expected


@pytest.mark.parametrize("change", [FORWARD, BACK])
async def test_printed_deadline_is_not_earlier_than_the_time_that_it_gives(mariadb_url: str, change: datetime) -> None:
    async with a_shop_in_berlin(mariadb_url) as (duetime, engine, time):
        statements = await duetime.wired.store.statements()
        deadline = Recipes(statements, [], named(engine.dialect)).time("expire_at").after("1800")
        for minutes in range(-105, 75, 15):
            now = change + minutes * MINUTE
            await time.move(engine, now)
            async with duetime.wired.store.plain_connection(write=True) as connection:
                insert = (
                    f"INSERT INTO orders (id, order_no, status, at_) VALUES ({minutes + 200}, '{minutes}', 'paid', "
                )
                await connection.execute(text(f"{insert}{deadline})"))
                await connection.commit()
        async with duetime.wired.store.transaction(write=False) as tx:
            orders = await tx.find_orders([f"{minutes}" for minutes in range(-105, 75, 15)])
    given = {int(one.order_no): (one.expire_at or NEVER) - change - int(one.order_no) * MINUTE for one in orders}
    allowed = {minutes: [30 * MINUTE, 90 * MINUTE] if -90 <= minutes < 30 else [30 * MINUTE] for minutes in given}
    assert len(given) == 12
    assert {minutes: f"{time}" for minutes, time in given.items() if time not in allowed[minutes]} == {}


ROWS = 20_000


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(datetime(2026, 7, 1, 12, tzinfo=UTC), id="summer"),
        pytest.param(FORWARD + 10 * MINUTE, id="after-the-skipped-hour"),
        pytest.param(BACK - 10 * MINUTE, id="first-pass"),
        pytest.param(BACK + 10 * MINUTE, id="second-pass"),
    ],
)
async def test_index_is_read_for_a_page_alone(mariadb_url: str, now: datetime) -> None:
    async with a_shop_in_berlin(mariadb_url) as (duetime, engine, time):
        await fill(engine, ROWS, now - 12 * HOUR, 5 * SECOND)  # every second one is pending; more than half is not due
        await time.move(engine, now)
        store = duetime.wired.store
        with watching(store._engine.sync_engine, RULERS["mariadb"]()) as seen:
            for after in (None, PageKey(now - 6 * HOUR, 0), PageKey(now - 30 * MINUTE, 0)):
                async with store.transaction(write=False) as tx:
                    page = await tx.due_page(DueQuery(await tx.now(), PAGE, after))
                assert len(page) == PAGE
        expect_proportion("mariadb", seen, PAGE)
        assert {name for one in seen for name in one.indexes} == {"duetime_due_orders"}
