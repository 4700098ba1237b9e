import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from duetime.clock import SystemClock
from duetime.config.database_url import async_url
from duetime.errors import ConfigError
from duetime.shop import Asset, OrdersTable, States
from duetime.stores.sql.store import SqlOptions, SqlStore

BARE = OrdersTable(
    table="t_order",
    id="id",
    order_no="sn",
    status="state",
    expire_at="pay_deadline",
    closed_at=None,
    close_reason=None,
    close_source=None,
    category=None,
    amount=None,
    currency=None,
    states=States(pending=(0,), paid=1, closed=4),
)


PLAIN = "CREATE TABLE t_order (id BIGINT PRIMARY KEY, sn VARCHAR(64), state SMALLINT, pay_deadline TIMESTAMP)"


async def problems(url: str, ddl: str, orders: OrdersTable = BARE, assets: tuple[Asset, ...] = ()) -> tuple[str, ...]:
    engine = create_async_engine(async_url(url))
    async with engine.begin() as connection:
        for statement in ddl.split(";"):
            await connection.execute(text(statement))
    await engine.dispose()
    options = SqlOptions(async_url(url).render_as_string(hide_password=False), orders, assets)
    store = SqlStore(options, clock=SystemClock())
    try:
        await store.statements()
    except ConfigError as error:
        return error.problems
    finally:
        await store.aclose()
    return ()


@pytest.mark.parametrize(
    "ddl",
    [
        "CREATE TABLE t_order (id BIGINT PRIMARY KEY, sn VARCHAR(64) UNIQUE, state SMALLINT, pay_deadline TIMESTAMP)",
        PLAIN + "; CREATE UNIQUE INDEX sn_once ON t_order (sn)",
        "CREATE TABLE t_order (sn VARCHAR(64) PRIMARY KEY, id BIGINT UNIQUE, state SMALLINT, pay_deadline TIMESTAMP)",
    ],
    ids=["inline", "index", "primary key"],
)
async def test_number_that_is_unique_in_any_form_is_accepted(sqlite_url: str, ddl: str) -> None:
    assert await problems(sqlite_url, ddl) == ()


@pytest.mark.parametrize(
    "ddl",
    [
        PLAIN,
        PLAIN + "; CREATE UNIQUE INDEX sn_once ON t_order (sn, state)",
        PLAIN + "; CREATE UNIQUE INDEX sn_once ON t_order (sn) WHERE state = 0",
    ],
    ids=["none", "with another column", "for some rows only"],
)
async def test_number_that_may_repeat_is_refused_with_what_to_do(sqlite_url: str, ddl: str) -> None:
    (problem,) = await problems(sqlite_url, ddl)
    assert problem.startswith("orders.order_no: column sn of table t_order is not unique")
    assert "add a unique index on it" in problem


async def test_everything_that_does_not_fit_is_said_at_once(sqlite_url: str) -> None:
    ddl = "CREATE TABLE t_order (id BIGINT PRIMARY KEY, sn VARCHAR(64) UNIQUE, state VARCHAR(8), pay_deadline BLOB)"
    stock = Asset.model_validate(
        {"kind": "stock", "storage": "counter", "table": "gone", "key": "sku", "available": "n"}
    )  # fmt: skip
    found = await problems(sqlite_url, ddl, assets=(stock,))
    paths = [problem.split(":")[0] for problem in found]
    assert paths == ["orders.states", "orders.states", "orders.states", "orders.expire_at", "assets[0].table"]


async def test_column_that_is_missing_is_named_with_those_that_exist(sqlite_url: str) -> None:
    ddl = "CREATE TABLE t_order (id BIGINT PRIMARY KEY, number VARCHAR(64) UNIQUE, state SMALLINT, pay_deadline BLOB)"
    (problem,) = await problems(sqlite_url, ddl)
    assert problem == "orders.order_no: table t_order has no column sn; it has id, number, state, pay_deadline"
