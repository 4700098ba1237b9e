"""The store on a shop's own SQL database: PostgreSQL, MySQL/MariaDB or SQLite, chosen by the URL."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import URL, Connection, inspect, make_url, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from duetime.clock import Clock
from duetime.errors import ConfigError, DuetimeError, StoreUnavailable
from duetime.shop import Asset, OrdersTable
from duetime.store import FullTransaction, StoreCapabilities
from duetime.stores.sql.books_part import BooksPart
from duetime.stores.sql.description import describe
from duetime.stores.sql.dialect import SqlDialect
from duetime.stores.sql.holds_part import HoldsPart
from duetime.stores.sql.keeping_part import KeepingPart
from duetime.stores.sql.leases_part import LeasesPart
from duetime.stores.sql.mysql import MySQL
from duetime.stores.sql.observed_part import ObservedPart
from duetime.stores.sql.orders_part import OrdersPart
from duetime.stores.sql.plain import RECIPES
from duetime.stores.sql.plain.recipes import Recipe, Recipes
from duetime.stores.sql.postgresql import PostgreSQL
from duetime.stores.sql.printing import PrintedStatement, all_statements, named, printed
from duetime.stores.sql.rights import Grant, grants, used_by
from duetime.stores.sql.schema import OwnTables
from duetime.stores.sql.sqlite import READ_ONLY, SQLite
from duetime.stores.sql.statements import Statements

TRANSACTION_SECONDS = 30.0
"""After how long a transaction of ours is given up as lost, whatever the network says."""


READ_ONLY_BECAUSE: Final = {
    "postgresql": "SELECT CASE WHEN pg_is_in_recovery() THEN 'it is a standby' "
    "WHEN current_setting('default_transaction_read_only') = 'on' THEN 'default_transaction_read_only is on' END",
    "mysql": "SELECT CASE WHEN @@global.read_only THEN 'read_only is on, as on a replica' END",
    "sqlite": "SELECT CASE WHEN query_only THEN 'query_only is on' END FROM pragma_query_only",
}
"""Asks each server whether it takes no writes, and why."""


@dataclass(frozen=True, slots=True)
class SqlOptions:
    """Where the database is and what its tables are called; ``schema`` is where duetime's own tables live.

    ``observes``: nothing but what observe mode remembers is written.
    """

    url: str
    orders: OrdersTable
    assets: Sequence[Asset]
    schema: str | None = None
    pool_size: int = 4
    observes: bool = False


class SqlTransaction(OrdersPart, HoldsPart, BooksPart, KeepingPart, ObservedPart, LeasesPart):
    """One transaction: all operations of the contract."""


def dialect_for(url: URL, clock: Clock) -> SqlDialect:
    """Choose the dialect that a URL names.

    Raises:
        ConfigError: no dialect of ours speaks to it.
    """
    backend = url.get_backend_name()
    if backend == "postgresql":
        return PostgreSQL()
    if backend in {"mysql", "mariadb"}:
        return MySQL()
    if backend == "sqlite":
        return SQLite(clock)
    msg = f"store.url: {backend}:// is not supported; use postgresql://, mysql://, mariadb:// or sqlite:///"
    raise ConfigError([msg])


class SqlStore:
    """Fulfils ``duetime.store.Store``."""

    def __init__(self, options: SqlOptions, *, clock: Clock) -> None:
        """Prepare; nothing is connected before the first use."""
        self._options = options
        url = make_url(options.url)
        self._dialect = dialect_for(url, clock)
        self._engine = self._dialect.engine(options.url, pool_size=options.pool_size)
        self._own = OwnTables(options.schema, partial_indexes=self._dialect.partial_indexes)
        self._statements: Statements | None = None
        self._writer = asyncio.Lock()
        self.name = url.get_backend_name()
        self.capabilities: StoreCapabilities = self._dialect.capabilities

    async def check(self) -> None:
        """Look at the server's version, the tables and columns described, and what must be unique."""
        async with self._connected(read_only=True) as connection:
            self._check_version(connection)
            await self._check_writable(connection)
            await connection.run_sync(self._check_own_tables)
            await self._described(connection)

    @property
    def dialect(self) -> SqlDialect:
        """How this database says things."""
        return self._dialect

    @property
    def address(self) -> str:
        """The URL without its password."""
        return make_url(self._options.url).render_as_string(hide_password=True)

    @asynccontextmanager
    async def plain_connection(self, *, write: bool = False) -> AsyncIterator[AsyncConnection]:
        """Open a transaction of ours without looking the described tables up; it is rolled back."""
        async with self._turn(write=write), self._connected(read_only=not write) as connection:
            await self._dialect.begin(connection)
            yield connection

    async def versions(self) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        """Answer the server's name, its version, and the oldest that will do."""
        async with self._connected(read_only=True) as connection:
            return self._dialect.versions(connection)

    async def missing_tables(self) -> list[str]:
        """Answer which of duetime's own tables are not there."""
        async with self._connected(read_only=True) as connection:
            return await connection.run_sync(self._missing_tables)

    def _missing_tables(self, connection: Connection) -> list[str]:
        there = set(inspect(connection).get_table_names(schema=self._options.schema))
        return [table.name for table in self._own.metadata.sorted_tables if table.name not in there]

    def _check_version(self, connection: AsyncConnection) -> None:
        server, found, oldest = self._dialect.versions(connection)
        if found and found < oldest:
            msg = f"store.url: this is {server} {_dotted(found)}; {_dotted(oldest)} is the oldest that duetime works on"
            raise ConfigError([msg])

    async def read_only(self) -> str | None:
        """Say why nothing can be written here, where the server says so: a replica, most of the time."""
        async with self._connected(read_only=True) as connection:
            return await self._read_only(connection)

    async def _read_only(self, connection: AsyncConnection) -> str | None:
        why: str | None = (await connection.execute(text(READ_ONLY_BECAUSE[self._dialect.name]))).scalar_one()
        return why

    async def _check_writable(self, connection: AsyncConnection) -> None:
        why = await self._read_only(connection)
        if why is not None:
            msg = f"store.url: nothing can be written here: {why}; name the primary server"
            raise ConfigError([msg])

    def _check_own_tables(self, connection: Connection) -> None:
        missing = self._missing_tables(connection)
        if missing:
            absent = f"duetime's own tables are missing ({', '.join(missing)})"
            msg = f"store.url: {absent}: {self._dialect.where_absent}"
            raise ConfigError([msg])

    async def statements(self) -> Statements:
        """Answer the statements for the configured tables, looking the tables up if that was not done yet."""
        if self._statements is None:
            async with self._connected(read_only=True) as connection:
                return await self._described(connection)
        return self._statements

    async def printed(self) -> list[PrintedStatement]:
        """Answer every statement that is run on the configured tables, as text."""
        return await printed(await self.statements(), self._engine.dialect, SqlTransaction)

    async def grants(self, role: str) -> list[Grant]:
        """Answer the rights that ``role`` needs on the configured tables, for their owner to give."""
        statements = await self.statements()
        built = await all_statements(statements, SqlTransaction)
        used = used_by(statements, built, observes=self._options.observes)
        async with self._connected(read_only=True) as connection:
            return await connection.run_sync(grants, statements, used, role)

    async def recipe(self, name: str) -> Recipe:
        """Answer the transaction ``place``, ``pay`` or ``cancel`` for programs that do not call duetime."""
        statements = await self.statements()
        return RECIPES[name](Recipes(statements, self._options.assets, named(self._engine.dialect)))

    async def _described(self, connection: AsyncConnection) -> Statements:
        shop = await connection.run_sync(describe, self._options.orders, self._options.assets)
        self._statements = Statements(self._dialect, self._own, shop)
        return self._statements

    @asynccontextmanager
    async def transaction(self, *, write: bool = True) -> AsyncIterator[FullTransaction]:
        """Open a transaction: committed at the end of the block, rolled back where the block raises."""
        statements = await self.statements()
        async with self._turn(write=write), self._connected(read_only=not write) as connection:
            opened_at = await self._dialect.begin(connection)
            yield SqlTransaction(connection, statements, opened_at)
            await connection.commit()

    @asynccontextmanager
    async def snapshot(
        self, *, seconds: float | None = None
    ) -> AsyncIterator[tuple[AsyncConnection, Statements, datetime]]:
        """Open a transaction that reads everything as it was at one instant, and answer that instant too.

        ``seconds``: how long it may stay open. Nothing is locked.
        """
        statements = await self.statements()
        async with self._connected(read_only=True, seconds=seconds or TRANSACTION_SECONDS) as connection:
            yield connection, statements, await self._dialect.snapshot(connection)

    def _turn(self, *, write: bool) -> AbstractAsyncContextManager[object]:
        # Writers of one process queue fairly; left to SQLite's busy time-out they would poll, and some would starve.
        return self._writer if write and not self.capabilities.row_locks else nullcontext()

    @asynccontextmanager
    async def _connected(
        self, *, read_only: bool, seconds: float = TRANSACTION_SECONDS
    ) -> AsyncIterator[AsyncConnection]:
        try:
            async with asyncio.timeout(seconds), self._engine.connect() as connection:
                yield await connection.execution_options(**{READ_ONLY: read_only})
        except DuetimeError:
            raise
        except TimeoutError as error:
            msg = f"the database did not answer within {seconds:g} seconds"
            raise StoreUnavailable(msg) from error
        except (SQLAlchemyError, OSError, EOFError) as error:
            failure = self._dialect.failure(error)
            if failure is error:
                raise
            raise failure from error

    async def aclose(self) -> None:
        """Give back all connections."""
        await self._engine.dispose()


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
