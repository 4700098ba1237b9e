"""SQLite: definitions are part of transactions, so a run is one, and other writers wait for its end.

That is short (a million orders take about a second), and nothing else is possible: SQLite has one writer.
"""

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, ClassVar, Final

from sqlalchemy import URL, Row
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from duetime.clock import SystemClock
from duetime.errors import ConfigError, StoreConflict
from duetime.shop import TableName
from duetime.stores.sql.migrating.due_index import FoundIndex, Ordering
from duetime.stores.sql.migrating.ground import Ground, Job, ShopTable, Waiting
from duetime.stores.sql.sqlite import SQLite

_BUSY_SECONDS: Final = 1
_MAIN: Final = "main"
_WHERE: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|\b(where)\b""", re.IGNORECASE)

_TABLE: Final = """
SELECT name, type FROM {schema}.sqlite_master WHERE lower(name) = lower(:name) AND type IN ('table', 'view')
"""
_COLUMNS: Final = "SELECT name, type, pk FROM pragma_table_xinfo(:name, :schema)"
_INDEXES: Final = """
SELECT l.name AS name, l.partial AS partial, s.sql AS sql
FROM pragma_index_list(:name, :schema) l LEFT JOIN {schema}.sqlite_master s ON s.type = 'index' AND s.name = l.name
"""
_KEY: Final = """
SELECT name, "desc" AS descending, "key" AS in_key FROM pragma_index_xinfo(:name, :schema) ORDER BY seqno
"""


class SQLiteGround(Ground):
    """SQLite 3.35 and later."""

    partial: ClassVar[bool] = True

    def __init__(self, job: Job) -> None:
        """Print as SQLite reads."""
        super().__init__(SQLite(SystemClock()), job, sqlite.dialect(paramstyle="named"))
        if job.schema is not None:
            raise ConfigError(("store.schema: SQLite has no schemas; leave it empty",))

    @property
    def connect_args(self) -> dict[str, object]:
        """Wait for the writer of the moment in pieces."""
        return {"timeout": _BUSY_SECONDS}

    @asynccontextmanager
    async def connected(self, url: URL) -> AsyncIterator[AsyncConnection]:
        """Look for the folder first: SQLite makes files, not folders."""
        folder = Path(url.database or "").parent
        if not folder.is_dir():
            raise ConfigError((f"store.url: the folder {folder} of the SQLite file is not there; create it",))
        async with super().connected(url) as connection:
            yield connection

    @asynccontextmanager
    async def alone(self, connection: AsyncConnection) -> AsyncIterator[None]:
        """Be the one writer, from the first look to the end."""
        waiting = Waiting(self.job)
        await self._when_free(connection, "BEGIN IMMEDIATE", waiting)
        try:
            yield
            await self._when_free(connection, "COMMIT", waiting)
        except BaseException:
            with suppress(DBAPIError):
                await self.execute(connection, "ROLLBACK")
            raise

    async def _when_free(self, connection: AsyncConnection, statement: str, waiting: Waiting) -> None:
        while True:
            try:
                return await self.execute(connection, statement)
            except DBAPIError as error:
                if not isinstance(self.dialect.failure(error), StoreConflict):
                    raise
            await waiting.pause("the database is locked by another writer", 0)

    def transaction(self, connection: AsyncConnection) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - see below
        """Do nothing: the whole run is one transaction."""
        return nullcontext()

    def same(self, column: str) -> str:
        """Column names differ in more than their case."""
        return column.lower()

    async def look(self, connection: AsyncConnection) -> ShopTable | None:
        """Ask the schema table."""
        wanted = self.job.orders.qualified
        schema = wanted.schema or _MAIN
        rows = await self.rows(connection, _TABLE.format(schema=self._bindable(schema)), {"name": wanted.name})
        if not rows:
            return None
        if rows[0].type == "view":
            raise ConfigError((self.not_a_table("a view"),))
        name = TableName(schema, rows[0].name)
        columns = await self.rows(connection, _COLUMNS, name._asdict())
        # Every index ends with the row number, which is the primary key if that is written as just this type.
        key = [self.same(column.name) for column in columns if column.pk]
        is_row_number = any(column.pk and column.type.upper() == "INTEGER" for column in columns)
        ends_with_id = key == [self.same(self.job.orders.id)] and is_row_number
        ordering = Ordering(ends_with_id=ends_with_id, by_groups=True)
        return ShopTable(name, frozenset(self.same(column.name) for column in columns), ordering)

    def _bindable(self, schema: str) -> str:
        return self.quote(schema).replace(":", r"\:")

    async def indexes(self, connection: AsyncConnection, table: ShopTable) -> list[FoundIndex]:
        """Ask the pragmas; conditions stand only in the text of the definition."""
        query = _INDEXES.format(schema=self._bindable(table.name.schema or _MAIN))
        rows = await self.rows(connection, query, table.name._asdict())
        return [await self._found(connection, table, row) for row in rows]

    async def _found(self, connection: AsyncConnection, table: ShopTable, row: Row[Any]) -> FoundIndex:
        parts = await self.rows(connection, _KEY, {"name": row.name, "schema": table.name.schema})
        key, columns = [part for part in parts if part.in_key], list[str]()
        for part in key:
            if part.name is None or part.descending:
                break
            columns.append(self._spelt(part.name))
        if not row.partial:
            return FoundIndex(row.name, tuple(columns), complete=len(columns) == len(key))
        usable = await self._is_implied(connection, table, row.name)
        where = _condition(row.sql)
        return FoundIndex(row.name, tuple(columns), complete=len(columns) == len(key), where=where, usable=usable)

    async def _is_implied(self, connection: AsyncConnection, table: ShopTable, index: str) -> bool:
        """Ask SQLite itself whether the due query may use a partial index: it compares conditions word by word."""
        expire_at = self.quote(self.wanted.expire_at)
        chosen = f"{self.quote(*table.name)} INDEXED BY {self.quote(index)}"
        condition = f"{self.wanted.condition} AND {expire_at} <= 0"
        try:
            await self.execute(connection, f"EXPLAIN SELECT 1 FROM {chosen} WHERE {condition}")  # noqa: S608 -- quoted
        except DBAPIError:
            return False
        return True

    def _spelt(self, column: str) -> str:
        """Answer a column as [orders] spells it."""
        orders = self.job.orders
        known = (orders.id, orders.status, orders.expire_at)
        return next((name for name in known if self.same(name) == self.same(column)), column)

    async def build(self, connection: AsyncConnection, table: ShopTable, leftover: FoundIndex | None) -> None:
        """Build it, in place of the one that no longer fits."""
        if leftover is not None:
            await self.execute(connection, f"DROP INDEX {self.quote(table.name.schema, leftover.name)}")
        for statement in self.statements(table.name):
            await self.execute(connection, statement)

    def statements(self, table: TableName) -> tuple[str, ...]:
        """Build the index; SQLite takes the schema with the index's name and not with the table's."""
        index = self.quote(table.schema, self.wanted.name)
        return (f"CREATE INDEX {index} ON {self.quote(table.name)} {self.wanted.definition(self.printing)}",)

    def denied(self, error: BaseException) -> bool:  # noqa: ARG002 - nobody grants rights here
        """Answer no: files have their own owners."""
        return False


def _condition(definition: str | None) -> str:
    """Answer what follows WHERE in the text of an index."""
    text = definition or ""
    return next((text[match.end() :] for match in _WHERE.finditer(text) if match.group(1)), "")
