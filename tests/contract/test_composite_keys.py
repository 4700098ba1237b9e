"""Assets whose key has several columns: stock per warehouse; on every database."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from duetime.app import Duetime
from duetime.errors import ConfigError
from duetime.hold import Hold
from duetime.order import Blocked, Closed, OutOfStock, Paid, Placed
from tests.contract.test_following import HOLD, rows
from tests.support.small_shop import a_shop, orders, run

pytestmark = pytest.mark.services

TABLE = (
    "CREATE TABLE place_stock (warehouse integer NOT NULL, sku varchar(40) NOT NULL, free integer NOT NULL, "
    "taken integer NOT NULL DEFAULT 0"
)
ASSET = {
    "kind": "stock", "storage": "counter", "table": "place_stock", "key": ["warehouse", "sku"],
    "available": "free", "held": "taken",
}  # fmt: skip


@asynccontextmanager
async def warehouses(
    url: str, primary: str = ", PRIMARY KEY (warehouse, sku)"
) -> AsyncIterator[tuple[Duetime, AsyncEngine]]:
    """Two warehouses with the same two SKUs, ten of each."""
    rows_ = "INSERT INTO place_stock VALUES (1, 'a', 10, 0), (1, 'b', 10, 0), (2, 'a', 10, 0), (2, 'b', 10, 0)"
    async with a_shop(url, tables=[f"{TABLE}{primary})", rows_], assets=[ASSET]) as opened:
        yield opened


async def stock(engine: AsyncEngine) -> dict[tuple[object, object], tuple[object, object]]:
    found = await rows(engine, "SELECT warehouse, sku, free, taken FROM place_stock")
    return {(warehouse, sku): (free, taken) for warehouse, sku, free, taken in found}


def ref(warehouse: int, sku: str) -> str:
    return json.dumps([str(warehouse), sku], separators=(",", ":"))


async def test_each_row_is_named_by_all_columns_and_no_other_is_touched(database_url: str) -> None:
    """What is asked for column by column would also be (1, b) and (2, a)."""
    async with warehouses(database_url) as (duetime, engine):
        placed = await duetime.place("so-1", [Hold("stock", ref(1, "a"), 3), Hold("stock", ref(2, "b"), 3)])
        assert isinstance(placed, Placed)
        taken = {(1, "a"): (7, 3), (1, "b"): (10, 0), (2, "a"): (10, 0), (2, "b"): (7, 3)}
        assert await stock(engine) == taken
        closed = await duetime.close("so-1")
        assert isinstance(closed, Closed)
        assert closed.released == (Hold("stock", ref(1, "a"), 3), Hold("stock", ref(2, "b"), 3))
        assert set((await stock(engine)).values()) == {(10, 0)}


BY_CASE = {"mariadb": " COLLATE utf8mb4_bin"}
"""What makes a column tell capitals apart, where none does by itself."""


async def test_a_column_that_tells_capitals_apart_is_compared_so(database_url: str) -> None:
    """Asked for are (1, a) and (2, A); (1, A) and (2, a) have the same text where capitals do not count."""
    sku = f"sku varchar(40){BY_CASE.get(database_url.partition(':')[0], '')}"
    table = f"{TABLE}, PRIMARY KEY (warehouse, sku))".replace("sku varchar(40)", sku)
    rows_ = "INSERT INTO place_stock VALUES (1, 'a', 10, 0), (1, 'A', 10, 0), (2, 'a', 10, 0), (2, 'A', 10, 0)"
    async with a_shop(database_url, tables=[table, rows_], assets=[ASSET]) as (duetime, engine):
        placed = await duetime.place("so-1", [Hold("stock", ref(1, "a"), 3), Hold("stock", ref(2, "A"), 3)])
        assert isinstance(placed, Placed)
        assert await stock(engine) == {(1, "a"): (7, 3), (1, "A"): (10, 0), (2, "a"): (10, 0), (2, "A"): (7, 3)}
        assert isinstance(await duetime.close("so-1"), Closed)
        assert set((await stock(engine)).values()) == {(10, 0)}


async def test_references_as_other_programs_write_them_are_found(database_url: str) -> None:
    """With spaces, and with the number as a number."""
    async with warehouses(database_url) as (duetime, engine):
        await orders(engine, "so-1", "so-2")
        await run(
            engine,
            f"""{HOLD} ('so-1', 'stock', '[1, "a"]', 2, 'held'), ('so-2', 'stock', '["2", "a"]', 1, 'held')""",
            "UPDATE place_stock SET taken = 2, free = 8 WHERE warehouse = 1 AND sku = 'a'",
            "UPDATE place_stock SET taken = 1, free = 9 WHERE warehouse = 2 AND sku = 'a'",
        )
        assert (await duetime.wired.service.one_pass()).closed == 2
        assert set((await stock(engine)).values()) == {(10, 0)}


async def test_paying_uses_up_and_too_little_is_named(database_url: str) -> None:
    async with warehouses(database_url) as (duetime, engine):
        assert isinstance(await duetime.place("so-1", [Hold("stock", ref(2, "a"), 10)]), Placed)
        short = await duetime.place("so-2", [Hold("stock", ref(1, "a"), 1), Hold("stock", ref(2, "a"), 1)])
        assert short == OutOfStock("so-2", "stock", ref(2, "a"), 1, 0)
        assert isinstance(await duetime.pay("so-1", payment_id="p", amount_minor=1, currency="CNY"), Paid)
        assert (await stock(engine))[2, "a"] == (0, 0)
        assert (await stock(engine))[1, "a"] == (10, 0)


@pytest.mark.parametrize("wrong", ['["1"]', "1", '["9","a"]', '["one","a"]', '{"a":1}'])
async def test_a_reference_that_names_no_row_blocks_its_order_by_name(database_url: str, wrong: str) -> None:
    async with warehouses(database_url) as (duetime, engine):
        await orders(engine, "so-1")
        await run(engine, f"{HOLD} ('so-1', 'stock', '{wrong}', 2, 'held')".replace(":", "\\:"))
        outcome = await duetime.close("so-1")
        assert isinstance(outcome, Blocked)
        assert outcome.why == f"stock {wrong} has no row in place_stock"


async def test_columns_that_are_not_unique_together_are_refused(database_url: str) -> None:
    with pytest.raises(ConfigError, match="column warehouse with sku of table place_stock is not unique"):
        async with warehouses(database_url, primary=""):
            pytest.fail("it must not be served")
