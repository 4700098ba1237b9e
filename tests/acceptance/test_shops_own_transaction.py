"""``hold`` in the shop's own transaction, in each form in which a shop may have one; and the twin that blocks."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from duetime import AlreadyPaid, Closed, Duetime, Extended, Hold, InvalidInput, Paid, Placed, blocking
from duetime.stores.sql.doors import ShopTransaction
from tests.support.shop_database import ShopDatabase, sku
from tests.support.waiting import eventually_sync

HOLDS = [Hold("stock", sku(0), 2), Hold("stock", sku(1)), Hold("coupon", "c-1")]
BY_HAND = (
    "INSERT INTO orders (order_no, status, expire_at) VALUES ('so-1', 'pending', :due)",
    f"UPDATE stock SET available = available - 2, held = held + 2 WHERE sku_id = '{sku(0)}'",
    f"UPDATE stock SET available = available - 1, held = held + 1 WHERE sku_id = '{sku(1)}'",
    "UPDATE coupon SET state = 'locked' WHERE coupon_id = 'c-1'",
)
"""What the shop does itself, in the same transaction."""

Written = Callable[[str], Awaitable[None]]
"""Runs a statement of the shop's in the open transaction."""


class RolledBack(Exception):
    """The shop changed its mind."""


@contextmanager
def sync_engine(shop: ShopDatabase) -> Iterator[Engine]:
    engine = create_engine(shop.engine.url.set(drivername=shop.words.sync_driver))
    try:
        yield engine
    finally:
        engine.dispose()


def sync_written(shop: ShopDatabase, tx: Connection | Session) -> Written:
    async def run(statement: str) -> None:
        tx.execute(text(statement), parameters(shop, statement))

    return run


def async_written(shop: ShopDatabase, tx: AsyncConnection | AsyncSession) -> Written:
    async def run(statement: str) -> None:
        await tx.execute(text(statement), parameters(shop, statement))

    return run


def parameters(shop: ShopDatabase, statement: str) -> dict[str, object]:
    return {"due": shop.bound(datetime.now(UTC) - timedelta(seconds=10))} if ":due" in statement else {}


Open = AbstractAsyncContextManager[tuple[ShopTransaction, Written]]
Form = Callable[[ShopDatabase], Open]


@asynccontextmanager
async def async_connection(shop: ShopDatabase) -> AsyncIterator[tuple[ShopTransaction, Written]]:
    async with shop.engine.begin() as connection:
        yield connection, async_written(shop, connection)


@asynccontextmanager
async def async_session(shop: ShopDatabase) -> AsyncIterator[tuple[ShopTransaction, Written]]:
    async with AsyncSession(shop.engine) as session, session.begin():
        yield session, async_written(shop, session)


@asynccontextmanager
async def sync_connection(shop: ShopDatabase) -> AsyncIterator[tuple[ShopTransaction, Written]]:
    with sync_engine(shop) as engine, engine.begin() as connection:
        yield connection, sync_written(shop, connection)


@asynccontextmanager
async def sync_session(shop: ShopDatabase) -> AsyncIterator[tuple[ShopTransaction, Written]]:
    with sync_engine(shop) as engine, Session(engine) as session, session.begin():
        yield session, sync_written(shop, session)


FORMS = (async_connection, async_session, sync_connection, sync_session)


@pytest.fixture(params=FORMS, ids=[form.__name__ for form in FORMS])
def form(request: pytest.FixtureRequest) -> Form:
    chosen: Form = request.param
    return chosen


@pytest.fixture
async def stocked(clean_shop: ShopDatabase) -> ShopDatabase:
    await clean_shop.add_skus(2)
    await clean_shop.execute("INSERT INTO coupon (coupon_id, state) VALUES ('c-1', 'unused')")
    return clean_shop


@dataclass(frozen=True)
class Transaction:
    """What the shop does in one transaction: its own statements, then ``hold`` once or more, then perhaps an error."""

    order_no: str
    by_hand: Sequence[str]
    holds: Sequence[Sequence[Hold]]
    ends_with: Exception | None = None

    async def run(self, duetime: Duetime, opened: Open) -> None:
        async with opened as (tx, write):
            for statement in self.by_hand:
                await write(statement)
            for holds in self.holds:
                await duetime.hold(tx, self.order_no, holds)
            if self.ends_with:
                raise self.ends_with


async def test_holds_are_committed_with_the_order_and_go_back_with_it(stocked: ShopDatabase, form: Form) -> None:
    async with stocked.duetime() as duetime:
        await Transaction("so-1", BY_HAND, [HOLDS]).run(duetime, form(stocked))
        await stocked.judge()
        outcome = await duetime.close("so-1", reason="timeout")
    assert isinstance(outcome, Closed)
    assert set(outcome.released) == set(HOLDS)
    assert (await stocked.judge()).coupons == {"c-1": "unused"}


async def test_rollback_takes_the_holds_along(stocked: ShopDatabase, form: Form) -> None:
    changed = Transaction("so-1", BY_HAND, [HOLDS], ends_with=RolledBack())
    async with stocked.duetime() as duetime:
        with pytest.raises(RolledBack):
            await changed.run(duetime, form(stocked))
    books = await stocked.judge()
    assert (books.orders, books.holds, books.coupons) == ({}, [], {"c-1": "unused"})


PAID = "INSERT INTO orders (order_no, status, expire_at) VALUES ('so-2', 'paid', :due)"
REFUSED = (
    (Transaction("so-1", [], [HOLDS]), "so-1 is not in the shop's table"),
    (Transaction("so-1", BY_HAND, [[Hold("gift", "g-1")]]), "gift, which"),
    (Transaction("so-2", [PAID], [HOLDS]), "only a pending order can hold"),
    (Transaction("so-1", BY_HAND, [HOLDS, HOLDS[:1]]), "hold on the same asset already"),
)


async def test_refusals_are_sentences_and_leave_nothing(stocked: ShopDatabase, form: Form) -> None:
    async with stocked.duetime() as duetime:
        for transaction, sentence in REFUSED:
            with pytest.raises(InvalidInput, match=sentence):
                await transaction.run(duetime, form(stocked))
    books = await stocked.judge()
    assert (books.orders, books.holds) == ({}, [])


async def test_twin_that_blocks_does_the_same(stocked: ShopDatabase) -> None:
    await asyncio.to_thread(use_the_twin, stocked)
    books = await stocked.judge()
    assert (books.count("closed"), books.count("paid")) == (1, 1)


def use_the_twin(shop: ShopDatabase) -> None:
    """What a program without an event loop does."""
    with blocking.Duetime(shop.settings()) as duetime, sync_engine(shop) as engine:
        with engine.begin() as connection:
            for statement in BY_HAND:
                connection.execute(text(statement), parameters(shop, statement))
            duetime.hold(connection, "so-1", HOLDS[:2])
        with Session(engine) as session, session.begin():
            duetime.hold(session, "so-1", HOLDS[2:])
        with duetime.running():
            eventually_sync("the worker beside this program closes it", lambda: status(engine, "so-1") == "closed")
        assert isinstance(duetime.place("so-2", [Hold("stock", sku(0))], amount_minor=5, currency="CNY"), Placed)
        assert isinstance(duetime.extend("so-2", datetime.now(UTC) + timedelta(hours=1)), Extended)
        assert duetime.pay("so-2", payment_id="p-1", amount_minor=5, currency="CNY") == Paid("so-2", "p-1")
        assert duetime.close("so-2") == AlreadyPaid("so-2", "paid")
        story = duetime.story("so-2")
        assert story is not None
        assert [fact.type for fact in story.facts] == ["order.placed", "order.extended", "order.paid"]


def status(engine: Engine, order_no: str) -> str:
    with engine.connect() as connection:
        query = text("SELECT status FROM orders WHERE order_no = :order_no")
        return str(connection.execute(query, {"order_no": order_no}).scalar_one())
