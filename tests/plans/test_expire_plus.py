"""Without a deadline in the table the time of creation is searched, by its own index and for a page alone."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from duetime.store import DueQuery, PageKey
from tests.plans.limits import expect_proportion
from tests.plans.watching import RULERS, watching
from tests.support.databases import DatabaseKind, FreshDatabase
from tests.support.moved_time import MOVED, a_moved_shop
from tests.support.small_shop import run

PAGE, ROWS, EVERY, PLUS = 100, 20_000, timedelta(seconds=5), timedelta(minutes=30)
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
FIRST = NOW - timedelta(hours=10)
LAST_MINUTES = timedelta(minutes=20)
LATE = PageKey(NOW - LAST_MINUTES - timedelta(seconds=1), 0)
"""Nearly all that is due lies before it."""

NUMBERS = dict.fromkeys(("sqlite", "postgresql", "mariadb"), "bigint NOT NULL")
NAIVE = {"sqlite": "datetime NOT NULL", "postgresql": "timestamp NOT NULL", "mariadb": "datetime NOT NULL"}
FORMS: dict[str, tuple[str, dict[str, str], Callable[[datetime], str]]] = {
    "epoch": ("epoch_s", NUMBERS, lambda at: f"{at.timestamp():.0f}"),
    "local": ("Asia/Shanghai", NAIVE, lambda at: f"'{(at + timedelta(hours=8)).isoformat(' ')[:19]}'"),
}
NONE = dict.fromkeys(("closed_at", "close_reason", "close_source", "category", "amount", "currency"), "")
ANALYSE = {"sqlite": "ANALYZE", "postgresql": "ANALYZE orders", "mariadb": "ANALYZE TABLE orders"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "kind", ["sqlite", *(pytest.param(kind, marks=pytest.mark.services) for kind in ("postgresql", "mariadb"))]
)
async def test_the_index_of_the_time_of_creation_is_read_for_a_page_alone(
    kind: DatabaseKind, form: str, fresh_database: FreshDatabase
) -> None:
    word, columns, stored = FORMS[form]
    time = MOVED[kind]()
    number = "id integer PRIMARY KEY, order_no varchar(40) NOT NULL UNIQUE, status varchar(10) NOT NULL"
    table = f"CREATE TABLE orders ({number}, created {columns[kind]})"
    orders = {"expire_at": "created", "expire_plus": "30m", "time_form": word, **NONE}
    async with a_moved_shop(fresh_database(kind), time, table, orders=orders, assets=[]) as (duetime, engine):
        await fill(engine, [stored(FIRST + n * EVERY) for n in range(ROWS)])
        await run(engine, ANALYSE[kind])
        await time.move(engine, NOW)
        store = duetime.wired.store
        pages = []
        with watching(store._engine.sync_engine, RULERS[kind]()) as seen:
            for after, not_before in ((None, None), (LATE, None), (LATE, FIRST)):
                async with store.transaction(write=False) as tx:
                    pages.append(await tx.due_page(DueQuery(await tx.now(), PAGE, after, not_before)))
    assert [order.expire_at for order in pages[0]] == [FIRST + n * EVERY + PLUS for n in range(PAGE)]
    for late in pages[1:]:
        assert [order.expire_at for order in late] == [NOW - LAST_MINUTES + n * EVERY for n in range(PAGE)]
    expect_proportion(kind, seen, PAGE)
    assert {name for one in seen for name in one.indexes} == {"duetime_due_orders"}


async def fill(engine: AsyncEngine, values: list[str]) -> None:
    for first in range(0, len(values), 1000):
        rows = (f"({n}, 'so-{n}', 'pending', {at})" for n, at in enumerate(values[first : first + 1000], first))
        await run(engine, f"INSERT INTO orders (id, order_no, status, created) VALUES {', '.join(rows)}")
