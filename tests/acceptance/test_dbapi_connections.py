"""``hold`` and ``place`` on a plain DB-API connection of the shop's own."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest

from duetime import Closed, Hold, InvalidInput, OutOfStock, Placed, blocking
from duetime.errors import StoreMisfit
from duetime.order import AlreadyPlaced, Blocked
from duetime.settings import load_settings
from duetime.stores.sql.schema import OwnTables
from tests.support.doors import WAYS, ShopConnection, Way, by_psycopg2, by_pymysql, path

HOLDS = [Hold("stock", "sku-1", 2), Hold("coupon", "c-1")]
TAKEN = (
    "UPDATE stock SET available = available - 2, held = held + 2 WHERE sku_id = 'sku-1'",
    "UPDATE coupon SET state = 'locked' WHERE coupon_id = 'c-1'",
)
RECORDED = [("so-1", "coupon", "c-1", 1), ("so-1", "stock", "sku-1", 2)]
STOCKED = (
    "INSERT INTO stock (sku_id, available, held) VALUES ('sku-1', 10, 0), ('sku-2', 1, 0)",
    "INSERT INTO coupon (coupon_id, state) VALUES ('c-1', 'unused')",
)


def marked(way: Way) -> object:
    return pytest.param(way, id=way.name, marks=[] if way.kind == "sqlite" else [pytest.mark.services])


@pytest.fixture(params=[marked(way) for way in WAYS])
def shop(request: pytest.FixtureRequest, shop_url: Callable[[str], str]) -> Iterator[ShopConnection]:
    """A connection of the shop's, on tables with some stock and no order."""
    way: Way = request.param
    url = shop_url(way.kind)
    connection = ShopConnection(way, url, way.connect(url))
    own = OwnTables().metadata.sorted_tables
    connection.begin().run(*(f"DELETE FROM {name}" for name in (*own, "orders", "stock", "coupon")), *STOCKED)
    connection.raw.commit()
    yield connection
    connection.raw.close()


@pytest.fixture(scope="module")
def running() -> Iterator[dict[str, blocking.Duetime]]:
    """One duetime for each database, for all tests: what it knows of the tables does not change."""
    made: dict[str, blocking.Duetime] = {}
    yield made
    for one in made.values():
        one.close_down()


@pytest.fixture
def duetime(shop: ShopConnection, running: dict[str, blocking.Duetime]) -> blocking.Duetime:
    if shop.url not in running:
        settings = load_settings(environ={}, store={"url": shop.url}, timeouts={"grace": "0s"})
        running[shop.url] = blocking.Duetime(settings)
    return running[shop.url]


def test_holds_are_committed_with_the_order_and_go_back_with_it(
    shop: ShopConnection, duetime: blocking.Duetime
) -> None:
    shop.begin().run(shop.order(), *TAKEN)
    duetime.hold(shop.raw, "so-1", HOLDS)
    assert shop.holds() == []
    shop.raw.commit()
    assert shop.holds() == RECORDED
    outcome = duetime.close("so-1", reason="timeout")
    assert isinstance(outcome, Closed)
    assert set(outcome.released) == set(HOLDS)
    assert shop.rows("SELECT available, held FROM stock WHERE sku_id = 'sku-1'") == [(10, 0)]
    assert shop.rows("SELECT state FROM coupon") == [("unused",)]


def test_rollback_takes_holds_and_placed_orders_along(shop: ShopConnection, duetime: blocking.Duetime) -> None:
    shop.begin().run(shop.order(), *TAKEN)
    duetime.hold(shop.raw, "so-1", HOLDS)
    assert isinstance(duetime.place("so-2", [Hold("stock", "sku-2")], tx=shop.raw), Placed)
    shop.raw.rollback()
    assert (shop.holds(), shop.rows("SELECT order_no FROM orders")) == ([], [])
    assert shop.rows("SELECT event_id FROM duetime_outbox") == []
    assert shop.rows("SELECT available, held FROM stock WHERE sku_id = 'sku-2'") == [(1, 0)]


def test_what_is_refused_leaves_the_rest_of_the_transaction_alone(
    shop: ShopConnection, duetime: blocking.Duetime
) -> None:
    shop.begin().run(shop.order(), shop.order("so-2", "paid"), *TAKEN)
    duetime.hold(shop.raw.cursor(), "so-1", HOLDS)
    for order_no, holds, sentence in (
        ("so-1", [Hold("stock", "sku-2"), *HOLDS], "order so-1 has a hold on .* already: coupon c-1, stock sku-1"),
        ("so-2", HOLDS, "order so-2 is paid"),
        ("so-3", HOLDS, "order so-3 is not in the shop's table"),
        ("so-1", [Hold("gift", "g-1")], "order so-1 holds gift, which"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            duetime.hold(shop.raw, order_no, holds)
    for outcome in (
        duetime.place("so-4", [Hold("stock", "sku-1"), Hold("stock", "sku-2", 2)], tx=shop.raw),
        duetime.place("so-1", HOLDS[:1], tx=shop.raw),
        duetime.place("so-4", [Hold("stock", "no-such-sku")], tx=shop.raw),
    ):
        assert isinstance(outcome, OutOfStock | AlreadyPlaced)
    shop.run(shop.order("so-9"))
    shop.raw.commit()
    assert shop.holds() == RECORDED
    assert shop.rows("SELECT order_no FROM orders ORDER BY order_no") == [("so-1",), ("so-2",), ("so-9",)]
    assert shop.rows("SELECT available, held FROM stock ORDER BY sku_id") == [(8, 2), (1, 0)]


def test_order_that_the_table_refuses_leaves_nothing(shop: ShopConnection, duetime: blocking.Duetime) -> None:
    shop.begin().run("INSERT INTO coupon (coupon_id, state) VALUES ('c-2', 'unused')")
    one, two = (
        duetime.place(order_no, [Hold("stock", "sku-1")], tx=shop.raw, columns={"id": 77})
        for order_no in ("so-1", "so-2")
    )
    assert isinstance(one, Placed)
    assert isinstance(two, Blocked)
    with pytest.raises(StoreMisfit, match="no_such_column"):
        duetime.place("so-3", [Hold("stock", "sku-1")], tx=shop.raw, columns={"no_such_column": 1})
    shop.raw.commit()
    assert (shop.holds(), shop.rows("SELECT order_no FROM orders")) == ([("so-1", "stock", "sku-1", 1)], [("so-1",)])
    assert shop.rows("SELECT available, held FROM stock WHERE sku_id = 'sku-1'") == [(9, 1)]
    assert shop.rows("SELECT count(*) FROM coupon") == [(2,)]


def test_order_is_placed_with_its_deadline_its_holds_its_fact_and_what_is_owed(
    shop: ShopConnection, duetime: blocking.Duetime
) -> None:
    shop.begin().run("""INSERT INTO duetime_consumer (name, events) VALUES ('hook', '["order.placed"]')""")
    outcome = duetime.place("so-1", HOLDS, tx=shop.raw, category="book", amount_minor=5, currency="CNY")
    shop.raw.commit()
    assert isinstance(outcome, Placed)
    assert shop.holds() == RECORDED
    story = duetime.story("so-1")
    assert story is not None
    assert (story.order.expire_at, story.payable, story.order.amount_minor) == (outcome.expire_at, True, 5)
    assert [fact.type for fact in story.facts] == ["order.placed"]
    assert shop.rows("SELECT consumer, order_key, state FROM duetime_delivery") == [("hook", "so-1", "pending")]
    assert shop.rows("SELECT available, held FROM stock WHERE sku_id = 'sku-1'") == [(8, 2)]


def test_shop_keeps_its_rows_and_its_settings(shop: ShopConnection, duetime: blocking.Duetime) -> None:
    shop.begin().run(shop.order())
    before = [getattr(shop.raw, name, None) for name in ("autocommit", "row_factory", "isolation_level")]
    duetime.hold(shop.raw, "so-1", HOLDS)
    cursor = shop.raw.cursor()
    cursor.execute("SELECT order_no FROM orders")
    row = cursor.fetchone()
    cursor.close()
    shop.raw.rollback()
    assert [getattr(shop.raw, name, None) for name in ("autocommit", "row_factory", "isolation_level")] == before
    assert isinstance(row, dict) == ("dicts" in shop.way.name)


AUTOCOMMIT = (
    Way("psycopg", "postgresql", lambda url: psycopg.connect(url, autocommit=True)),
    Way("psycopg2", "postgresql", lambda url: _set(by_psycopg2(url))),
    Way("pymysql", "mariadb", lambda url: by_pymysql(url, autocommit=True)),
    Way("sqlite3", "sqlite", lambda url: sqlite3.connect(path(url), isolation_level=None)),
)


def _set(connection: object) -> object:
    connection.autocommit = True  # type: ignore[attr-defined]  # psycopg2 has no annotations
    return connection


@pytest.mark.parametrize("shop", [marked(way) for way in AUTOCOMMIT], indirect=True)
def test_autocommit_is_refused(shop: ShopConnection, duetime: blocking.Duetime) -> None:
    with pytest.raises(InvalidInput, match="autocommit"):
        duetime.hold(shop.raw, "so-1", HOLDS)
    with pytest.raises(InvalidInput, match="autocommit"):
        duetime.place("so-1", HOLDS, tx=shop.raw)
    assert shop.rows("SELECT order_no FROM orders") == []


@pytest.mark.parametrize("shop", [marked(way) for way in WAYS if way.kind == "postgresql"], indirect=True)
def test_failed_transaction_is_refused(shop: ShopConnection, duetime: blocking.Duetime) -> None:
    with pytest.raises(Exception, match="no_such_table"):
        shop.begin().run("SELECT 1 FROM no_such_table")
    with pytest.raises(InvalidInput, match="has failed already"):
        duetime.hold(shop.raw, "so-1", HOLDS)


@pytest.mark.parametrize("shop", [marked(way) for way in WAYS if way.name in {"psycopg", "pymysql"}], indirect=True)
@pytest.mark.usefixtures("shop")
def test_other_kind_of_database_is_refused(duetime: blocking.Duetime) -> None:
    with closing(sqlite3.connect(":memory:")) as elsewhere, pytest.raises(InvalidInput, match="is on sqlite, but"):
        duetime.hold(elsewhere, "so-1", HOLDS)


class Queue:
    """Nothing that could be a database connection."""


def test_what_is_no_connection_is_refused(shop_url: Callable[[str], str]) -> None:
    url = shop_url("sqlite")
    with blocking.Duetime(load_settings(environ={}, store={"url": url})) as duetime:
        for thing in (Queue(), url, None):
            with pytest.raises(InvalidInput, match=f"was given a .*{type(thing).__name__} as the shop's transaction"):
                duetime.hold(thing, "so-1", HOLDS)  # type: ignore[arg-type]  # on purpose
