"""Where a shop records no holds, the printed transactions write down what its order lines say, as it ends."""

import json
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


async def printed(url: str, source: dict[str, str], folder: Path) -> PlainSql:
    assets = [Asset.model_validate({**STOCK, "from": source})]
    options = SqlOptions(async_url(url).render_as_string(hide_password=False), OrdersTable(), assets)
    store = SqlStore(options, clock=SystemClock())
    try:
        recipes = {name: await store.recipe(name) for name in ("pay", "cancel")}
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


@pytest.mark.parametrize(
    "kind",
    [
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.services),
        pytest.param("mariadb", marks=pytest.mark.services),
    ],
)
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
