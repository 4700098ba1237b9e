"""Where a shop records no holds, the printed transactions write down what its order lines say, as it ends."""

import json
import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from duetime.clock import SystemClock
from duetime.config.database_url import async_url
from duetime.shop import Asset, OrdersTable
from duetime.stores.sql.store import SqlOptions, SqlStore
from tests.acceptance.test_plain_sql import vars_of
from tests.docs.by_hand import prepare, run_sql
from tests.support.databases import DatabaseKind, FreshDatabase
from tests.support.plain_sql import PlainSql, connected

STOCK = {"kind": "stock", "storage": "counter", "table": "stock", "key": "sku_id", "available": "available"}
LINES = {"table": "line", "order_no": "order_no", "ref": "sku", "quantity": "num"}
BY_KEY = {"table": "line", "order_id": "order_id", "ref": "sku"}


async def printed(
    url: str, source: Mapping[str, object], folder: Path, *more: dict[str, object], base: Mapping[str, object] = STOCK
) -> PlainSql:
    assets = [Asset.model_validate(one) for one in ({**base, "from": source}, *more)]
    options = SqlOptions(async_url(url).render_as_string(hide_password=False), OrdersTable(), assets)
    store = SqlStore(options, clock=SystemClock())
    try:
        recipes = {name: await store.recipe(name) for name in ("place", "pay", "cancel")}
    finally:
        await store.aclose()
    path = folder / "recipes.json"
    path.write_text(json.dumps(recipes, default=vars_of))
    return PlainSql.read(path, native=url.startswith("sqlite"))


def by_hand(url: str, plain: PlainSql, name: str, no: str) -> None:
    values: dict[str, Any] = {"order_no": no, "event_id": str(uuid4()), "reason": "staff", "source": "staff"}
    values |= {"payment_id": f"p-{no}", "provider": "", "amount_minor": 5, "currency": "CNY"}
    with closing(connected(url)) as connection:
        cursor = connection.cursor()
        cursor.execute(plain.opening(name))
        getattr(plain, name)(cursor, {one: values[one] for one in plain.recipes[name]["parameters"]})
        cursor.execute("COMMIT")


KINDS = pytest.mark.parametrize(
    "kind",
    [
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.services),
        pytest.param("mariadb", marks=pytest.mark.services),
    ],
)
PIECES: dict[str, object] = {
    "kind": "voucher", "storage": "instance", "table": "voucher", "key": "id", "state": "state",
    "held_value": "held", "free_value": "free", "from": {"table": "voucher", "order_id": "order_id", "ref": "id"},
}  # fmt: skip


@KINDS
@pytest.mark.parametrize("source", [LINES, BY_KEY], ids=["by number", "by key"])
async def test_placing_writes_the_lines_that_tell_what_is_held(
    kind: DatabaseKind, source: dict[str, str], fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    url = fresh_database(kind)
    prepare(url)
    run_sql(url, "CREATE TABLE line (order_no varchar(64), order_id bigint, sku varchar(64), num integer)")
    run_sql(url, "CREATE TABLE voucher (id varchar(64) PRIMARY KEY, state varchar(9), order_id bigint)")
    run_sql(url, "CREATE INDEX line_order_no ON line (order_no);\nCREATE INDEX line_order_id ON line (order_id)")
    run_sql(url, "CREATE INDEX voucher_order_id ON voucher (order_id);\nINSERT INTO voucher VALUES ('v', 'free', NULL)")
    run_sql(url, "INSERT INTO stock (sku_id, available) VALUES ('x', 9), ('y', 9)")
    plain = await printed(url, source, tmp_path, PIECES)
    values: dict[str, Any] = {"order_no": "a", "event_id": str(uuid4()), "timeout_seconds": 600, "category": None}
    values |= {"amount": 5, "currency": "CNY"}
    assert plain.recipes["place"]["parameters"].keys() <= {*values, "ref", "quantity"}
    with closing(connected(url)) as connection:
        cursor = connection.cursor()
        cursor.execute(plain.opening("place"))
        plain.place(cursor, values, [("stock", "x", 2), ("stock", "y", 3), ("voucher", "v", 1)])
        cursor.execute("COMMIT")
    by_hand(url, plain, "cancel", "a")
    found = run_sql(url, "SELECT kind, ref, quantity FROM duetime_hold ORDER BY kind, ref")
    counted = [2, 3] if "quantity" in source else [1, 1]
    assert [tuple(row) for row in found] == [
        ("stock", "x", counted[0]), ("stock", "y", counted[1]), ("voucher", "v", 1)
    ]  # fmt: skip
    assert tuple(run_sql(url, "SELECT available FROM stock WHERE sku_id = 'x'")[0]) == (7,)


SHELF: dict[str, object] = {
    "kind": "shelf", "storage": "counter", "table": "shelf", "key": ["house", "sku"], "available": "available",
    "held": "",
}  # fmt: skip


@pytest.mark.parametrize("more", [{}, {"quantity": "num"}], ids=["one each", "many"])
@pytest.mark.parametrize("asset", [STOCK, SHELF], ids=["one column", "two columns"])
async def test_the_parameters_listed_are_those_used(
    asset: dict[str, object], more: dict[str, str], fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    url = fresh_database("sqlite")
    prepare(url)
    run_sql(url, "CREATE TABLE shelf (house varchar(9), sku varchar(64), available integer, PRIMARY KEY (house, sku))")
    run_sql(url, "CREATE TABLE line (order_no varchar(64), house varchar(9), sku varchar(64), num integer)")
    run_sql(url, "CREATE INDEX line_order_no ON line (order_no)")
    ref = ["house", "sku"] if asset is SHELF else "sku"
    source = {"table": "line", "order_no": "order_no", "ref": ref, **more}
    plain = await printed(url, source, tmp_path, base=asset)
    for name, recipe in plain.recipes.items():
        used = {one for step in recipe["steps"] for one in re.findall(r"(?<!:):([a-z_]+)", step["sql"])}
        assert recipe["parameters"].keys() == used, name


@KINDS
async def test_lines_become_holds_as_the_order_ends(
    kind: DatabaseKind, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    url = fresh_database(kind)
    prepare(url)
    run_sql(url, "CREATE TABLE line (order_no varchar(64), order_id bigint, sku varchar(64), num integer)")
    run_sql(url, "CREATE INDEX line_order_no ON line (order_no);\nCREATE INDEX line_order_id ON line (order_id)")
    for n, no in enumerate(("a", "b", "c", "d", "e"), start=1):
        run_sql(
            url,
            "INSERT INTO orders (id, order_no, status, expire_at, amount_minor, currency) "
            f"VALUES ({n}, '{no}', 'pending', '2099-01-01 00:00:00', 5, 'CNY');\n"
            f"INSERT INTO line VALUES ('{no}', {n}, 'x', 2), ('{no}', {n}, 'x', 1), ('{no}', {n}, 'y', 4), "
            f"('{no}', {n}, 'z', 0), ('{no}', {n}, NULL, 9)",
        )
    run_sql(
        url, "INSERT INTO duetime_hold (order_no, kind, ref, quantity, state) VALUES ('d', 'stock', 'x', 7, 'held')"
    )
    by_number, by_key = await printed(url, LINES, tmp_path), await printed(url, BY_KEY, tmp_path)
    by_hand(url, by_number, "cancel", "a")
    by_hand(url, by_number, "pay", "b")
    by_hand(url, by_key, "cancel", "c")
    by_hand(url, by_number, "cancel", "d")
    run_sql(url, "UPDATE orders SET status = 'closed' WHERE order_no = 'e'")
    by_hand(url, by_number, "pay", "e")
    found = run_sql(url, "SELECT order_no, ref, quantity, state FROM duetime_hold ORDER BY order_no, ref")
    assert [tuple(row) for row in found] == [
        ("a", "x", 3, "releasing"),
        ("a", "y", 4, "releasing"),
        ("b", "x", 3, "consuming"),
        ("b", "y", 4, "consuming"),
        ("c", "x", 2, "releasing"),
        ("c", "y", 1, "releasing"),
        ("c", "z", 1, "releasing"),
        ("d", "x", 7, "releasing"),
    ]
    facts = run_sql(url, "SELECT order_no, payload FROM duetime_outbox WHERE type = 'order.closed' ORDER BY seq")
    told = {no: payload if isinstance(payload, dict) else json.loads(payload) for no, payload in facts}
    assert told["a"]["released"] == [
        {"kind": "stock", "ref": "x", "quantity": 3},
        {"kind": "stock", "ref": "y", "quantity": 4},
    ]
