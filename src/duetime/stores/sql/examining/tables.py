"""The tables: are they as described, may this account use them, do they keep what they are told, is the index used."""

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import Connection, Table, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from duetime.doctor import Found, failed, ok, warning
from duetime.errors import ConfigError, StoreError
from duetime.store import DueQuery
from duetime.stores.sql.examining.desk import Desk, Terms
from duetime.stores.sql.migrate import Migrator, newest_revision
from duetime.stores.sql.migrating.due_index import ANOTHER_CONDITION
from duetime.stores.sql.rights import PLACING, Grant
from duetime.stores.sql.statements import Statements
from duetime.stores.sql.store import SqlStore, SqlTransaction

DENIED: Final = frozenset({"42501", "1044", "1142", "1143", "1227", "1370"})
SMALL: Final = 1000
"""Rows below which a planner may rightly read a whole table."""

_NOT_UNIQUE: Final = "is not unique"
_ATTEMPTS: Final = {
    "SELECT": "SELECT 1 FROM {on} WHERE 1 = 0",
    "INSERT": "INSERT INTO {on} ({column}) SELECT NULL{dual} WHERE 1 = 0",
    "UPDATE": "UPDATE {on} SET {column} = NULL WHERE 1 = 0",
    "DELETE": "DELETE FROM {on} WHERE 1 = 0",
}


class TablesDesk(Desk):
    """Asks about tables."""

    def __init__(self, store: SqlStore, terms: Terms, migrator: Migrator) -> None:
        """``migrator`` knows the own tables' revision and which index is wanted."""
        super().__init__(store, terms)
        self._migrator = migrator

    async def own_tables(self) -> Found:
        """See that they are there, and as this release wants them."""
        missing = await self._store.missing_tables()
        if missing:
            return failed(f"duetime's own tables are missing: {', '.join(missing)}", self._store.dialect.where_absent)
        try:
            revision = await self._migrator.revision()
        except (DBAPIError, StoreError):
            return ok("duetime's own tables are there; this account may not read their revision")
        if revision != newest_revision():
            return failed(
                f"duetime's own tables are at revision {revision or 'none'}, this release works with "
                f"{newest_revision()}",
                "run `duetime migrate`, or install the release that the database was migrated by",
            )
        return ok(f"duetime's own tables are there, at revision {revision}")

    async def described(self) -> Found:
        """See that the tables and columns of the config are there."""
        problems = [one for one in await self._problems() if _NOT_UNIQUE not in one]
        if problems:
            return failed("; ".join(problems), "correct the config, or the tables")
        named = [self._terms.orders.table, *(asset.table for asset in self._terms.assets if asset.table)]
        return ok(f"{', '.join(named)} are as described" if len(named) > 1 else f"{named[0]} is as described")

    async def unique(self) -> Found:
        """See that numbers and keys name one row each."""
        problems = [one for one in await self._problems() if _NOT_UNIQUE in one]
        if problems:
            return failed("; ".join(problems), "add the unique index that is missing")
        return ok("order numbers and asset keys are unique")

    async def _problems(self) -> Sequence[str]:
        try:
            await self._store.statements()
        except ConfigError as error:
            return error.problems
        return ()

    # Rights

    async def rights(self) -> Found:
        """Try each right on no row at all, and take everything back."""
        if self._dialect == "sqlite":
            async with self._store.plain_connection(write=True):
                return ok("this account may write the file")
        account = str(await self._one("SELECT current_user"))
        needed = await self._store.grants(account)
        async with self._store.plain_connection(write=True) as connection:
            missing = [grant for grant in needed if grant.on and not await self._has(connection, grant)]
        hindering = [grant for grant in missing if grant.why != PLACING]
        if hindering:
            return failed(
                f"{account} lacks {', '.join(f'{grant.rights} on {grant.on}' for grant in hindering)}",
                "; ".join(f"{grant.sql}" for grant in hindering),
            )
        placing = " (it may not insert orders: those the shop places itself)" if missing else ""
        return ok(f"{account} may do all that duetime does{placing}")

    async def _has(self, connection: AsyncConnection, grant: Grant) -> bool:
        dual = "" if self._dialect == "postgresql" else " FROM dual"
        for right in (right.strip() for right in grant.rights.partition("(")[0].split(",")):
            for column in grant.columns if right == "UPDATE" else grant.columns[:1]:
                if not await _may(connection, _ATTEMPTS[right].format(on=grant.on, column=column, dual=dual)):
                    return False
        return True

    # What the tables are

    async def storage(self) -> Found:
        """See that what is committed stays."""
        async with self._reader() as (connection, statements):
            if self._dialect == "sqlite":
                mode = (await connection.execute(text("PRAGMA journal_mode"))).scalar_one()
                return ok(f"journal_mode is {mode}: readers go on beside the one writer")
            if self._dialect == "postgresql":
                return await self._unlogged(connection, statements)
            return await self._engines(connection, statements)

    async def _unlogged(self, connection: AsyncConnection, statements: Statements) -> Found:
        query = text("SELECT relpersistence = 'u' FROM pg_class WHERE oid = to_regclass(:name)")
        names = list(_names(connection, statements))
        unlogged = [name for name in names if (await connection.execute(query, {"name": name})).scalar()]
        if unlogged:
            return warning(
                f"{', '.join(unlogged)}: UNLOGGED, emptied after a crash of the server",
                f"ALTER TABLE {unlogged[0]} SET LOGGED",
            )
        return ok("all tables are logged")

    async def _engines(self, connection: AsyncConnection, statements: Statements) -> Found:
        query = text(
            "SELECT engine FROM information_schema.tables "
            "WHERE table_schema = coalesce(:schema, database()) AND table_name = :name"
        )
        bad = []
        for table in _tables(statements):
            engine = (await connection.execute(query, {"schema": table.schema, "name": table.name})).scalar()
            if engine not in {None, "InnoDB"}:
                bad.append((table.name, engine))
        if bad:
            return failed(
                ", ".join(f"{name} is {engine}, which knows no transactions" for name, engine in bad),
                f"ALTER TABLE {bad[0][0]} ENGINE = InnoDB",
            )
        return ok("all tables are InnoDB")

    async def collations(self) -> Found:
        """Note where capitals do not count."""
        if self._dialect != "mysql":
            return ok("names compare as they are written, unless the column's type says otherwise")
        async with self._reader() as (connection, statements):
            query = text(
                "SELECT collation_name FROM information_schema.columns "
                "WHERE table_schema = coalesce(:schema, database()) AND table_name = :table AND column_name = :column"
            )
            orders = statements.orders
            values = {"schema": orders.table.schema, "table": orders.table.name, "column": orders.settings.order_no}
            collation = (await connection.execute(query, values)).scalar()
        if collation and "_ci" in collation:
            return ok(f"capitals do not count in order numbers ({collation}): so-1 and SO-1 are one order")
        return ok("order numbers compare as they are written")

    # The index

    async def index(self) -> Found:
        """See that an index serves the due query."""
        state = await self._migrator.deadline_index()
        if state.serving:
            return ok(f"the deadlines have the index {state.serving[0]}")
        words, remedy = (
            f"no index of {self._terms.orders.table} serves the due query",
            "run `duetime migrate`, at any time",
        )
        if state.misfit:
            words, remedy = f"{words}: {state.wanted} {state.misfit}", f"{remedy}: it builds another in its place"
        if state.misfit.startswith(ANOTHER_CONDITION):
            remedy += "; or set orders.only and orders.states back, where that change was not meant"
        return failed(words, remedy)

    async def index_use(self) -> Found:
        """Ask the planner about the very statement that looks for due orders."""
        state = await self._migrator.deadline_index()
        used, rows = await self._plan()
        serving = next((name for name in state.serving if name in used), None)
        if serving:
            return ok(f"the due query uses {serving}")
        way = f"uses {', '.join(used)}" if used else "reads the whole table"
        if rows < SMALL:
            return ok(f"the due query {way}: with so few rows that says nothing yet")
        return warning(
            f"the due query {way}, not {state.serving[0]}",
            "refresh the planner's statistics (ANALYZE), and look at `duetime sql due_page` with EXPLAIN",
        )

    async def _plan(self) -> tuple[list[str], int]:
        """Answer which indexes the due query uses, and how many rows the order table has, about."""
        statements = await self._store.statements()
        async with self._store.plain_connection() as connection:
            caught = _Caught()
            sync = connection.sync_connection
            assert sync is not None
            event.listen(sync, "before_cursor_execute", caught)
            tx = SqlTransaction(connection, statements, await self._store.dialect.clock(connection))
            await tx.due_page(DueQuery(await tx.now() - timedelta(days=3650), 1))
            event.remove(sync, "before_cursor_execute", caught)
            statement, parameters = caught.seen[-1]
            explained = await connection.exec_driver_sql(_EXPLAIN[self._dialect] + statement, parameters)
            found = list(_PLANS[self._dialect](explained.all()))
            return found, await _rows_about(connection, statements, self._dialect)


class _Caught:
    """Keeps statements on their way to the database."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def __call__(self, _connection: Connection, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:  # noqa: ANN401 - as SQLAlchemy calls it
        self.seen.append((statement, parameters))


_EXPLAIN: Final = {"postgresql": "EXPLAIN (FORMAT JSON) ", "mysql": "EXPLAIN ", "sqlite": "EXPLAIN QUERY PLAN "}
_ROWS: Final = {
    "postgresql": "SELECT reltuples FROM pg_class WHERE oid = to_regclass(:name)",
    "mysql": "SELECT table_rows FROM information_schema.tables "
    "WHERE table_schema = coalesce(:schema, database()) AND table_name = :table",
}


def _plan_postgresql(rows: Sequence[Any]) -> Iterator[str]:
    plan = rows[0][0]
    waiting = [one["Plan"] for one in (json.loads(plan) if isinstance(plan, str) else plan)]
    while waiting:
        node = waiting.pop()
        if "Index Name" in node:
            yield node["Index Name"]
        waiting += node.get("Plans", [])


def _plan_mysql(rows: Sequence[Any]) -> Iterator[str]:
    for row in rows:
        key = row._mapping.get("key")  # noqa: SLF001 - a public name of SQLAlchemy
        if key:
            yield str(key)


def _plan_sqlite(rows: Sequence[Any]) -> Iterator[str]:
    for row in rows:
        _, _, name = str(row[-1]).partition(" INDEX ")
        if name:
            yield name.partition(" (")[0]


_PLANS: Final = {"postgresql": _plan_postgresql, "mysql": _plan_mysql, "sqlite": _plan_sqlite}


async def _rows_about(connection: AsyncConnection, statements: Statements, dialect: str) -> int:
    if dialect not in _ROWS:
        return SMALL
    table = statements.orders.table
    name = _quoted(connection, table)
    values = {"name": name} if dialect == "postgresql" else {"schema": table.schema, "table": table.name}
    return int((await connection.execute(text(_ROWS[dialect]), values)).scalar() or 0)


async def _may(connection: AsyncConnection, attempt: str) -> bool:
    try:
        async with connection.begin_nested():
            await connection.exec_driver_sql(attempt.replace("%", "%%"))
    except DBAPIError as error:
        first = error.orig.args[0] if error.orig is not None and error.orig.args else None
        code = first if isinstance(first, int) else getattr(error.orig, "sqlstate", None)
        return str(code) not in DENIED
    return True


def _tables(statements: Statements) -> list[Table]:
    assets = [asset.table for asset in statements.shop.assets.values() if asset is not None]
    return list(dict.fromkeys((statements.orders.table, *assets, *statements.own.metadata.sorted_tables)))


def _names(connection: AsyncConnection, statements: Statements) -> Iterator[str]:
    return (_quoted(connection, table) for table in _tables(statements))


def _quoted(connection: AsyncConnection, table: Table) -> str:
    quote = connection.dialect.identifier_preparer.quote_identifier
    # The name is bound, not written into a statement: percent signs are not doubled in it.
    return ".".join(quote(part).replace("%%", "%") for part in (table.schema, table.name) if part is not None)
