"""The doors into the shop's own transaction: whatever the shop's code calls its connection, one way to work on it.

The transaction stays the shop's: nothing is set, committed or rolled back here. A synchronous connection is used
through the same code as an async one; its calls simply return before they are awaited.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from sqlalchemy import Connection, text
from sqlalchemy.exc import StatementError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session
from typing_extensions import TypeAliasType

from duetime.errors import InvalidInput
from duetime.stores.sql.drivers import SUPPORTED, Transaction, driver_of, engine_on, is_async, transaction_of
from duetime.stores.sql.statements import Statements


@runtime_checkable
class DbApiConnection(Protocol):
    """A connection of psycopg, psycopg2, PyMySQL, mysqlclient or sqlite3, or psycopg's ``AsyncConnection``."""

    def cursor(self) -> Any:  # noqa: ANN401 - the driver's
        """Open a cursor."""

    def commit(self) -> Any:  # noqa: ANN401 - None, or awaitable
        """Commit, which is the shop's to do."""

    def rollback(self) -> Any:  # noqa: ANN401 - None, or awaitable
        """Roll back, which is the shop's to do."""


@runtime_checkable
class DbApiCursor(Protocol):
    """A cursor of such a connection; it is left as it is, and another one is opened beside it."""

    @property
    def connection(self) -> Any:  # noqa: ANN401 - the driver's
        """The connection that it belongs to."""


@runtime_checkable
class DjangoConnection(Protocol):
    """``django.db.connection``, or one of ``django.db.connections``."""

    vendor: Any
    in_atomic_block: Any
    connection: Any


ShopTransaction = TypeAliasType(
    "ShopTransaction",
    AsyncConnection
    | AsyncSession
    | async_scoped_session[Any]
    | Connection
    | Session
    | scoped_session[Any]
    | DjangoConnection
    | DbApiConnection
    | DbApiCursor,
)
"""What a shop may hand over: its own transaction, opened by its own means."""

_BEGIN_SQLITE: Final = text("BEGIN IMMEDIATE")
_TOUCH: Final = text("SELECT 1")
_DIALECTS: Final = {"mariadb": "mysql"}


@dataclass(frozen=True)
class Door:
    """A connection of SQLAlchemy's that can be awaited, the driver's own below it, and the kind of database."""

    connection: Any
    raw: Any
    database: str
    lent: bool = False

    async def aclose(self) -> None:
        """Let go of the shop's connection; one of SQLAlchemy's own was never ours."""
        if self.lent:
            await self.connection.close()


class _Direct:
    """A synchronous connection that can be awaited."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect = connection.dialect

    async def execute(self, statement: Any, parameters: Any = None) -> Any:  # noqa: ANN401 - passes on
        return self._connection.execute(statement, parameters)

    async def close(self) -> None:
        self._connection.close()


@asynccontextmanager
async def entered(statements: Statements, tx: ShopTransaction) -> AsyncIterator[Any]:
    """Answer a connection in the shop's transaction, for the time of the block.

    Raises:
        InvalidInput: it is nothing that duetime can write through, or has no transaction to share.
        StoreError: the driver's errors, as the store's own.
    """
    door = await _door(tx)
    try:
        _check_database(door, statements)
        await _check_transaction(door)
        yield door.connection
    except StatementError as error:
        raise statements.dialect.failure(error) from error
    finally:
        await door.aclose()


def needs_event_loop(tx: ShopTransaction) -> bool:
    """Say whether this has to be awaited, which a synchronous program cannot do."""
    return isinstance(tx, AsyncConnection | AsyncSession | async_scoped_session) or is_async(tx)


async def _door(tx: ShopTransaction) -> Door:
    match tx:
        case AsyncConnection():
            return await _async_door(tx)
        case AsyncSession() | async_scoped_session():
            # An order that was only added to the session so far is to be found.
            if tx.autoflush:
                await tx.flush()
            return await _async_door(await tx.connection())
        case Connection():
            return _sync_door(tx)
        case Session() | scoped_session():
            if tx.autoflush:
                tx.flush()
            return _sync_door(tx.connection())
        case _:
            django = _django(tx)
            return await _lent_door(_connection_of(tx) if django is None else _below_django(django))


async def _async_door(connection: AsyncConnection) -> Door:
    raw = (await connection.get_raw_connection()).driver_connection
    return Door(connection, raw, connection.dialect.name)


def _sync_door(connection: Connection) -> Door:
    return Door(_Direct(connection), connection.connection.driver_connection, connection.dialect.name)


async def _lent_door(connection: Any) -> Door:  # noqa: ANN401 - the driver's
    driver = driver_of(connection)
    if driver is None:
        raise InvalidInput(_unknown(connection))
    engine = engine_on(connection, driver)
    if is_async(connection):
        return Door(await AsyncEngine(engine).connect(), connection, driver.database, lent=True)
    return Door(_Direct(engine.connect()), connection, driver.database, lent=True)


def _django(tx: Any) -> Any:  # noqa: ANN401 - Django is not imported here
    """Answer Django's connection; a cursor of Django's names it as ``db``."""
    return next((one for one in (tx, getattr(tx, "db", None)) if hasattr(one, "in_atomic_block")), None)


def _below_django(django: Any) -> Any:  # noqa: ANN401 - as above
    """Answer the driver's connection below Django's, which must be in a transaction."""
    if not django.in_atomic_block:
        raise InvalidInput(
            f'Django\'s connection "{django.alias}" is not in a transaction, so what is written would stay although '
            f'the order is rolled back: call this inside `with transaction.atomic(using="{django.alias}")`'
        )
    if django.needs_rollback:
        raise InvalidInput(
            f'the transaction on Django\'s connection "{django.alias}" has failed already and will be rolled back: '
            "leave the atomic block first"
        )
    return django.connection


def _connection_of(tx: Any) -> Any:  # noqa: ANN401 - the driver's
    """Answer the connection itself where the shop gave a cursor, or what SQLAlchemy's pool wraps."""
    if hasattr(tx, "driver_connection"):
        return tx.driver_connection
    if hasattr(tx, "commit") or driver_of(tx) is None:
        return tx
    connection = tx.connection
    if connection is None:
        raise InvalidInput(f"this {type(tx).__name__} is closed: give one of an open transaction")
    return connection


def _unknown(tx: object) -> str:
    name = f"{type(tx).__module__.partition('.')[0]} {type(tx).__name__}"
    kinds = f"a connection or cursor of {SUPPORTED}, Django's connection"
    sqlalchemy = "a SQLAlchemy AsyncConnection, AsyncSession, Connection or Session"
    if type(tx).__module__.partition(".")[0] in {"asyncpg", "aiosqlite", "asyncmy", "aiomysql"}:
        return (
            f"duetime cannot write through a {name} as it is: give {sqlalchemy}, which may use that driver, or {kinds}"
        )
    return f"duetime was given a {name} as the shop's transaction; it takes {sqlalchemy}, {kinds}"


def _check_database(door: Door, statements: Statements) -> None:
    found, wanted = _DIALECTS.get(door.database, door.database), statements.dialect.name
    if found != wanted:
        raise InvalidInput(
            f"the shop's transaction is on {found}, but store.url names {wanted}: holds live beside their orders, in "
            "the same database; give the connection that the order is written with"
        )


async def _check_transaction(door: Door) -> None:
    if door.database == "sqlite" and not door.lent:
        await door.connection.execute(_TOUCH)  # an engine may open its transactions itself, with the first statement
    match transaction_of(door.raw):
        case Transaction.AUTOCOMMIT:
            raise InvalidInput(
                "this connection is in autocommit, so what is written would stay although the order is rolled back: "
                "open a transaction first, or turn autocommit off"
            )
        case Transaction.FAILED:
            raise InvalidInput("the shop's transaction has failed already; roll it back before anything else")
        case Transaction.OPENS_BY_ITSELF if door.database == "sqlite":
            await door.connection.execute(_BEGIN_SQLITE)
        case _:
            pass
