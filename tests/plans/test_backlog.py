"""A great many holds wait for one row: each step of the releaser still reads what it moves, not all that wait."""

from collections.abc import AsyncIterator

import pytest

from benchmarks.benching.shop import Shop
from duetime.hold import HoldState
from duetime.stores.sql.store import SqlStore
from tests.plans.conftest import Filled
from tests.plans.limits import expect_proportion
from tests.plans.population import WAITED_FOR, Shape, gather_statistics
from tests.plans.undoing import UndoingStore
from tests.plans.watching import RULERS, watching
from tests.support.databases import DatabaseKind, FreshDatabase

RELEASED = 200_000
"""Holds of old orders, whose numbers come before those that wait: read in the order of numbers, they are in the way."""

WAITING = 20_000
STEP = 100


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.services),
        pytest.param("mariadb", marks=pytest.mark.services),
    ]
)
async def backlog(
    request: pytest.FixtureRequest, fresh_database: FreshDatabase
) -> AsyncIterator[tuple[Filled, SqlStore]]:
    kind: DatabaseKind = request.param
    filled = Filled(Shape(kind, "closed", "fresh", RELEASED), fresh_database(kind))
    shop = Shop(kind, filled.url)
    await shop.create()
    insert = "INSERT INTO duetime_hold (order_no, kind, ref, quantity, state) SELECT"
    number, usual = shop.padded("so-", "n"), shop.padded("sku-", "n % 1000")
    last = RELEASED + WAITING
    await shop.execute(
        f"{insert} {number}, 'stock', {usual}, 1, 'released' FROM {shop.numbered(1, RELEASED)}",
        f"{insert} {number}, 'stock', '{WAITED_FOR}', 1, 'releasing' FROM {shop.numbered(RELEASED + 1, last)}",
    )
    await gather_statistics(shop, "duetime_hold")
    async with filled.opened() as store:
        yield filled, store


async def test_a_step_of_the_releaser(backlog: tuple[Filled, SqlStore]) -> None:
    filled, store = backlog
    with watching(store._engine.sync_engine, RULERS[filled.shape.kind]()) as seen:
        async with UndoingStore(store).transaction() as tx:
            holds = await tx.lock_holds(("stock", WAITED_FOR), HoldState.RELEASING, limit=STEP, skip=[])
            await tx.move_holds(holds, HoldState.RELEASED, await tx.now())
    assert len(holds) == STEP
    expect_proportion(filled.shape.kind, seen, STEP)
