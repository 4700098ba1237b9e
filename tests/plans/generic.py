"""Prepared statements on PostgreSQL, whose plan may be made once for values that nobody has seen."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import event

from duetime.stores.sql.store import SqlStore

UNPREPARED_RUNS = 6
"""The driver prepares a statement when it comes for the sixth time."""


@asynccontextmanager
async def forced_generic(store: SqlStore) -> AsyncIterator[None]:
    """Let every plan be made without values, as PostgreSQL may choose to after five runs of a prepared statement."""

    def force(connection: Any, _record: object) -> None:  # noqa: ANN401 -- the driver's own connection
        cursor = connection.cursor()
        cursor.execute("SET plan_cache_mode = force_generic_plan")
        cursor.close()
        connection.commit()

    engine = store._engine.sync_engine
    await store.aclose()  # the next connection is a new one
    event.listen(engine, "connect", force)
    try:
        yield
    finally:
        event.remove(engine, "connect", force)
