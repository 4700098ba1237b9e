"""MySQL and MariaDB: the index is added INPLACE with LOCK=NONE, so the shop writes on while it is built.

* At its start and at its end the statement needs the table for itself for a moment. While it waits for the shop's open
  transactions, everybody else waits behind it: one second at most (``lock_wait_timeout``), then the shop goes first,
  and the pause before the next try grows.
* One run at a time through GET_LOCK, named after the database: such locks belong to the whole server.
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, ClassVar, Final

from sqlalchemy import Row
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from duetime.errors import ConfigError, StoreConflict, StoreMisfit
from duetime.shop import TableName
from duetime.stores.sql.migrating.due_index import FoundIndex, Ordering
from duetime.stores.sql.migrating.ground import WATCH_SECONDS, Ground, Job, ShopTable, Waiting
from duetime.stores.sql.mysql import MySQL

LOCK_WAIT_SECONDS: Final = 1

_LONGEST_PAUSE: Final = 30
_CANNOT_BE_ONLINE: Final = frozenset({1845, 1846})
_LOG_TOO_BIG: Final = 1799
_DENIED: Final = frozenset({1044, 1142, 1143, 1227})

_TABLE: Final = """
SELECT t.table_schema AS `schema`, t.table_name AS name, t.table_type AS kind, t.engine AS engine
FROM information_schema.tables t WHERE t.table_schema = coalesce(:schema, database()) AND t.table_name = :name
"""
_COLUMNS: Final = """
SELECT column_name AS name, column_key = 'PRI' AS is_primary FROM information_schema.columns
WHERE table_schema = :schema AND table_name = :name
"""
_INDEXES: Final = """
SELECT * FROM information_schema.statistics
WHERE table_schema = :schema AND table_name = :name ORDER BY index_name, seq_in_index
"""
_PROGRESS: Final = "SELECT * FROM information_schema.processlist WHERE id = :id"


class MySQLGround(Ground):
    """MySQL 8.0.1 and later, MariaDB 10.6 and later."""

    partial: ClassVar[bool] = False

    def __init__(self, job: Job) -> None:
        """Print as both read."""
        super().__init__(MySQL(), job, mysql.dialect(paramstyle="named"))

    @property
    def connect_args(self) -> dict[str, object]:
        """Give up on a server that does not answer."""
        return {"connect_timeout": 5, "charset": "utf8mb4"}

    @asynccontextmanager
    async def alone(self, connection: AsyncConnection) -> AsyncIterator[None]:
        """Take the named lock; the end of the session gives it back."""
        await self.execute(connection, f"SET SESSION lock_wait_timeout = {LOCK_WAIT_SECONDS}")
        # The driver logs every warning, such as that the name of a primary key is ignored.
        await self.execute(connection, "SET SESSION max_error_count = 0")
        database = (await self.rows(connection, "SELECT database()", {}))[0][0]
        name = "duetime migrate " + hashlib.sha256(str(database).encode()).hexdigest()[:16]
        waiting = Waiting(self.job)
        while not (await self.rows(connection, "SELECT get_lock(:name, 0)", {"name": name}))[0][0]:
            await waiting.pause("another `duetime migrate` is at work in this database", WATCH_SECONDS)
        yield

    def transaction(self, connection: AsyncConnection) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - see below
        """Do nothing: every definition commits by itself, and each of ours can be repeated."""
        return nullcontext()

    def same(self, column: str) -> str:
        """Column names differ in more than their case."""
        return column.lower()

    async def look(self, connection: AsyncConnection) -> ShopTable | None:
        """Ask the information schema."""
        wanted = self.job.orders.qualified
        rows = await self.rows(connection, _TABLE, {"schema": wanted.schema, "name": wanted.name})
        row = await self._exact(connection, rows, wanted.name)
        if row is None:
            return None
        if row.kind in {"VIEW", "SYSTEM VIEW", "SEQUENCE"}:
            raise ConfigError((self.not_a_table(f"a {row.kind.lower()}"),))
        if row.engine != "InnoDB":
            problem = f"orders.table: {self.job.orders.table} is {row.engine}; duetime locks single rows: use InnoDB"
            raise ConfigError((problem,))
        name = TableName(row.schema, row.name)
        columns = await self.rows(connection, _COLUMNS, name._asdict())
        key = [self.same(column.name) for column in columns if column.is_primary]
        ordering = Ordering(ends_with_id=key == [self.same(self.job.orders.id)])
        return ShopTable(name, frozenset(self.same(column.name) for column in columns), ordering)

    async def _exact(self, connection: AsyncConnection, rows: list[Row[Any]], name: str) -> Row[Any] | None:
        """Answer the row of this very name; the information schema ignores case where tables need not."""
        exact = [row for row in rows if row.name == name]
        if exact or not rows:
            return exact[0] if exact else None
        tables_ignore_case = (await self.rows(connection, "SELECT @@lower_case_table_names", {}))[0][0]
        return rows[0] if tables_ignore_case else None

    async def indexes(self, connection: AsyncConnection, table: ShopTable) -> list[FoundIndex]:
        """Ask the information schema, whose columns differ between versions."""
        parts: dict[str, list[dict[str, Any]]] = {}
        for row in await self.rows(connection, _INDEXES, table.name._asdict()):
            part = {key.lower(): value for key, value in row._mapping.items()}  # noqa: SLF001 - a public name of SQLAlchemy
            parts.setdefault(part["index_name"], []).append(part)
        return [self._found(name, part) for name, part in parts.items()]

    def _found(self, name: str, parts: list[dict[str, Any]]) -> FoundIndex:
        columns: list[str] = []
        for part in parts:
            if part["column_name"] is None or part["sub_part"] is not None or part["collation"] != "A":
                break
            columns.append(self._spelt(part["column_name"]))
        visible = parts[0].get("is_visible", "YES") == "YES" and parts[0].get("ignored", "NO") == "NO"
        usable = visible and parts[0]["index_type"] == "BTREE"
        return FoundIndex(name, tuple(columns), complete=len(columns) == len(parts), usable=usable)

    def _spelt(self, column: str) -> str:
        """Answer a column as [orders] spells it."""
        return next((name for name in self.wanted.columns if self.same(name) == self.same(column)), column)

    async def build(self, connection: AsyncConnection, table: ShopTable, leftover: FoundIndex | None) -> None:
        """Try until the table was free for the moment that is needed."""
        statement = self._alter(table.name, replaced=leftover is not None)
        waiting, pause = Waiting(self.job), 1
        session = (await self.rows(connection, "SELECT connection_id()", {}))[0][0]
        async with self.watched(lambda watcher: self._report(watcher, session)):
            while not await self._done(connection, statement):
                why = f"deadline index: open transactions keep table {self.job.orders.table}"
                await waiting.pause(why, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _done(self, connection: AsyncConnection, statement: str) -> bool:
        try:
            await self.execute(connection, statement)
        except DBAPIError as error:
            code = error.orig.args[0] if error.orig and error.orig.args else None
            if isinstance(self.dialect.failure(error), StoreConflict):
                return False
            if code in _CANNOT_BE_ONLINE or code == _LOG_TOO_BIG:
                raise StoreMisfit(self._not_online(code, error)) from error
            raise
        return True

    def _not_online(self, code: int | None, error: DBAPIError) -> str:
        remedy = (
            "raise innodb_online_alter_log_max_size, or run again when the shop writes less"
            if code == _LOG_TOO_BIG
            else "build it with a tool that copies the table beside the shop; `duetime migrate` accepts it then"
        )
        return f"deadline index: the database cannot build it beside the shop's writes ({error.orig}); {remedy}"

    async def _report(self, watcher: AsyncConnection, session: int) -> None:
        for row in await self.rows(watcher, _PROGRESS, {"id": session}):
            self._say({key.lower(): value for key, value in row._mapping.items()})  # noqa: SLF001 - as above

    def _say(self, session: dict[str, Any]) -> None:
        if session["command"] == "Sleep" or not session["state"]:
            return
        share = ""
        if session.get("max_stage"):  # only MariaDB tells how far it is
            share = f", stage {session['stage']} of {session['max_stage']}, {session['progress']:.0f} %"
        self.job.progress(f"deadline index: {session['state']}{share}")

    def statements(self, table: TableName) -> tuple[str, ...]:
        """Build the index with the same bound on waiting."""
        return (f"SET SESSION lock_wait_timeout = {LOCK_WAIT_SECONDS}", self._alter(table, replaced=False))

    def denied(self, error: BaseException) -> bool:
        """Go by the error number."""
        return bool(error.args) and error.args[0] in _DENIED

    def _alter(self, table: TableName, *, replaced: bool) -> str:
        index = self.quote(self.wanted.name)
        drop = f"DROP INDEX {index}, " if replaced else ""
        definition = self.wanted.definition(self.printing)
        return f"ALTER TABLE {self.quote(*table)} {drop}ADD INDEX {index} {definition}, ALGORITHM=INPLACE, LOCK=NONE"
