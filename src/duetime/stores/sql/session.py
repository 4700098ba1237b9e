"""What every part of a transaction works with: the connection, the statements, and the clock read at its start."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import CursorResult, Insert, Row
from sqlalchemy.ext.asyncio import AsyncConnection

from duetime.errors import StoreConflict
from duetime.stores.sql.statements import Statements
from duetime.stores.sql.times import Instants

T = TypeVar("T")


class Session:
    """One open transaction."""

    def __init__(self, connection: AsyncConnection, statements: Statements, opened_at: datetime) -> None:
        """Work on ``connection``; ``opened_at`` is the server's clock as its first statement read it."""
        self._connection = connection
        self._statements = statements
        self._opened_at = opened_at
        self._own_time = Instants(zoned=statements.dialect.name == "postgresql")

    async def now(self) -> datetime:
        """Answer the store's clock as it was when the transaction opened: never ahead of the truth."""
        return self._opened_at

    async def _run(self, statement: Any, parameters: Any = None) -> CursorResult[Any]:  # noqa: ANN401 - any statement
        result: CursorResult[Any] = await self._connection.execute(statement, parameters)
        return result

    async def _rows(self, statement: Any, parameters: Any = None) -> Sequence[Row[Any]]:  # noqa: ANN401 - as above
        return (await self._run(statement, parameters)).all()

    async def _insert(self, insert: Insert, rows: Sequence[Mapping[str, Any]]) -> None:
        await self._run(insert, self._statements.dialect.bulk_rows(rows))

    async def _exactly(self, wanted: int, statement: Any, parameters: Any) -> None:  # noqa: ANN401 - as above
        changed = (await self._run(statement, parameters)).rowcount
        if changed != wanted:
            msg = f"{statement.table.name}: {changed} of {wanted} rows were still as they had been read"
            raise StoreConflict(msg)

    def _instant(self, stored: datetime) -> datetime:
        instant = self._own_time.read(stored)
        assert instant is not None
        return instant

    def _own(self, instant: datetime | None) -> datetime | None:
        return None if instant is None else self._own_time.written(instant)


def unique(names: Iterable[T]) -> list[T]:
    """Drop repeats, keeping the order."""
    return list(dict.fromkeys(names))
