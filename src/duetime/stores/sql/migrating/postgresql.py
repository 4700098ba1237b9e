"""PostgreSQL: the index is built CONCURRENTLY, which no reader or writer of the table waits for.

* It waits itself, for every transaction that was open when it began. That is bounded by ``lock_timeout``; what it then
  leaves behind is an index that costs writes and serves nobody (``indisvalid`` is false). The next run removes it.
* One run at a time through an advisory lock, asked for again and again. Waiting *for* it would be a statement with a
  snapshot, which a CREATE INDEX CONCURRENTLY in the session that has the lock would wait for in turn.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, ClassVar, Final

from sqlalchemy import Row
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from duetime.errors import ConfigError, StoreConflict
from duetime.shop import TableName
from duetime.stores.sql.migrating.due_index import FoundIndex, Ordering
from duetime.stores.sql.migrating.ground import (
    WATCH_SECONDS,
    Ground,
    Job,
    ShopTable,
    Waiting,
    said_transaction,
)
from duetime.stores.sql.postgresql import PostgreSQL

_ADVISORY_KEY: Final = int.from_bytes(b"duetime\x01")
_SORTS_BY_GROUPS: Final = (13,)
_DENIED: Final = "42501"
_KINDS: Final = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "c": "a type"}

_TABLE: Final = """
SELECT c.oid::bigint AS oid, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(:table)
"""
_INDEXES: Final = """
SELECT c.relname AS name, i.indisvalid AND i.indisready AND i.indislive AS finished, m.amname = 'btree' AS is_btree,
       pg_get_expr(i.indpred, i.indrelid) AS where, obj_description(c.oid, 'pg_class') AS note,
       ARRAY(SELECT CASE WHEN i.indoption[k.n - 1] = 0 THEN a.attname::text END
             FROM generate_series(1, i.indnkeyatts::int) AS k(n)
             LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k.n - 1] AND a.attnum > 0
             ORDER BY k.n) AS columns
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
     JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_class t ON t.oid = i.indrelid
WHERE n.nspname = :schema AND t.relname = :table ORDER BY c.relname
"""
_PROGRESS: Final = """
SELECT p.phase AS phase, p.current_locker_pid AS pid, extract(epoch FROM now() - a.xact_start)::int AS age,
       CASE WHEN p.tuples_total > 0 THEN 100 * p.tuples_done / p.tuples_total
            WHEN p.blocks_total > 0 THEN 100 * p.blocks_done / p.blocks_total END AS percent
FROM pg_stat_progress_create_index p LEFT JOIN pg_stat_activity a ON a.pid = p.current_locker_pid WHERE p.pid = :pid
"""


class PostgreSQLGround(Ground):
    """PostgreSQL 12 and later."""

    partial: ClassVar[bool] = True
    by_hand: ClassVar[str] = (
        "Not inside a transaction. Leave it out where an index serves already;\n"
        "-- if it fails or is cut off, DROP INDEX CONCURRENTLY what it left before you try again."
    )

    def __init__(self, job: Job) -> None:
        """Print as PostgreSQL reads."""
        super().__init__(PostgreSQL(), job, postgresql.dialect(paramstyle="named"))
        self._partitioned = False
        self._waits_for = ""

    @property
    def connect_args(self) -> dict[str, object]:
        """Give up on a server that does not answer."""
        return {"connect_timeout": 5, "application_name": "duetime migrate"}

    @asynccontextmanager
    async def alone(self, connection: AsyncConnection) -> AsyncIterator[None]:
        """Take the advisory lock; the end of the session gives it back."""
        await self._bound_session(connection)
        waiting = Waiting(self.job)
        take = "SELECT pg_try_advisory_lock(:key)"
        while not (await self.rows(connection, take, {"key": _ADVISORY_KEY}))[0][0]:
            await waiting.pause("another `duetime migrate` is at work in this database", WATCH_SECONDS)
        yield

    async def _bound_session(self, connection: AsyncConnection) -> None:
        bounds = {"lock_timeout": f"{self.job.patience * 1000:.0f}ms", "statement_timeout": "0"}
        # A statement whose client was killed would otherwise go on to its end, and keep the advisory lock.
        bounds |= {"idle_session_timeout": "0", "client_connection_check_interval": "5s"}
        known = "SELECT set_config(name, :value, false) FROM pg_settings WHERE name = :name"
        for name, value in bounds.items():
            with suppress(DBAPIError):  # not every platform can watch its clients
                await self.rows(connection, known, {"name": name, "value": value})

    def transaction(self, connection: AsyncConnection) -> AbstractAsyncContextManager[None]:
        """Create the own tables as a whole or not at all."""
        return said_transaction(self, connection, "BEGIN")

    async def look(self, connection: AsyncConnection) -> ShopTable | None:
        """Ask the catalog; a name without a schema is looked up along the search path."""
        name = self.job.orders.qualified
        found = await self.rows(connection, _TABLE, {"table": self.quote(name.schema, name.name)})
        if not found:
            return None
        row = found[0]
        if row.kind in _KINDS:
            raise ConfigError((self.not_a_table(_KINDS[row.kind]),))
        self._partitioned = row.kind == "p"
        ordering = Ordering(by_groups=(connection.dialect.server_version_info or ()) >= _SORTS_BY_GROUPS)
        return ShopTable(TableName(row.schema, row.name), frozenset(row.columns), ordering)

    async def indexes(self, connection: AsyncConnection, table: ShopTable) -> list[FoundIndex]:
        """Ask the catalog."""
        rows = await self.rows(connection, _INDEXES, {"schema": table.name.schema, "table": table.name.name})
        return [_found(row) for row in rows]

    async def build(self, connection: AsyncConnection, table: ShopTable, leftover: FoundIndex | None) -> None:
        """Build it CONCURRENTLY, after what an earlier run left is gone."""
        if self._partitioned:
            raise ConfigError((self._partition_problem(table.name),))
        create, comment = self.statements(table.name)
        drop = f"DROP INDEX CONCURRENTLY IF EXISTS {self.quote(table.name.schema, self.wanted.name)}"
        waiting, steps = Waiting(self.job), [create] if leftover is None else [drop, create]
        session = (await self.rows(connection, "SELECT pg_backend_pid()", {}))[0][0]
        async with self.watched(lambda watcher: self._report(watcher, session)):
            while not await self._done(connection, steps):
                await waiting.pause(f"deadline index: {self._waits_for or 'others were in the way'}", WATCH_SECONDS)
                steps = [drop, create]
        await self.execute(connection, comment)

    async def _done(self, connection: AsyncConnection, steps: Sequence[str]) -> bool:
        try:
            for step in steps:
                await self.execute(connection, step)
        except DBAPIError as error:
            if isinstance(self.dialect.failure(error), StoreConflict):
                return False
            raise
        return True

    async def _report(self, watcher: AsyncConnection, session: int) -> None:
        for row in await self.rows(watcher, _PROGRESS, {"pid": session}):
            words = _words(row)
            self._waits_for = words if row.pid else ""
            self.job.progress(f"deadline index: {words}")

    def statements(self, table: TableName) -> tuple[str, ...]:
        """Build the index, then note beside it what it was made for: PostgreSQL words conditions anew."""
        definition = self.wanted.definition(self.printing)
        note = definition.replace("'", "''")
        return (
            f"CREATE INDEX CONCURRENTLY {self.quote(self.wanted.name)} ON {self.quote(*table)} {definition}",
            f"COMMENT ON INDEX {self.quote(table.schema, self.wanted.name)} IS '{note}'",
        )

    def denied(self, error: BaseException) -> bool:
        """Go by SQLSTATE."""
        return getattr(error, "sqlstate", None) == _DENIED

    def _partition_problem(self, table: TableName) -> str:
        definition = self.wanted.definition(self.printing)
        return (
            f"orders.table: {self.job.orders.table} is partitioned, and PostgreSQL cannot build an index on all "
            "partitions without keeping writers out. By hand: CONCURRENTLY on each partition, then once CREATE INDEX "
            f"ON ONLY {self.quote(*table)} {definition}, then attach them; `duetime migrate` accepts it"
        )


def _found(row: Row[Any]) -> FoundIndex:
    plain = row.columns[: row.columns.index(None)] if None in row.columns else row.columns
    complete = len(plain) == len(row.columns)
    usable = row.finished and row.is_btree
    index = FoundIndex(row.name, tuple(plain), complete=complete, where=row.where, usable=usable, note=row.note)
    return replace(index, finished=row.finished)


def _words(row: Row[Any]) -> str:
    if row.pid:
        since = f", in a transaction for {row.age} s" if row.age is not None else ""
        return f"{row.phase}: process {row.pid}{since}"
    return row.phase if row.percent is None else f"{row.phase}, {row.percent:.0f} %"
