"""A shop that goes on selling while its table is being migrated, and one that leaves a transaction open."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic

from sqlalchemy.ext.asyncio import AsyncConnection

from tests.migrations.database import Database
from tests.support.waiting import let_pass

_NOW = {"postgresql": "now()", "mariadb": "UTC_TIMESTAMP(6)", "sqlite": "datetime('now')"}
_numbers = itertools.count(1)


@dataclass
class Sales:
    """How long each insert took, in seconds."""

    took: list[float] = field(default_factory=list)


@asynccontextmanager
async def selling(database: Database, *, sellers: int = 2) -> AsyncIterator[Sales]:
    """Insert orders one after the other from several connections until the block ends."""
    sales, closing_time = Sales(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for _ in range(sellers):
            group.create_task(_sell(database, sales, closing_time))
        try:
            yield sales
        finally:
            closing_time.set()


async def _sell(database: Database, sales: Sales, closing_time: asyncio.Event) -> None:
    async with database.session() as connection:
        while not closing_time.is_set():
            order = f"INSERT INTO orders (order_no, status, expire_at) VALUES ('sold-{next(_numbers)}', 'pending', "
            begun = monotonic()
            await connection.exec_driver_sql(f"{order}{_NOW[database.kind]})")
            sales.took.append(monotonic() - begun)
            await let_pass(0.005, because="a shop does not insert at full speed")


@asynccontextmanager
async def open_transaction(database: Database) -> AsyncIterator[AsyncConnection]:
    """A transaction of the shop that has written to the order table; rolled back with the block, if not before."""
    async with database.session() as connection:
        await connection.exec_driver_sql("BEGIN IMMEDIATE" if database.kind == "sqlite" else "BEGIN")
        await connection.exec_driver_sql("UPDATE orders SET status = 'paid' WHERE order_no = 'o20'")
        try:
            yield connection
        finally:
            await connection.exec_driver_sql("ROLLBACK")
