"""PostgreSQL, through psycopg 3.

* A transaction opens with one statement that reads the server's clock and bounds the transaction (``set_config`` with
  *local*: nothing is left behind in a session that a pooler hands on): its idleness, its waiting for locks, its
  statements. The planner is told to use indexes: every statement here has one, and with old statistics it may believe
  that reading the whole table is cheaper, or that gathering the whole backlog and sorting it is.
* Rows are locked ``FOR NO KEY UPDATE``: a foreign-key check of the shop (``FOR KEY SHARE`` on the order or the SKU that
  its new line points at) neither waits for us nor makes us wait.
* Lists travel as arrays: one parameter, whatever the length, and so one prepared statement. They are written by
  ``array_literal``: the driver's own way, element by element, was a third of all the processor time of a close.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    ColumnElement,
    Dialect,
    Insert,
    Select,
    String,
    Table,
    TableValuedAlias,
    Text,
    TypeDecorator,
    any_,
    cast,
    column,
    event,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from duetime.errors import StoreConflict, StoreDenied, StoreError, StoreMisfit, StoreRefused, StoreUnavailable
from duetime.hold import HeldHold, HoldState
from duetime.stores.sql.dialect import COMPACT, IDLE_SECONDS, LOCK_WAIT_SECONDS, Rows, SqlDialect, bind, bound, numbers
from duetime.stores.sql.schema import OwnTables

CONFLICTS = frozenset({"40001", "40P01", "55P03", "57014"})
LOST = frozenset({"25006", "25P03", "57P01", "57P02", "57P03", "53300", "57P05"})
MISFITS = ("0A", "3D", "3F", "42")
"""Classes of SQLSTATE that concern every order, as the two below do: databases, schemas, tables, columns. Any other
may be one row's alone (a constraint, or a code that a trigger of the shop chose itself)."""

DENIED = "42501"
NO_ENTRY = "28"

_BOUNDS = {
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    "lock_timeout": f"{LOCK_WAIT_SECONDS}s",
    "statement_timeout": "30s",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
}
_OPENING = text(
    "SELECT statement_timestamp(), "
    + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in _BOUNDS.items())
)


_SNAPSHOT = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
_READING_IDLE = text("SET LOCAL idle_in_transaction_session_timeout = '60s'")
"""A snapshot holds no lock, and a busy machine may let it wait."""

_CLOCK = text("SELECT statement_timestamp()")

_DATES = ("timestamp", "timestamptz")


def _read_all_dates(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's own connection
    adapters = connection.driver_connection.adapters
    for oid in (adapters.types[name].oid for name in _DATES):
        adapters.register_loader(oid, _forgiving(adapters.get_loader(oid, 0)))


@cache
def _forgiving(strict: Any) -> type[Any]:  # noqa: ANN401 - a loader of psycopg
    """Make a loader that reads as NULL what is no date to Python: the driver would fail the whole page for it."""
    from psycopg import DataError  # noqa: PLC0415 - an extra
    from psycopg.adapt import Loader  # noqa: PLC0415 - the same

    class Forgiving(Loader):
        def __init__(self, oid: int, context: Any = None) -> None:  # noqa: ANN401 - as the driver has it
            super().__init__(oid, context)
            self._strict = strict(oid, context)

        def load(self, data: Any) -> datetime | None:  # noqa: ANN401 - as the driver has it
            try:
                loaded: datetime = self._strict.load(data)
            except DataError:
                return None
            return loaded

    return Forgiving


class PostgreSQL(SqlDialect):
    """PostgreSQL 12 and later."""

    name: ClassVar[str] = "postgresql"
    oldest: ClassVar[tuple[int, ...]] = (12,)

    def engine(self, url: str, *, pool_size: int) -> AsyncEngine:
        """Make an engine that gives up on a silent server after some seconds."""
        engine = create_async_engine(
            url,
            isolation_level="READ COMMITTED",
            pool_size=pool_size,
            max_overflow=0,
            connect_args={"connect_timeout": 5, "tcp_user_timeout": 15_000, "application_name": "duetime"},
        )
        event.listen(engine.sync_engine, "connect", _read_all_dates)
        return engine

    async def begin(self, connection: AsyncConnection) -> datetime:
        """Bound the transaction and answer ``statement_timestamp()``."""
        opened: datetime = (await connection.execute(_OPENING)).one()[0]
        return opened.astimezone(UTC)

    async def snapshot(self, connection: AsyncConnection) -> datetime:
        """Set the transaction up before its first query."""
        await connection.execute(_SNAPSHOT)
        now = await self.begin(connection)
        await connection.execute(_READING_IDLE)
        return now

    async def clock(self, connection: Any) -> datetime:  # noqa: ANN401 - also a connection of the shop's own
        """Answer ``statement_timestamp()``."""
        moment: datetime = (await connection.execute(_CLOCK)).scalar_one()
        return moment.astimezone(UTC)

    def among(self, column: ColumnElement[Any], parameter: str) -> ColumnElement[bool]:
        """Say ``column = ANY(array)``."""
        return column == any_(_array(parameter, _plain(column.type)))

    def locked(self, select: Select[Any], *, wait: bool) -> Select[Any]:
        """Lock ``FOR NO KEY UPDATE``."""
        return select.with_for_update(key_share=True, skip_locked=not wait)

    def bulk_insert(self, table: Table, names: Sequence[str]) -> Insert:
        """Insert what a set of arrays holds, in the arrays' order."""
        return insert(table).from_select(list(names), _from_arrays(table, names))

    def bulk_rows(self, rows: Rows) -> Any:  # noqa: ANN401 - one array for each column
        """Turn rows into one array for each column."""
        return bound(**{name: [_json(row[name]) for row in rows] for name in rows[0]})

    def bulk_upsert(self, table: Table, names: Sequence[str], changed: Sequence[str]) -> Insert:
        """Say ``ON CONFLICT … DO UPDATE``."""
        upsert = postgresql.insert(table).from_select(list(names), _from_arrays(table, names))
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
        """Join the arrays to the primary key."""
        hold = own.hold
        rows = _unnest(hold, ("order_no", "kind", "ref"))
        statement = (
            update(hold)
            .values(state=bind("to_state"), released_at=bind("at"))
            .where(
                hold.c.order_no == rows.c.order_no,
                hold.c.kind == rows.c.kind,
                hold.c.ref == rows.c.ref,
                hold.c.state == bind("from_state"),
            )
        )
        parameters = bound(
            order_no=[held.order_no for held in holds],
            kind=[held.hold.kind for held in holds],
            ref=[held.hold.ref for held in holds],
            from_state=holds[0].state.value,
            to_state=change[0].value,
            at=change[1],
        )
        return (await connection.execute(statement, parameters)).rowcount

    def versions(self, connection: AsyncConnection) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        """Answer the server's version as SQLAlchemy read it when it connected."""
        return "PostgreSQL", numbers(connection), self.oldest

    def trouble(self, error: BaseException) -> type[StoreError] | None:
        """Go by SQLSTATE, which psycopg2 (of a shop's own transaction) calls by another name."""
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if not isinstance(state, str):
            return None
        if state in CONFLICTS:
            return StoreConflict
        if state in LOST or state.startswith(("08", "53", "58")):
            return StoreUnavailable
        if state == DENIED or state.startswith(NO_ENTRY):
            return StoreDenied
        return StoreMisfit if state.startswith(MISFITS) else StoreRefused


def _from_arrays(table: Table, names: Sequence[str]) -> Select[Any]:
    rows = _unnest(table, names)
    return select(
        *(cast(rows.c[name], JSON) if isinstance(table.c[name].type, JSON) else rows.c[name] for name in names)
    )


def _unnest(table: Table, names: Sequence[str]) -> TableValuedAlias:
    """Answer the rows of several arrays of equal length, one for each named column."""
    arrays, columns = [], []
    for name in names:
        kind = Text() if isinstance(table.c[name].type, JSON) else _plain(table.c[name].type)
        arrays.append(_array(name, kind))
        columns.append(column(name, kind))
    return func.unnest(*arrays).table_valued(*columns, name="given").render_derived()


class _Array(TypeDecorator[Any]):
    """A list, sent as the text of an array of its type.

    The parameter itself has the array's type: a cast from text would be evaluated again for every row that a plan
    filters by it.
    """

    impl = postgresql.ARRAY
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Any:  # noqa: ANN401 - as SQLAlchemy declares it
        # A guest in a transaction of asyncpg (Duetime.hold) must hand it a list: it takes no text for an array.
        if dialect.driver.startswith("psycopg"):
            return array_literal
        return self.impl_instance.bind_processor(dialect)


def _array(parameter: str, kind: Any) -> ColumnElement[Any]:  # noqa: ANN401 - any column type
    return bind(parameter, _Array(kind))


def array_literal(values: Sequence[Any] | None) -> str | None:
    """Write a list as PostgreSQL reads arrays (documentation, section 8.15.6): quoted, and escaped where needed."""
    if values is None:
        return None
    try:
        body = '","'.join(values)
    except TypeError:
        return "{" + ",".join(map(_element, values)) + "}"
    if "\\" in body or body.count('"') > 2 * (len(values) - 1):
        return "{" + ",".join(map(_element, values)) + "}"
    return '{"' + body + '"}' if values else "{}"


def _element(value: Any) -> str:  # noqa: ANN401 - any value of a column
    if isinstance(value, int):
        return str(value)
    if value is None:
        return "NULL"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _json(value: object) -> object:
    return COMPACT(value) if isinstance(value, dict | list) else value


def _plain(kind: Any) -> Any:  # noqa: ANN401 - any column type
    # A collation belongs to the column; in the cast of an array it would be a syntax error.
    return String() if isinstance(kind, String) and kind.collation else kind
