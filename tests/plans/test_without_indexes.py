"""The rulers would notice: with the same rows in tables that have no index at all, every check of this suite fails."""

from collections.abc import AsyncIterator, Sequence

import pytest

from benchmarks.benching.shop import Shop
from duetime.closing import CloseRequest
from duetime.hold import HoldState
from duetime.stores.sql.store import SqlStore
from tests.plans.conftest import Filled
from tests.plans.generic import UNPREPARED_RUNS, forced_generic
from tests.plans.limits import excess
from tests.plans.population import UNFINISHED, WAITED_FOR, Shape, populate
from tests.plans.test_plans import PAGE, closing, due_page, key_before_last
from tests.plans.undoing import UndoingStore
from tests.plans.watching import RULERS, PostgreSQLCounters, Seen, watching
from tests.support.databases import DatabaseKind, FreshDatabase

ROWS = 20_000
TABLES = ("orders", "duetime_hold", "stock")


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.services),
        pytest.param("mariadb", marks=pytest.mark.services),
    ]
)
async def bare(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[tuple[Filled, SqlStore]]:
    """A store that looked its tables up while they had their indexes."""
    kind: DatabaseKind = request.param
    shape = Shape(kind, "closed", "fresh", ROWS)
    url = fresh_database(kind)
    await populate(url, shape)
    filled = Filled(shape, url)
    async with filled.opened() as store:
        for table in TABLES:
            await Shop(kind, url).execute(
                f"ALTER TABLE {table} RENAME TO {table}_before", f"CREATE TABLE {table} AS SELECT * FROM {table}_before"
            )
        yield filled, store


def expect_excess(kind: DatabaseKind, seen: Sequence[Seen], rows: int, *, first_row_only: bool = False) -> None:
    of_these = [one for one in seen if one.table in TABLES]
    assert of_these
    spared = [str(one) for one in of_these if not excess(kind, one, rows, first_row_only=first_row_only)]
    assert not spared


async def test_without_indexes_every_check_fails(bare: tuple[Filled, SqlStore]) -> None:
    filled, store = bare
    kind, engine = filled.shape.kind, store._engine.sync_engine
    last = await key_before_last(store)
    with watching(engine, RULERS[kind]()) as seen:
        await due_page(store, last)
        page = await due_page(store)
    expect_excess(kind, seen, PAGE)
    with watching(engine, RULERS[kind]()) as seen:
        await closing(store).close([CloseRequest(order.order_no) for order in page])
    assert {one.table for one in seen} >= set(TABLES)
    expect_excess(kind, seen, PAGE)
    with watching(engine, RULERS[kind]()) as seen:
        async with UndoingStore(store).transaction() as tx:
            await tx.unfinished_assets(limit=PAGE, now=await tx.now())
            holds = await tx.lock_holds(("stock", WAITED_FOR), HoldState.RELEASING, limit=PAGE, skip=[])
            await tx.move_holds(holds, HoldState.RELEASED, await tx.now())
    expect_excess(kind, seen, UNFINISHED)
    with watching(engine, RULERS[kind]()) as seen:
        async with store.transaction(write=False) as tx:
            await tx._rows((await store.statements()).any_pending())  # type: ignore[attr-defined]  # what put_sweep_run runs
    expect_excess(kind, seen, 1, first_row_only=True)


@pytest.mark.parametrize("bare", ["postgresql"], indirect=True)
@pytest.mark.services
async def test_without_indexes_prepared_statements_are_caught(bare: tuple[Filled, SqlStore]) -> None:
    filled, store = bare
    async with forced_generic(store):
        for _ in range(UNPREPARED_RUNS):
            await due_page(store)
        with watching(store._engine.sync_engine, PostgreSQLCounters()) as seen:
            await due_page(store)
    expect_excess(filled.shape.kind, seen, PAGE)
