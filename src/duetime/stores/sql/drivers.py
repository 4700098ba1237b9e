"""What is known of the database drivers whose connections a shop may hand over: DB-API, and psycopg's async form.

Such a connection is used through SQLAlchemy, so that every statement is written once. Three things keep it the shop's:

* ``Lent`` stands in for it. Whatever SQLAlchemy believes to commit, roll back or close, nothing happens. The engine is
  put together by hand from a pool and a dialect: what ``create_engine`` does when it first connects (queries, a
  rollback) does not take place.
* Cursors are the driver's plain ones, whatever the shop has made its default: rows as dictionaries are the shop's own.
* How far the shop's transaction is, is asked of the driver, without a word to the server.

========================  =====================================================================================
the shop's connection is  what happens
========================  =====================================================================================
in a transaction          it is used
in none, and the driver   it is used: the driver opens one, as it would for the shop's next statement (SQLite's
opens them by itself      own way, at the first write, is too late for a savepoint, so it is opened here)
in autocommit             refused: what is written would stay although the shop rolls back
in a failed transaction   refused: PostgreSQL answers nothing more until it is rolled back
========================  =====================================================================================
"""

import importlib
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, Final

from sqlalchemy import Dialect, Engine, StaticPool, make_url

from duetime.errors import InvalidInput
from duetime.stores.sql.dialect import COMPACT

SUPPORTED: Final = "psycopg, psycopg2, PyMySQL, mysqlclient or sqlite3"


class Transaction(Enum):
    """How far the shop's transaction is."""

    OPEN = "open"
    OPENS_BY_ITSELF = "opens by itself"
    AUTOCOMMIT = "autocommit"
    FAILED = "failed"


@dataclass(frozen=True)
class Driver:
    """One driver: SQLAlchemy's name of it, its plain cursor, and how to ask it how far a transaction is."""

    url: str
    cursor: Callable[[Any], Any]
    transaction: Callable[[Any], Transaction]

    @property
    def database(self) -> str:
        """The kind of database, as ``SqlDialect.name`` has it."""
        return self.url.partition("+")[0]


def driver_of(connection: object) -> Driver | None:
    """Answer the driver that a connection or cursor comes from; also of what a tracing tool has wrapped."""
    for base in connection.__class__.__mro__:
        found = DRIVERS.get(base.__module__.partition(".")[0])
        if found is not None:
            return found
    return None


def is_async(connection: object) -> bool:
    """Say whether a connection or cursor is one of psycopg's async ones."""
    return any(
        base.__module__.partition(".")[0] == "psycopg" and base.__name__.startswith("Async")
        for base in connection.__class__.__mro__
    )


class Lent:
    """The shop's connection as SQLAlchemy sees it: plain cursors, and no end of a transaction."""

    def __init__(self, connection: Any, driver: Driver) -> None:  # noqa: ANN401 - any driver's
        """Lend ``connection``."""
        self._lent = connection
        self._driver = driver

    def cursor(self, *_: object, **__: object) -> Any:  # noqa: ANN401 - the driver's
        """Open a cursor that gives tuples."""
        return self._driver.cursor(self._lent)

    def commit(self) -> None:
        """Do nothing: the shop commits."""

    def rollback(self) -> None:
        """Do nothing: the shop rolls back."""

    def close(self) -> None:
        """Do nothing: the shop closes."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the driver's connection has
        return getattr(self._lent, name)


class LentAsync(Lent):
    """The same for psycopg's async connection."""

    async def commit(self) -> None:  # type: ignore[override]  # awaited by SQLAlchemy's adapter
        """Do nothing: the shop commits."""

    async def rollback(self) -> None:  # type: ignore[override]  # as above
        """Do nothing: the shop rolls back."""

    async def close(self) -> None:  # type: ignore[override]  # as above
        """Do nothing: the shop closes."""


def engine_on(connection: object, driver: Driver) -> Engine:
    """Put an engine around the shop's connection: without a word to the server, and with statements compiled once."""
    dialect, compiled = _dialect(f"{driver.url}_async" if is_async(connection) else driver.url)
    lent: Any = Lent(connection, driver)
    if is_async(connection):
        adapt = importlib.import_module("sqlalchemy.dialects.postgresql.psycopg").AsyncAdapt_psycopg_connection
        lent = adapt(dialect.loaded_dbapi, LentAsync(connection, driver))
    pool = StaticPool(lambda: lent, dialect=dialect, reset_on_return=None)
    return Engine(pool, dialect, make_url(f"{driver.url}://")).execution_options(compiled_cache=compiled)


@cache
def _dialect(name: str) -> tuple[Dialect, dict[Any, Any]]:
    kind: Any = make_url(f"{name}://").get_dialect()
    return kind(dbapi=kind.import_dbapi(), json_serializer=COMPACT), {}


# What each driver has


@cache
def _psycopg_cursor_class(name: str) -> Any:  # noqa: ANN401 - the driver may not be installed
    """Make a cursor that reads values as psycopg itself does: Django registers readers of its own on a connection."""
    psycopg = importlib.import_module("psycopg")
    return type("PlainCursor", (getattr(psycopg, name),), {"adapters": property(lambda _: psycopg.adapters)})


def _psycopg_cursor(connection: Any) -> Any:  # noqa: ANN401 - the driver's
    rows = importlib.import_module("psycopg.rows")
    kind = _psycopg_cursor_class("AsyncCursor" if is_async(connection) else "Cursor")
    return kind(connection, row_factory=rows.tuple_row)


def _psycopg2_cursor(connection: Any) -> Any:  # noqa: ANN401 - the driver's
    extensions, extras = (importlib.import_module(f"psycopg2.{name}") for name in ("extensions", "extras"))
    cursor = connection.cursor(cursor_factory=extensions.cursor)
    extras.register_default_json(cursor)
    return cursor


def _postgresql_transaction(connection: Any) -> Transaction:  # noqa: ANN401 - the driver's
    """Go by libpq's status, which both drivers hand on."""
    idle, failed = 0, 3
    status = int(connection.info.transaction_status)
    if status == failed:
        return Transaction.FAILED
    if status != idle:
        return Transaction.OPEN
    return Transaction.AUTOCOMMIT if connection.autocommit else Transaction.OPENS_BY_ITSELF


def _mysql_cursor(connection: Any) -> Any:  # noqa: ANN401 - the driver's
    name = next(base.__module__.partition(".")[0] for base in connection.__class__.__mro__ if _is_mysql(base))
    return connection.cursor(importlib.import_module(f"{name}.cursors").Cursor)


def _is_mysql(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in {"pymysql", "MySQLdb"}


def _mysql_transaction(connection: Any) -> Transaction:  # noqa: ANN401 - the driver's
    """Go by the flags of the server's last answer; mysqlclient hands on only whether autocommit is on."""
    in_transaction = 1
    if getattr(connection, "server_status", 0) & in_transaction:
        return Transaction.OPEN
    return Transaction.AUTOCOMMIT if connection.get_autocommit() else Transaction.OPENS_BY_ITSELF


def _sqlite_cursor(connection: Any) -> Any:  # noqa: ANN401 - the driver's
    if connection.text_factory is not str:
        raise InvalidInput(
            f"this sqlite3 connection reads text as {connection.text_factory!r} (text_factory); duetime needs str"
        )
    cursor = connection.cursor(sqlite3.Cursor)
    cursor.row_factory = _as_stored
    return cursor


def _as_stored(_: object, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Answer a row as SQLite has it: where the shop lets sqlite3 make instants of it (as Django does), back to text."""
    if any(isinstance(value, datetime) for value in row):
        return tuple(value.isoformat(" ") if isinstance(value, datetime) else value for value in row)
    return row


def _sqlite_transaction(connection: Any) -> Transaction:  # noqa: ANN401 - sqlite3's or aiosqlite's
    if connection.in_transaction:
        return Transaction.OPEN
    autocommit = connection.isolation_level is None or getattr(connection, "autocommit", None) is True
    return Transaction.AUTOCOMMIT if autocommit else Transaction.OPENS_BY_ITSELF


_SQLITE = Driver("sqlite", _sqlite_cursor, _sqlite_transaction)
DRIVERS: Final[Mapping[str, Driver]] = {
    "psycopg": Driver("postgresql+psycopg", _psycopg_cursor, _postgresql_transaction),
    "psycopg2": Driver("postgresql+psycopg2", _psycopg2_cursor, _postgresql_transaction),
    "pymysql": Driver("mysql+pymysql", _mysql_cursor, _mysql_transaction),
    "MySQLdb": Driver("mysql+mysqldb", _mysql_cursor, _mysql_transaction),
    "sqlite3": _SQLITE,
}
"""By the name of the module that a connection's class comes from."""

BELOW_SQLALCHEMY: Final[Mapping[str, Callable[[Any], Transaction]]] = {
    **{name: driver.transaction for name, driver in DRIVERS.items()},
    "aiosqlite": _sqlite_transaction,
    "asyncmy": _mysql_transaction,
}
"""How to ask the connection under one of SQLAlchemy's."""


def transaction_of(raw: object) -> Transaction:
    """Answer how far the transaction on a driver's connection is, as far as the driver can be asked."""
    for base in raw.__class__.__mro__:
        ask = BELOW_SQLALCHEMY.get(base.__module__.partition(".")[0])
        if ask is not None:
            return ask(raw)
    return Transaction.OPEN
