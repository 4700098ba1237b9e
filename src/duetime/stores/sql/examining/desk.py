"""What all checks of a SQL database work with."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from duetime.shop import Asset, OrdersTable
from duetime.stores.sql.statements import Statements
from duetime.stores.sql.store import SqlStore
from duetime.verifying.orders import Terms as VerifyTerms


@dataclass(frozen=True, slots=True)
class Terms:
    """By what is judged; the names are those of the config. ``observes``: nothing is closed here, only watched."""

    orders: OrdersTable
    assets: Sequence[Asset]
    grace: timedelta
    sweep_interval: timedelta
    verify: VerifyTerms
    observes: bool = False
    not_before: datetime | None = None


class Desk:
    """A place from which to ask the database."""

    def __init__(self, store: SqlStore, terms: Terms) -> None:
        """Ask through the connections of ``store``."""
        self._store = store
        self._terms = terms

    @property
    def _dialect(self) -> str:
        return self._store.dialect.name

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[tuple[AsyncConnection, Statements]]:
        async with self._store.snapshot() as (connection, statements, _):
            yield connection, statements

    async def _ask(self, query: str, **values: object) -> Sequence[Any]:
        """Answer the rows of a query that needs none of the shop's tables."""
        async with self._store.plain_connection() as connection:
            rows: Sequence[Any] = (await connection.execute(text(query), values)).all()
            return rows

    async def _one(self, query: str, **values: object) -> Any:  # noqa: ANN401 - whatever was asked for
        return (await self._ask(query, **values))[0][0]


def several(count: int, one: str, many: str | None = None) -> str:
    """Say how many: 1 order, 2 orders."""
    return f"{count} {one if count == 1 else many or one + 's'}"
