"""However many orders are remembered: a page reads a page, and only those that are still followed where it asks so."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.benching.shop import Shop
from duetime.observation import Observation, Seen
from duetime.observing import FOR_EVER
from duetime.store import ObservedQuery
from duetime.stores.sql.store import SqlStore
from tests.plans.conftest import Filled
from tests.plans.generic import UNPREPARED_RUNS, forced_generic
from tests.plans.limits import expect_proportion
from tests.plans.population import Shape, gather_statistics
from tests.plans.undoing import UndoingStore
from tests.plans.watching import RULERS, PostgreSQLCounters, watching
from tests.support.databases import DatabaseKind, FreshDatabase

REMEMBERED = 20_000
FOLLOWED_EVERY = 10
PAGE = 100
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
LATE = FIRST + timedelta(seconds=REMEMBERED * 8 // 10 // 60 * 60)


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.services),
        pytest.param("mariadb", marks=pytest.mark.services),
    ]
)
async def remembered(
    request: pytest.FixtureRequest, fresh_database: FreshDatabase
) -> AsyncIterator[tuple[Filled, SqlStore]]:
    """Two thousand orders that are followed, among twenty thousand; sixty have each deadline."""
    kind: DatabaseKind = request.param
    filled = Filled(Shape(kind, "closed", "fresh", REMEMBERED), fresh_database(kind))
    shop = Shop(kind, filled.url)
    await shop.create()
    async with filled.opened() as store:
        for begin in range(0, REMEMBERED, 10_000):
            async with store.transaction() as tx:
                await tx.put_observed([observation(n) for n in range(begin, begin + 10_000)])
        await gather_statistics(shop, "duetime_observed")
        yield filled, store


def observation(n: int) -> Observation:
    at = FIRST + timedelta(seconds=n // 60 * 60)
    followed = n % FOLLOWED_EVERY == 0
    return Observation(f"so-{n:09}", at, at, Seen.PENDING if followed else Seen.CLOSED, followed=followed)


QUERIES = [
    ObservedQuery(since, FOR_EVER, PAGE, after_no, followed)
    for since, after_no in ((FIRST, ""), (LATE, "so-000016000"))
    for followed in (False, True)
]


async def test_a_page_of_what_is_remembered(remembered: tuple[Filled, SqlStore]) -> None:
    filled, store = remembered
    for query in QUERIES:
        with watching(store._engine.sync_engine, RULERS[filled.shape.kind]()) as seen:
            async with store.transaction(write=False) as tx:
                page = await tx.observed_page(query)
        assert len(page) == PAGE
        expect_proportion(filled.shape.kind, seen, PAGE)
        wanted = "duetime_observed_followed" if query.followed else "duetime_observed_expire_at"
        assert seen[-1].indexes == {wanted}


async def test_writing_and_removing_a_page(remembered: tuple[Filled, SqlStore]) -> None:
    filled, store = remembered
    with watching(store._engine.sync_engine, RULERS[filled.shape.kind]()) as seen:
        async with UndoingStore(store).transaction() as tx:
            found = await tx.find_observed([f"so-{n:09}" for n in range(10_000, 10_000 + PAGE)])
            await tx.put_observed([replace(one, seen=Seen.PAID) for one in found])
            removed = await tx.remove_observed(before=LATE, limit=PAGE)
    assert (len(found), removed) == (PAGE, PAGE)
    expect_proportion(filled.shape.kind, seen, PAGE)


async def test_pages_whose_plan_knows_no_values(remembered: tuple[Filled, SqlStore]) -> None:
    filled, store = remembered
    if filled.shape.kind != "postgresql":
        pytest.skip("only PostgreSQL keeps plans for values that it has not seen")

    async def work() -> None:
        for query in QUERIES:
            async with store.transaction(write=False) as tx:
                assert len(await tx.observed_page(query)) == PAGE

    async with forced_generic(store):
        for _ in range(UNPREPARED_RUNS):
            await work()
        with watching(store._engine.sync_engine, PostgreSQLCounters()) as seen:
            await work()
    expect_proportion(filled.shape.kind, seen, PAGE)
