"""SQLite, through aiosqlite.

One writer at a time, for the whole database: a write transaction opens with ``BEGIN IMMEDIATE`` and waits its turn (in
this process through a fair lock, between processes through the busy time-out). Write-ahead logging lets readers go on
meanwhile. There is no server and so no clock of its own: the time is this process's, and SQLite cannot end the
transaction of a frozen process either.
"""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
    Insert,
    Select,
    String,
    Table,
    TypeDecorator,
    event,
    func,
    select,
    type_coerce,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from duetime.clock import Clock
from duetime.errors import StoreConflict, StoreError, StoreMisfit, StoreRefused, StoreUnavailable
from duetime.hold import HeldHold, HoldState
from duetime.store import StoreCapabilities
from duetime.stores.sql.dialect import COMPACT, LOCK_WAIT_SECONDS, SqlDialect, bind, bound, naive, numbers
from duetime.stores.sql.schema import OwnTables

BUSY_SECONDS = LOCK_WAIT_SECONDS + 2
"""After how long another process's turn to write is waited for no more."""

READ_ONLY = "duetime_read_only"
"""Execution option of a connection whose transaction will not write."""

MISFITS = ("no such table", "no such column", "has no column", "readonly database", "syntax error")
AWAY = ("unable to open", "disk i/o error", "closed database", "no active connection")


class SQLite(SqlDialect):
    """SQLite 3.35 and later."""

    name: ClassVar[str] = "sqlite"
    oldest: ClassVar[tuple[int, ...]] = (3, 35)
    capabilities: ClassVar[StoreCapabilities] = StoreCapabilities(
        row_locks=False, own_clock=False, outlives_process=True
    )

    def __init__(self, clock: Clock) -> None:
        """Tell the time by ``clock``."""
        self._clock = clock

    def engine(self, url: str, *, pool_size: int) -> AsyncEngine:
        """Make an engine that opens its transactions itself, with the lock that they will need."""
        engine = create_async_engine(
            url,
            pool_size=pool_size,
            max_overflow=0,
            json_serializer=COMPACT,
            connect_args={"timeout": BUSY_SECONDS, "isolation_level": None},
        )
        event.listen(engine.sync_engine, "connect", _set_up)
        event.listen(engine.sync_engine, "begin", _begin)
        return engine

    async def begin(self, connection: AsyncConnection) -> datetime:  # noqa: ARG002 - the engine's event has begun it
        """Answer the process's clock."""
        return self._clock.now()

    async def clock(self, connection: Any) -> datetime:  # noqa: ANN401, ARG002 - SQLite has no clock to ask
        """Answer the process's clock."""
        return self._clock.now()

    def among(self, column: ColumnElement[Any], parameter: str) -> ColumnElement[bool]:
        """Say that the column is in a list sent as JSON.

        With old statistics SQLite scans the table rather than look up a long ``IN (…)``, and every length of such a
        list would be a statement of its own.
        """
        values = func.json_each(bind(parameter, _JsonList())).table_valued("value")
        return column.in_(select(type_coerce(values.c.value, column.type)))

    def locked(self, select: Select[Any], *, wait: bool) -> Select[Any]:  # noqa: ARG002 - the transaction locks all
        """Answer the same query: the whole database is locked already."""
        return select

    def same_status(self, value: object) -> object:
        """Answer what the database may take for the same status: capitals do not count in most collations."""
        return value.casefold().rstrip() if isinstance(value, str) else value

    def bulk_upsert(self, table: Table, names: Sequence[str], changed: Sequence[str]) -> Insert:  # noqa: ARG002 - the rows name them
        """Say ``ON CONFLICT … DO UPDATE``."""
        upsert = sqlite.insert(table)
        return upsert.on_conflict_do_update(
            index_elements=list(table.primary_key.columns), set_={name: upsert.excluded[name] for name in changed}
        )

    async def move_holds(
        self,
        connection: AsyncConnection,
        own: OwnTables,
        holds: Sequence[HeldHold],
        change: tuple[HoldState, datetime | None],
    ) -> int:
        """Move one after the other, inside SQLite."""
        hold = own.hold
        statement = (
            update(hold)
            .values(state=change[0].value, released_at=naive(change[1]))
            .where(
                hold.c.order_no == bind("order_no"),
                hold.c.kind == bind("kind"),
                hold.c.ref == bind("ref"),
                hold.c.state == holds[0].state.value,
            )
        )
        rows = [bound(order_no=held.order_no, kind=held.hold.kind, ref=held.hold.ref) for held in holds]
        return (await connection.execute(statement, rows)).rowcount

    def versions(self, connection: AsyncConnection) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        """Answer the library's version."""
        return "SQLite", numbers(connection), self.oldest

    def trouble(self, error: BaseException) -> type[StoreError] | None:
        """Go by the message: the driver's code is not kept everywhere."""
        words = str(error).lower()
        if "is locked" in words or "is busy" in words:
            return StoreConflict
        if any(word in words for word in AWAY):
            return StoreUnavailable
        return StoreMisfit if any(word in words for word in MISFITS) else StoreRefused


class _JsonList(TypeDecorator[Any]):
    """A list, sent as the text of a JSON array."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:  # noqa: ANN401, ARG002 - as SQLAlchemy has it
        return json.dumps([one if isinstance(one, int) else str(one) for one in value])


def _set_up(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's own connection
    cursor = connection.cursor()
    # While the shop writes (perhaps the very transaction that asks for us), the mode cannot be changed: a later
    # connection will. Nothing depends on it but that readers go on beside a writer.
    cursor.execute("PRAGMA busy_timeout = 0")
    with suppress(sqlite3.OperationalError):
        cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    cursor.close()


def _begin(connection: Connection) -> None:
    read_only = connection.get_execution_options().get(READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
