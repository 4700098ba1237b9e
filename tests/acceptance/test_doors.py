"""The doors into the shop's own transaction that depend on SQLAlchemy's sessions, or on the event loop."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from duetime import Duetime, Hold, InvalidInput, OutOfStock, Placed, blocking
from duetime.config.database_url import async_url
from duetime.settings import load_settings
from duetime.stores.sql.schema import OwnTables
from tests.docs.by_hand import run_sql
from tests.support.doors import DUE, by_pymysql, path
from tests.support.shop_database import ShopDatabase, sku

HOLDS = [Hold("stock", "sku-1", 2), Hold("coupon", "c-1")]
RECORDED = [("coupon", "c-1"), ("stock", "sku-1")]
ORDER = f"INSERT INTO orders (order_no, status, expire_at) VALUES ('so-1', 'pending', {DUE['sqlite']})"


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    order_no: Mapped[str]
    status: Mapped[str]
    expire_at: Mapped[str]


def new_order() -> Order:
    return Order(order_no="so-1", status="pending", expire_at="2030-01-01 00:00:00")


@pytest.fixture
def url(shop_url: Callable[[str], str]) -> str:
    """A sample shop on SQLite without an order."""
    url = shop_url("sqlite")
    with sqlite3.connect(path(url), isolation_level=None) as shop:
        for table in (*OwnTables().metadata.sorted_tables, "orders", "stock", "coupon"):
            shop.execute(f"DELETE FROM {table}")
        shop.execute("INSERT INTO stock (sku_id, available) VALUES ('sku-1', 10)")
        shop.execute("INSERT INTO coupon (coupon_id) VALUES ('c-1')")
    shop.close()
    return url


@pytest.fixture
async def duetime(url: str) -> AsyncIterator[Duetime]:
    made = Duetime(load_settings(environ={}, store={"url": url}))
    yield made
    await made.aclose()


@contextmanager
def sync_engine(url: str, **options: Any) -> Iterator[Engine]:  # noqa: ANN401 -- whatever SQLAlchemy takes
    engine = create_engine(url, **options)
    try:
        yield engine
    finally:
        engine.dispose()


def holds(url: str) -> list[tuple[Any, ...]]:
    return run_sql(url, "SELECT kind, ref FROM duetime_hold ORDER BY kind, ref")


async def test_order_that_a_session_has_not_written_yet_is_found(url: str, duetime: Duetime) -> None:
    with sync_engine(url) as engine:
        with Session(engine) as session, session.begin():
            session.add(new_order())
            await duetime.hold(session, "so-1", HOLDS)
        assert holds(url) == RECORDED
        scoped = scoped_session(sessionmaker(engine))
        await duetime.place("so-2", [Hold("stock", "sku-1")], tx=scoped)
        scoped.rollback()
        assert holds(url) == RECORDED
        scoped.remove()


async def test_async_session_on_sqlite_rolls_holds_back_and_commits_them(url: str, duetime: Duetime) -> None:
    engine = create_async_engine(async_url(url))
    sessions = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
    sessions.add(new_order())
    await duetime.hold(sessions, "so-1", HOLDS)
    await sessions.rollback()
    assert holds(url) == []
    async with AsyncSession(engine) as session, session.begin():
        session.add(new_order())
        await duetime.hold(session, "so-1", HOLDS)
    assert holds(url) == RECORDED
    await sessions.remove()
    await engine.dispose()


async def test_placing_first_of_all_does_not_commit_by_itself(url: str, duetime: Duetime) -> None:
    """Where SQLite's driver has begun nothing yet, releasing a savepoint would be a commit."""
    with sync_engine(url) as engine, engine.connect() as connection:
        assert isinstance(await duetime.place("so-1", HOLDS, tx=connection), Placed)
        connection.rollback()
        assert run_sql(url, "SELECT order_no FROM orders") == []
        assert isinstance(await duetime.place("so-1", HOLDS, tx=connection), Placed)
        connection.commit()
    assert holds(url) == RECORDED


async def test_engine_in_autocommit_is_refused(url: str, duetime: Duetime) -> None:
    with sync_engine(url, isolation_level="AUTOCOMMIT") as engine, engine.connect() as connection:
        connection.execute(text(ORDER))
        with pytest.raises(InvalidInput, match="autocommit"):
            await duetime.hold(connection, "so-1", HOLDS)
    assert holds(url) == []


async def test_async_connection_is_refused_by_the_twin_that_blocks(url: str) -> None:
    engine = create_async_engine(async_url(url))
    twin = await asyncio.to_thread(blocking.Duetime, load_settings(environ={}, store={"url": url}))
    async with engine.connect() as connection:
        with pytest.raises(InvalidInput, match="has to be awaited, which a synchronous program cannot do"):
            await asyncio.to_thread(twin.hold, connection, "so-1", HOLDS)
    await asyncio.to_thread(twin.close_down)
    await engine.dispose()


class Foreign:
    """As a connection of asyncpg's looks from outside."""

    __module__ = "asyncpg.connection"


async def test_driver_that_needs_sqlalchemy_is_named(duetime: Duetime) -> None:
    with pytest.raises(InvalidInput, match="cannot write through a asyncpg Foreign as it is: give a SQLAlchemy"):
        await duetime.hold(Foreign(), "so-1", HOLDS)  # type: ignore[arg-type]  # on purpose


@pytest.mark.services
@pytest.mark.parametrize("clean_shop", ["postgresql"], indirect=True)
async def test_psycopg_async_connection(clean_shop: ShopDatabase) -> None:
    await clean_shop.add_skus(2)
    insert = f"INSERT INTO orders (order_no, status, expire_at) VALUES (%s, 'pending', {DUE['postgresql']})"
    wanted = [Hold("stock", sku(0), 2)]
    async with (
        clean_shop.duetime() as duetime,
        await psycopg.AsyncConnection.connect(clean_shop.url, row_factory=dict_row) as connection,
    ):
        await connection.execute(insert, ["so-0"])
        await duetime.hold(connection, "so-0", wanted)
        await connection.rollback()
        await connection.execute(insert, ["so-1"])
        await duetime.hold(connection.cursor(), "so-1", wanted)
        with pytest.raises(InvalidInput, match="already: stock sku-0000"):
            await duetime.hold(connection, "so-1", wanted)
        outcomes = [await duetime.place("so-2", [Hold("stock", sku(1), units)], tx=connection) for units in (10**9, 1)]
        await connection.commit()
        await connection.set_autocommit(True)
        with pytest.raises(InvalidInput, match="autocommit"):
            await duetime.hold(connection, "so-1", wanted)
    assert [type(one) for one in outcomes] == [OutOfStock, Placed]
    assert await clean_shop.rows("SELECT order_no, ref FROM duetime_hold ORDER BY ref") == [
        ("so-1", sku(0)),
        ("so-2", sku(1)),
    ]


MANY = [Hold("stock", f"sku-{n}") for n in range(100)]
STATEMENTS_AT_MOST = 4
"""The clock, the order's row, a look at its holds, and the holds."""


@pytest.mark.services
@pytest.mark.parametrize("clean_shop", ["postgresql"], indirect=True)
async def test_hundred_holds_are_a_few_statements_on_postgresql(clean_shop: ShopDatabase) -> None:
    sent: list[bool] = []
    with sync_engine(clean_shop.driver_url) as engine:
        event.listen(engine, "before_cursor_execute", lambda *given: sent.append(given[5]))
        async with clean_shop.duetime() as duetime:
            with engine.begin() as connection:
                connection.execute(
                    text(f"INSERT INTO orders (order_no, expire_at) VALUES ('so-1', {DUE['postgresql']})")
                )
                sent.clear()
                await duetime.hold(connection, "so-1", MANY)
    assert len(sent) <= STATEMENTS_AT_MOST
    assert not any(sent), "a statement was sent once for each hold"
    assert await clean_shop.number("SELECT count(*) FROM duetime_hold") == len(MANY)


@pytest.mark.services
@pytest.mark.parametrize("clean_shop", ["mariadb"], indirect=True)
async def test_hundred_holds_are_a_few_statements_on_mariadb(clean_shop: ShopDatabase) -> None:
    connection = by_pymysql(clean_shop.url)
    asked = "SHOW SESSION STATUS LIKE 'Questions'"
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO orders (order_no, status, expire_at) VALUES ('so-1', 'pending', {DUE['mariadb']})")
        cursor.execute(asked)
        before = int(cursor.fetchone()[1])
        async with clean_shop.duetime() as duetime:
            await duetime.hold(connection, "so-1", MANY)
        cursor.execute(asked)
        after = int(cursor.fetchone()[1])
    connection.commit()
    connection.close()
    assert after - before - 1 <= STATEMENTS_AT_MOST
    assert await clean_shop.number("SELECT count(*) FROM duetime_hold") == len(MANY)


async def test_carts_placed_at_once_in_the_shops_transactions_do_not_deadlock(clean_shop: ShopDatabase) -> None:
    await clean_shop.add_skus(8)

    async def buy(n: int) -> None:
        cart = [Hold("stock", sku((n * 5 + k * (1 + n % 3)) % 8)) for k in range(4)]
        async with clean_shop.engine.begin() as tx:
            assert isinstance(await made.place(f"so-{n}", cart[:: 1 if n % 2 else -1], tx=tx), Placed)

    async with clean_shop.duetime() as made:
        for first in range(0, 60, 5):
            await asyncio.gather(*(buy(n) for n in range(first, first + 5)))
    books = await clean_shop.judge()
    assert books.count("pending") == 60
