"""What differs between databases, as one small base class; everything else is written once (``statements``).

A dialect knows how to open a transaction (and read the server's clock with the same statement), how to say *one of
these values* and *without waiting*, how to write many rows at once, and which of the driver's errors mean what.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Insert,
    Select,
    String,
    Table,
    bindparam,
    cast,
    func,
    insert,
)
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.types import TypeEngine

from duetime.errors import StoreError, StoreMisfit, StoreRefused, StoreUnavailable
from duetime.hold import HeldHold, HoldState
from duetime.store import StoreCapabilities
from duetime.stores.sql.schema import OwnTables

LOCK_WAIT_SECONDS = 3
"""How long a lock is waited for, where it is waited for at all."""

IDLE_SECONDS = 5
"""After how long the server ends a transaction of ours that stands still (a frozen process)."""

KEY_BREAK = "\n"
"""Stands between the values of a key of several columns where they are compared as one text."""

PREFIX = "duetime_"
"""Opens every parameter's name: SQLAlchemy takes a parameter named like a column for that column's new value."""

COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Writes JSON without spaces that nobody reads."""

Rows = Sequence[Mapping[str, Any]]


class SqlDialect(ABC):
    """One database's ways."""

    name: ClassVar[str]
    oldest: ClassVar[tuple[int, ...]]
    capabilities: ClassVar[StoreCapabilities] = StoreCapabilities(row_locks=True, own_clock=True, outlives_process=True)
    partial_indexes: ClassVar[bool] = True
    where_absent: ClassVar[str] = "run `duetime migrate`"
    """What to do where tables of our own are not found."""

    @abstractmethod
    def engine(self, url: str, *, pool_size: int) -> AsyncEngine:
        """Make an engine whose connections are READ COMMITTED and bound their own idleness."""

    @abstractmethod
    async def begin(self, connection: AsyncConnection) -> datetime:
        """Open the transaction and answer the server's clock."""

    async def snapshot(self, connection: AsyncConnection) -> datetime:
        """Open a transaction that only reads, and sees everything as it was at one instant; answer the clock."""
        return await self.begin(connection)

    @abstractmethod
    async def clock(self, connection: Any) -> datetime:  # noqa: ANN401 - also a connection of the shop's own
        """Answer the server's clock, and change nothing about the transaction."""

    @abstractmethod
    def among(self, column: ColumnElement[Any], parameter: str) -> ColumnElement[bool]:
        """Say that ``column`` is one of the values bound as the list ``parameter``."""

    def together(self, columns: Sequence[ColumnElement[Any]], parameter: str) -> ColumnElement[bool]:
        """Say that the columns, written as one text, are among ``parameter``; see ``whole_keys``."""
        whole: ColumnElement[str] = cast(columns[0], String())
        for column in columns[1:]:
            whole = whole + KEY_BREAK + cast(column, String())
        return self.among(whole, parameter)

    def whole_keys(self, keys: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Turn keys of several columns into values of the parameter of ``together``."""
        return [KEY_BREAK.join(map(str, key)) for key in keys]

    def same_status(self, value: object) -> object:
        """Answer what the database takes for the same status: padding of CHAR columns does not count."""
        return value.rstrip() if isinstance(value, str) else value

    def locked(self, select: Select[Any], *, wait: bool) -> Select[Any]:
        """Lock the selected rows so that foreign keys onto them neither wait nor make us wait, where possible."""
        return select.with_for_update(skip_locked=not wait)

    def bulk_insert(self, table: Table, names: Sequence[str]) -> Insert:  # noqa: ARG002 - the rows name them
        """Make the statement that inserts many rows of these columns; run it with ``bulk_rows``."""
        return insert(table)

    def bulk_rows(self, rows: Rows) -> Any:  # noqa: ANN401 - whatever shape the driver takes many rows in
        """Turn rows into the parameters of ``bulk_insert``."""
        return list(rows)

    @abstractmethod
    def bulk_upsert(self, table: Table, names: Sequence[str], changed: Sequence[str]) -> Insert:
        """Make a ``bulk_insert`` in which a row that exists by its primary key takes the new values of ``changed``."""

    @abstractmethod
    async def move_holds(
        self,
        connection: AsyncConnection,
        own: OwnTables,
        holds: Sequence[HeldHold],
        change: tuple[HoldState, datetime | None],
    ) -> int:
        """Move exactly these holds (all in one state) to another; answer how many rows were changed."""

    @abstractmethod
    def versions(self, connection: AsyncConnection) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        """Answer the server's name, its version, and the oldest that will do."""

    @abstractmethod
    def trouble(self, error: BaseException) -> type[StoreError] | None:
        """Classify a driver's error by its code; None where the code says nothing."""

    def words(self, error: BaseException) -> str:
        """Answer what a driver's error says."""
        return str(error).strip() or type(error).__name__

    def failure(self, error: BaseException) -> Exception:
        """Turn a driver's error into one of the contract's, with the database's own words but no parameters.

        What is no driver's error (a statement of ours that is built wrongly) is answered as it is: trying again would
        only hide it.
        """
        original = error.orig if isinstance(error, StatementError) and error.orig is not None else error
        words = self.words(original)
        if isinstance(original, OSError | EOFError | PoolTimeout) or getattr(error, "connection_invalidated", False):
            return StoreUnavailable(words)
        if isinstance(error, StatementError) and not isinstance(error, DBAPIError):
            # It never left this process: no connection was lost, and no waiting will help.
            return StoreMisfit(f"a statement could not be written: {type(original).__name__}: {words}")
        if not isinstance(error, DBAPIError):
            assert isinstance(error, Exception)
            return error
        kind = self.trouble(original)
        if kind is not None:
            return kind(words)
        return StoreUnavailable(words) if isinstance(error, InterfaceError | OperationalError) else StoreRefused(words)


def unindexed(column: Column[Any]) -> ColumnElement[Any]:
    """Answer ``column`` in a form that no index serves.

    Orders are looked up by number. With old statistics (taken while nothing was pending) a planner may believe that
    the index of pending deadlines holds next to nothing and read all of it for every batch instead; a condition that
    this index cannot answer takes the choice away. (PostgreSQL sees through ``NULLIF(x, NULL)``, but not through this.)
    """
    return func.coalesce(column, column)


def listed(column: ColumnElement[Any], parameter: str) -> ColumnElement[bool]:
    """Say that ``column`` is one of a list, written out as ``IN (…)``."""
    return column.in_(bindparam(PREFIX + parameter, expanding=True, type_=column.type))


def bind(parameter: str, kind: TypeEngine[Any] | None = None) -> BindParameter[Any]:
    """Make a parameter that cannot be mistaken for a column of the shop."""
    return bindparam(PREFIX + parameter, type_=kind)


def bound(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever the columns hold
    """Give values to parameters made by ``bind``, ``listed`` and ``SqlDialect.among``."""
    return {PREFIX + name: value for name, value in values.items()}


def naive(instant: datetime | None) -> datetime | None:
    """Answer an instant as a column without a zone holds it: in UTC."""
    return None if instant is None else instant.astimezone(UTC).replace(tzinfo=None)


def numbers(connection: AsyncConnection) -> tuple[int, ...]:
    """Answer the server's version, as SQLAlchemy read it when it connected."""
    return tuple(part for part in connection.dialect.server_version_info or () if isinstance(part, int))
