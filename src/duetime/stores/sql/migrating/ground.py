"""One database while it is being migrated: what ``duetime migrate`` needs from each of them, and what they share.

Statements are made without the driver's own percent signs and run without parameters, so that what ``--sql`` prints is
what runs. Every connection is in autocommit; where a transaction is wanted, BEGIN and COMMIT are said.
"""

import asyncio
import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, ClassVar

from sqlalchemy import URL, Connection, Dialect, Row, inspect, text
from sqlalchemy.exc import DBAPIError, SAWarning
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import TypeEngine

from duetime.errors import ConfigError, StoreConflict
from duetime.shop import OrdersTable, TableName
from duetime.stores.sql.column_kinds import no_state, plain
from duetime.stores.sql.dialect import SqlDialect
from duetime.stores.sql.migrating import own_tables
from duetime.stores.sql.migrating.due_index import DueIndex, FoundIndex, Ordering, due_index
from duetime.stores.sql.schema import SampleShop

WATCH_SECONDS = 1.0
"""Between two words of progress on one long statement."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done, and how long locks of others are waited for in all."""

    orders: OrdersTable
    schema: str | None
    patience: float
    progress: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ShopTable:
    """The order table as it was found: where it really is, its columns, and how rows come in order there."""

    name: TableName
    columns: frozenset[str]
    ordering: Ordering


class Waiting:
    """Patience with others' locks, in pieces: says each time what is waited for, and gives up in the end."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._ends = monotonic() + job.patience

    @property
    def left(self) -> float:
        """Seconds of patience that are left."""
        return max(0.0, self._ends - monotonic())

    async def pause(self, why: str, seconds: float) -> None:
        """Say why, and wait.

        Raises:
            StoreConflict: the patience is over.
        """
        if self.left <= 0:
            raise StoreConflict(
                f"{why}; waited {self._job.patience:g} s, nothing was lost: run `duetime migrate` again"
            )
        self._job.progress(f"{why}; trying again")
        await asyncio.sleep(min(seconds, self.left))


class Ground(ABC):
    """One database."""

    partial: ClassVar[bool]
    by_hand: ClassVar[str] = "Leave it out where an index serves already."
    engine: AsyncEngine

    def __init__(self, dialect: SqlDialect, job: Job, printing: Dialect) -> None:
        """``printing`` compiles statements as text: its parameter style leaves percent signs alone."""
        self.dialect, self.job, self.printing = dialect, job, printing
        self.wanted: DueIndex = due_index(job.orders, printing, partial=self.partial)

    # What each database does in its own way

    @property
    @abstractmethod
    def connect_args(self) -> dict[str, object]:
        """What the driver is told when it connects."""

    @abstractmethod
    def alone(self, connection: AsyncConnection) -> AbstractAsyncContextManager[None]:
        """Keep other runs of ours out of this database meanwhile."""

    @abstractmethod
    def transaction(self, connection: AsyncConnection) -> AbstractAsyncContextManager[None]:
        """Open a transaction for the own tables, where definitions can be part of one."""

    @abstractmethod
    async def look(self, connection: AsyncConnection) -> ShopTable | None:
        """Find the order table; None where there is none. Raises ``ConfigError`` for what cannot have our index."""

    @abstractmethod
    async def indexes(self, connection: AsyncConnection, table: ShopTable) -> list[FoundIndex]:
        """List the order table's indexes."""

    @abstractmethod
    async def build(self, connection: AsyncConnection, table: ShopTable, leftover: FoundIndex | None) -> None:
        """Build the index without keeping the shop waiting; first remove what is left under its name."""

    @abstractmethod
    def statements(self, table: TableName) -> tuple[str, ...]:
        """Answer the statements that build the index, for somebody who runs them by hand."""

    @abstractmethod
    def denied(self, error: BaseException) -> bool:
        """True when a driver's error says that a right is missing."""

    # What is the same everywhere

    @property
    def home(self) -> own_tables.Home:
        """Where the own tables live."""
        schema = self.job.schema
        return own_tables.Home(schema, None if schema is None else self.quote(schema))

    @asynccontextmanager
    async def connected(self, url: URL) -> AsyncIterator[AsyncConnection]:
        """Connect, each time anew: a run has two connections at most."""
        self.engine = create_async_engine(
            url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=self.connect_args
        )
        try:
            async with self.engine.connect() as connection:
                self.check_version(connection)
                yield connection
        finally:
            await self.engine.dispose()

    def check_version(self, connection: AsyncConnection) -> None:
        """Raise ``ConfigError`` for a server that is too old."""
        name, found, oldest = self.dialect.versions(connection)
        if found < oldest:
            problem = (
                f"store.url: this is {name} {_dotted(found)}; {_dotted(oldest)} is the oldest that duetime works on"
            )
            raise ConfigError((problem,))

    async def described(self, connection: AsyncConnection) -> ShopTable:
        """Find the order table with the columns that the index is made of.

        Raises:
            ConfigError: it is not there, cannot have an index, lacks a column, or has none for the states.
        """
        table = await self.look(connection)
        orders = self.job.orders
        if table is None:
            problem = (
                f"orders.table: there is no table {orders.table} in this database; name yours in the section [orders], "
                "or run `duetime migrate --sample-shop` to create the sample shop's tables"
            )
            raise ConfigError((problem,))
        roles = {"id": orders.id, "status": orders.status, "expire_at": orders.expire_at}
        missing = {key: column for key, column in roles.items() if self.same(column) not in table.columns}
        if missing:
            has = f"table {orders.table} has the columns {', '.join(sorted(table.columns))}"
            raise ConfigError([f"orders.{key}: there is no column {name}; {has}" for key, name in missing.items()])
        kind = await connection.run_sync(self._kind_of, table.name, orders.status)
        unfit = no_state(kind, orders.states.written)
        if unfit:
            raise ConfigError([f"orders.states: column {orders.status} {why}" for why in unfit])
        return table

    def _kind_of(self, connection: Connection, table: TableName, column: str) -> TypeEngine[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)  # what SQLAlchemy finds odd about the rest of the table
            found = inspect(connection).get_columns(table.name, schema=table.schema)
        return next(plain(one["type"]) for one in found if self.same(one["name"]) == self.same(column))

    def not_a_table(self, kind: str) -> str:
        """Answer the sentence that refuses a view and the like."""
        return (
            f"orders.table: {self.job.orders.table} is {kind}: duetime locks and writes rows, and an index must stand "
            "on the table that has them; name that table"
        )

    def same(self, column: str) -> str:
        """Answer the form in which two spellings of one column are equal: as they stand, unless case is ignored."""
        return column

    async def own_tables(self, connection: AsyncConnection) -> tuple[str, ...]:
        """Bring duetime's own tables up to date; answer the revisions that were run."""
        async with self.transaction(connection):
            await self.ensure_schema(connection)
            return await connection.run_sync(own_tables.upgrade, self.home, self.job.progress)

    async def ensure_schema(self, connection: AsyncConnection) -> None:
        """Create the schema of the own tables where it is named and not there."""
        if self.job.schema is None:
            return
        known = text("SELECT 1 FROM information_schema.schemata WHERE schema_name = :name")
        if (await connection.execute(known, {"name": self.job.schema})).first() is None:
            await self.execute(connection, f"CREATE SCHEMA {self.quote(self.job.schema)}")

    async def sample_shop(self, connection: AsyncConnection) -> tuple[str, ...]:
        """Create those of the sample shop's tables that are absent; answer their names."""
        before = await connection.run_sync(lambda sync: set(sync.dialect.get_table_names(sync)))
        created = tuple(table.name for table in SampleShop().metadata.sorted_tables if table.name not in before)
        for statement in self.sample_statements():
            await self.execute(connection, statement)
        return created

    def sample_statements(self) -> tuple[str, ...]:
        """Answer the statements that create the sample shop's tables."""
        tables = SampleShop().metadata.sorted_tables
        made = (CreateTable(table, if_not_exists=True) for table in tables)
        return tuple(str(one.compile(dialect=self.printing)).strip().expandtabs(4) for one in made)

    async def due_index(self, connection: AsyncConnection) -> tuple[str, bool]:
        """See that the due query has its index; answer the index's name and whether it was built now."""
        table = await self.described(connection)
        found = await self.indexes(connection, table)
        serving = self.serving(table, found)
        if serving is not None:
            self.job.progress(f"deadline index: {serving.name} on {self.job.orders.table} serves")
            return serving.name, False
        leftover = self.leftover(found)
        if leftover is not None:
            why = self.wanted.misfit(leftover)
            self.job.progress(f"deadline index: {leftover.name} {why}; another is built in its place")
        self.job.progress(f"deadline index: building {self.wanted.name} on {self.job.orders.table}")
        await self.build(connection, table, leftover)
        self.job.progress(f"deadline index: {self.wanted.name} is ready")
        return self.wanted.name, True

    def leftover(self, found: list[FoundIndex]) -> FoundIndex | None:
        """Answer what is there under our index's name."""
        return next((index for index in found if index.name == self.wanted.name), None)

    def serving(self, table: ShopTable, found: list[FoundIndex]) -> FoundIndex | None:
        """Answer an index that the due query can use, ours before others."""
        ours_first = sorted(found, key=lambda index: index.name != self.wanted.name)
        return next((index for index in ours_first if self._serves(table, index)), None)

    def _serves(self, table: ShopTable, found: FoundIndex) -> bool:
        if found.usable and found.note == self.wanted.definition(self.printing):
            return True
        return self.wanted.is_served_by(found, table.ordering)

    @asynccontextmanager
    async def watched(self, look: Callable[[AsyncConnection], Awaitable[None]]) -> AsyncIterator[None]:
        """Look on from a second connection, again and again, while the block runs; the block alone decides.

        The watcher is asked to stop, not cancelled: a connection that is just being made would be left half open.
        """
        done = asyncio.Event()
        watcher = asyncio.create_task(self._look_on(look, done))
        try:
            yield
        finally:
            done.set()
            await asyncio.gather(watcher, return_exceptions=True)

    async def _look_on(self, look: Callable[[AsyncConnection], Awaitable[None]], done: asyncio.Event) -> None:
        if await _set_within(done, WATCH_SECONDS):
            return
        async with self.engine.connect() as connection:
            while True:
                await look(connection)
                if await _set_within(done, WATCH_SECONDS):
                    return

    async def execute(self, connection: AsyncConnection, statement: str) -> None:
        """Run one statement as it stands."""
        await connection.exec_driver_sql(statement, execution_options={"no_parameters": True})

    async def rows(self, connection: AsyncConnection, query: str, values: Mapping[str, object]) -> list[Row[Any]]:
        """Answer all rows of a query."""
        return list((await connection.execute(text(query), dict(values))).all())

    def quote(self, *parts: str | None) -> str:
        """Quote a name with its schema, where it has one."""
        return ".".join(self.printing.identifier_preparer.quote_identifier(part) for part in parts if part is not None)

    @contextmanager
    def explained(self, doing: str, remedy: str) -> Iterator[None]:
        """Say what was being done when the database refused, and what helps."""
        try:
            yield
        except DBAPIError as error:
            failure = self.dialect.failure(error)
            then = f"; {remedy}" if error.orig is not None and self.denied(error.orig) else ""
            raise type(failure)(f"{doing}: {str(failure).splitlines()[0]}{then}") from error


@asynccontextmanager
async def said_transaction(ground: Ground, connection: AsyncConnection, begin: str) -> AsyncIterator[None]:
    """Say BEGIN, then COMMIT, or ROLLBACK where the block raises."""
    await ground.execute(connection, begin)
    try:
        yield
    except BaseException:
        with suppress(DBAPIError):
            await ground.execute(connection, "ROLLBACK")
        raise
    await ground.execute(connection, "COMMIT")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
