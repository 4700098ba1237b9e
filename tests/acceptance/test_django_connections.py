"""``hold`` and ``place`` inside Django's ``transaction.atomic``; on MariaDB with PyMySQL in mysqlclient's place."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import django
import pymysql
import pytest
from django.conf import settings
from django.db import DatabaseError, connections, transaction

from duetime import Closed, Hold, InvalidInput, OutOfStock, Placed, blocking
from duetime.settings import load_settings
from duetime.stores.sql.schema import OwnTables
from tests.support.databases import DatabaseKind
from tests.support.doors import DUE, parts, path

KINDS = ["sqlite", *(pytest.param(kind, marks=pytest.mark.services) for kind in ("postgresql", "mariadb"))]
ENGINES = {"sqlite": "sqlite3", "postgresql": "postgresql", "mariadb": "mysql"}
HOLDS = [Hold("stock", "sku-1", 2), Hold("coupon", "c-1")]
TAKEN = (
    "UPDATE stock SET available = available - 2, held = held + 2 WHERE sku_id = 'sku-1'",
    "UPDATE coupon SET state = 'locked' WHERE coupon_id = 'c-1'",
)


class ChangedItsMind(Exception):
    """The shop rolls back."""


@dataclass
class DjangoShop:
    """A shop on Django, and duetime beside it."""

    kind: DatabaseKind
    connection: Any
    duetime: blocking.Duetime

    def run(self, *statements: str) -> None:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]

    def order(self, order_no: str = "so-1") -> str:
        return f"INSERT INTO orders (order_no, status, expire_at) VALUES ('{order_no}', 'pending', {DUE[self.kind]})"

    def holds(self) -> list[tuple[Any, ...]]:
        return self.rows("SELECT order_no, kind, ref FROM duetime_hold ORDER BY order_no, kind, ref")


def configured(kind: DatabaseKind, url: str) -> Any:  # noqa: ANN401 -- Django has no annotations
    """Answer Django's connection named ``shop``."""
    pymysql.install_as_MySQLdb()
    pymysql.version_info = (2, 2, 7, "final", 0)  # the mysqlclient that Django asks for
    if not settings.configured:
        settings.configure(USE_TZ=True, LOGGING_CONFIG=None)
        django.setup()
    place = {"NAME": path(url)}
    if kind != "sqlite":
        place = {"NAME" if key == "database" else key.upper(): value for key, value in parts(url).items()}
    engine = f"django.db.backends.{ENGINES[kind]}"
    connections.settings = connections.configure_settings({"default": {}, "shop": {"ENGINE": engine, **place}})
    if hasattr(connections._connections, "shop"):
        del connections["shop"]
    return connections["shop"]


@pytest.fixture(params=KINDS)
def shop(request: pytest.FixtureRequest, shop_url: Callable[[str], str]) -> Iterator[DjangoShop]:
    url = shop_url(request.param)
    connection = configured(request.param, url)
    duetime = blocking.Duetime(load_settings(environ={}, store={"url": url}, timeouts={"grace": "0s"}))
    made = DjangoShop(request.param, connection, duetime)
    with transaction.atomic(using="shop"):
        made.run(*(f"DELETE FROM {name}" for name in (*OwnTables().metadata.sorted_tables, "orders", "stock")))
        made.run("DELETE FROM coupon", "INSERT INTO stock (sku_id, available, held) VALUES ('sku-1', 10, 0)")
        made.run(
            "INSERT INTO coupon (coupon_id, state, valid_until) VALUES ('c-1', 'unused', '2100-01-01 00:00:00'), "
            "('c-old', 'unused', '2020-01-01 00:00:00')"
        )
    yield made
    duetime.close_down()
    connection.close()


def test_holds_are_committed_with_the_order_and_go_back_with_it(shop: DjangoShop) -> None:
    with transaction.atomic(using="shop"):
        shop.run(shop.order(), *TAKEN)
        shop.duetime.hold(shop.connection, "so-1", HOLDS)
    assert shop.holds() == [("so-1", "coupon", "c-1"), ("so-1", "stock", "sku-1")]
    outcome = shop.duetime.close("so-1", reason="timeout")
    assert isinstance(outcome, Closed)
    assert set(outcome.released) == set(HOLDS)
    assert shop.rows("SELECT available, held FROM stock") == [(10, 0)]


def test_rollback_takes_holds_along(shop: DjangoShop) -> None:
    with pytest.raises(ChangedItsMind):
        write_and_roll_back(shop)
    assert (shop.holds(), shop.rows("SELECT order_no FROM orders")) == ([], [])


def test_rollback_of_an_inner_block_takes_its_holds_along(shop: DjangoShop) -> None:
    with transaction.atomic(using="shop"):
        with pytest.raises(ChangedItsMind):
            write_and_roll_back(shop)
        shop.run(shop.order("so-4"))
        with shop.connection.cursor() as cursor:
            shop.duetime.hold(cursor, "so-4", HOLDS[:1])
    assert shop.rows("SELECT order_no FROM orders") == [("so-4",)]
    assert shop.holds() == [("so-4", "stock", "sku-1")]


def write_and_roll_back(shop: DjangoShop) -> None:
    with transaction.atomic(using="shop"):
        shop.run(shop.order())
        shop.duetime.hold(shop.connection, "so-1", HOLDS)
        assert isinstance(shop.duetime.place("so-2", HOLDS[:1], tx=shop.connection), Placed)
        raise ChangedItsMind


def test_orders_are_placed_and_refusals_leave_the_block_alone(shop: DjangoShop) -> None:
    shop.run("""INSERT INTO duetime_consumer (name, events) VALUES ('hook', '["order.placed"]')""")
    with transaction.atomic(using="shop"):
        placed = shop.duetime.place("so-1", HOLDS, tx=shop.connection)
        short = shop.duetime.place("so-2", [Hold("stock", "sku-1", 9)], tx=shop.connection)
        expired = shop.duetime.place("so-3", [Hold("coupon", "c-old")], tx=shop.connection)
        with pytest.raises(InvalidInput, match="order so-1 has a hold on the same asset already: coupon c-1"):
            shop.duetime.hold(shop.connection, "so-1", HOLDS[1:])
        shop.run(shop.order("so-9"))
    assert isinstance(placed, Placed)
    assert short == OutOfStock("so-2", "stock", "sku-1", 9, 8)
    assert expired == OutOfStock("so-3", "coupon", "c-old", 1, 0)
    assert shop.rows("SELECT order_no FROM orders ORDER BY order_no") == [("so-1",), ("so-9",)]
    assert shop.rows("SELECT available, held FROM stock") == [(8, 2)]
    assert shop.rows("SELECT consumer, order_key FROM duetime_delivery") == [("hook", "so-1")]
    story = shop.duetime.story("so-1")
    assert story is not None
    assert story.order.expire_at == placed.expire_at


def test_outside_of_atomic_and_after_a_failure_it_is_refused(shop: DjangoShop) -> None:
    with pytest.raises(InvalidInput, match=r'transaction\.atomic\(using="shop"\)'):
        shop.duetime.hold(shop.connection, "so-1", HOLDS)
    with transaction.atomic(using="shop"):
        with pytest.raises(DatabaseError), transaction.atomic(using="shop", savepoint=False):
            shop.run("SELECT 1 FROM no_such_table")
        with pytest.raises(InvalidInput, match='connection "shop" has failed already'):
            shop.duetime.place("so-1", HOLDS, tx=shop.connection)
    assert shop.rows("SELECT order_no FROM orders") == []


def test_django_gets_its_connection_back_as_it_was(shop: DjangoShop) -> None:
    with transaction.atomic(using="shop"):
        shop.run(shop.order())
        shop.duetime.hold(shop.connection, "so-1", HOLDS)
        assert shop.connection.in_atomic_block
    assert shop.connection.get_autocommit()
    shop.run(shop.order("so-2"))
    shop.connection.close()
    assert shop.rows("SELECT count(*) FROM orders") == [(2,)]
