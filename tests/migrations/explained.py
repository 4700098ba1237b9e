"""How a database goes about the store's own due query, as the store really sends it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, event

from duetime.clock import SystemClock
from duetime.shop import OrdersTable
from duetime.store import DueQuery, PageKey
from duetime.stores.sql.store import SqlOptions, SqlStore
from tests.migrations.database import Database

_EXPLAIN = {"postgresql": "EXPLAIN ", "mariadb": "EXPLAIN ", "sqlite": "EXPLAIN QUERY PLAN "}
_BEGINNING = datetime(2020, 1, 1, tzinfo=UTC)


async def plan_of_due_page(database: Database, orders: OrdersTable | None = None, *, after_id: object = 1) -> str:
    """Answer the plan of a page somewhere in the middle, in the database's words."""
    store = SqlStore(SqlOptions(database.text_url, orders or OrdersTable(), ()), clock=SystemClock())
    query = DueQuery(datetime.now(UTC) + timedelta(days=1), 50, after=PageKey(_BEGINNING, after_id))  # type: ignore[arg-type]  # any key
    try:
        with _heard() as heard:
            async with store.transaction(write=False) as transaction:
                await transaction.due_page(query)
    finally:
        await store.aclose()
    (statement, parameters) = next(pair for pair in heard if "LIMIT" in pair[0])
    async with database.session() as connection:
        if database.kind == "postgresql":
            await connection.exec_driver_sql("SET enable_seqscan = off")  # as the store does
        rows = (await connection.exec_driver_sql(_EXPLAIN[database.kind] + statement, parameters)).all()
    return "\n".join(str(tuple(row)) for row in rows)


@contextmanager
def _heard() -> Iterator[list[tuple[str, Any]]]:
    heard: list[tuple[str, Any]] = []

    def hear(_connection: object, _cursor: object, statement: str, parameters: Any, *_: Any) -> None:  # noqa: ANN401 -- the driver's own
        heard.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", hear)
    try:
        yield heard
    finally:
        event.remove(Engine, "before_cursor_execute", hear)
