"""A guest in the shop's own transaction: what is written is committed or rolled back with the shop's own rows.

A refusal must leave the shop's transaction as it was, and PostgreSQL gives up a whole transaction for one failed
statement. ``hold`` therefore looks before it writes: it has the order's row locked, so nobody else writes holds of this
order between its look and its write, and what it saw is true. ``place`` meets rows of the shop whose constraints only
the database knows; it works inside a savepoint.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError, StatementError

from duetime.errors import InvalidInput
from duetime.hold import Effect, HeldHold, Hold, HoldState, summed
from duetime.order import PlaceOutcome, State
from duetime.placing import Placement, Placing
from duetime.store import FullTransaction, StoreCapabilities
from duetime.stores.sql.doors import ShopTransaction, entered
from duetime.stores.sql.statements import Statements
from duetime.stores.sql.store import SqlTransaction

_SAVE, _BACK, _FORGET = (
    text(f"{words} duetime") for words in ("SAVEPOINT", "ROLLBACK TO SAVEPOINT", "RELEASE SAVEPOINT")
)


async def hold(statements: Statements, tx: ShopTransaction, order_no: str, holds: Sequence[Hold]) -> None:
    """Lock the order's row, find it pending, and record what it holds.

    Raises:
        InvalidInput: there is no such order in this transaction, it is not pending any more, or it has a hold on the
            same asset already. Nothing was written, and the transaction may go on.
        StoreConflict: the database has given the transaction up for another one: run it again from its beginning.
    """
    async with entered(statements, tx) as connection:
        guest = SqlTransaction(connection, statements, await statements.dialect.clock(connection))
        found = await guest.lock_orders([order_no], pending=False, wait=True)
        if not found:
            raise InvalidInput(f"order {order_no} is not in the shop's table; insert its row first")
        order = found[0]
        if order.state is not State.PENDING:
            raise InvalidInput(f"order {order_no} is {order.status}; only a pending order can hold anything")
        wanted = summed(holds)
        there = {(held.hold.kind, held.hold.ref) for held in await guest.read_holds([order.order_no], HoldState)}
        twice = [f"{one.kind} {one.ref}" for one in wanted if (one.kind, one.ref) in there]
        if twice:
            raise InvalidInput(
                f"order {order_no} has a hold on the same asset already: {', '.join(twice)}; one order holds an asset "
                "once, with the sum of its lines"
            )
        await guest.insert_holds([HeldHold(order.order_no, one) for one in wanted])


async def place(
    statements: Statements, tx: ShopTransaction, placing: Placing, placements: Sequence[Placement]
) -> list[PlaceOutcome]:
    """Place orders in the shop's transaction; what is refused leaves nothing, and the transaction may go on.

    Raises:
        InvalidInput: see ``Placing.place``.
        StoreConflict: the database has given the transaction up for another one: run it again from its beginning.
    """
    async with entered(statements, tx) as connection:
        guest = _Guest(connection, statements, await statements.dialect.clock(connection))
        return await placing.place_within(_Savepoints(connection, statements, guest), placements)


class _Guest(SqlTransaction):
    """A transaction that may be REPEATABLE READ, as MySQL's and MariaDB's are unless a shop chose otherwise."""

    async def change_assets(self, kind: str, units: Mapping[str, int], effect: Effect) -> None:
        """Change one row after the other where a statement would lock more rows than it changes.

        For several of few rows MySQL and MariaDB read the whole table, and under REPEATABLE READ keep each row locked
        that they read: two carts without a SKU in common would wait for each other.
        """
        if self._statements.dialect.name != "mysql":
            await super().change_assets(kind, units, effect)
            return
        for ref in sorted(units):
            await super().change_assets(kind, {ref: units[ref]}, effect)


class _Savepoints:
    """The shop's open transaction as a store: each transaction in it is a savepoint."""

    def __init__(self, connection: Any, statements: Statements, guest: SqlTransaction) -> None:  # noqa: ANN401 - a door's
        self.name = "guest"
        self._connection = connection
        self._statements = statements
        self._guest = guest
        self.capabilities: StoreCapabilities = statements.dialect.capabilities

    async def check(self) -> None:
        """Nothing: the store itself is checked."""

    async def aclose(self) -> None:
        """Nothing: the connection is the shop's."""

    @asynccontextmanager
    async def transaction(self, *, write: bool = True) -> AsyncIterator[FullTransaction]:
        """Set a savepoint; take back everything since where the block raises."""
        if not write:
            yield self._guest
            return
        await self._connection.execute(_SAVE)
        try:
            yield self._guest
        except BaseException as error:
            await self._take_back()
            if isinstance(error, StatementError):
                raise self._statements.dialect.failure(error) from error
            raise
        await self._connection.execute(_FORGET)

    async def _take_back(self) -> None:
        with suppress(SQLAlchemyError):  # gone with the connection, or with the whole transaction after a deadlock
            await self._connection.execute(_BACK)
            await self._connection.execute(_FORGET)
