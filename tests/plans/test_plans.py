"""Every statement reads in proportion to the page that it is for, whatever else the tables hold.

The statements are not written down here: they are watched while the store runs them (``watching``).
"""

from datetime import timedelta

import pytest

from duetime.closing import CloseRequest, Closing, ClosingOptions
from duetime.hold import HoldState
from duetime.order import Closed, NotYetDue, Order
from duetime.shop import OrdersTable, sample_assets
from duetime.store import DueQuery, PageKey
from duetime.stores.sql.store import SqlStore
from tests.plans.conftest import Filled
from tests.plans.generic import UNPREPARED_RUNS, forced_generic
from tests.plans.limits import expect_proportion
from tests.plans.population import CONDITIONED, DUE, NUMBERED, UNFINISHED, WAITED_FOR
from tests.plans.undoing import UndoingStore
from tests.plans.watching import RULERS, PostgreSQLCounters, Ruler, watching

PAGE = 100
GRACE = timedelta(seconds=5)
LAST = "last"
FIRST = "first"


async def due_page(
    store: SqlStore, after: PageKey | None = None, *, not_before: bool = False, limit: int = PAGE
) -> list[Order]:
    async with store.transaction(write=False) as tx:
        now = await tx.now()
        oldest = now - timedelta(days=1) if not_before else None
        return await tx.due_page(DueQuery(now - GRACE, limit, after, oldest))


async def key_before_last(store: SqlStore) -> PageKey:
    last = (await due_page(store, limit=DUE - PAGE))[-1]
    assert last.expire_at is not None
    return PageKey(last.expire_at, last.id)


async def chosen(store: SqlStore, which: str) -> list[str]:
    after = await key_before_last(store) if which == LAST else None
    return [order.order_no for order in await due_page(store, after)]


def closing(store: SqlStore) -> Closing:
    assets = {asset.kind: asset for asset in sample_assets()}
    return Closing(UndoingStore(store), ClosingOptions(GRACE, assets, PAGE))


def ruler_of(filled: Filled) -> Ruler:
    return RULERS[filled.shape.kind]()


@pytest.mark.parametrize(
    "orders", [OrdersTable(), NUMBERED, CONDITIONED], ids=["text", "two-pending-numbers", "with-a-condition"]
)
@pytest.mark.parametrize("not_before", [False, True], ids=["", "not-before"])
@pytest.mark.parametrize("which", [FIRST, LAST])
async def test_a_page_of_what_is_due(filled: Filled, orders: OrdersTable, which: str, *, not_before: bool) -> None:
    async with filled.opened(orders) as store:
        after = await key_before_last(store) if which == LAST else None
        with watching(store._engine.sync_engine, ruler_of(filled)) as seen:
            page = await due_page(store, after, not_before=not_before)
    assert len(page) == PAGE
    # Each pending value has a range of its own, of which up to a page is read.
    expect_proportion(filled.shape.kind, seen, PAGE * len(orders.states.pending))
    assert seen[-1].indexes == {f"duetime_due_{orders.table}"}
    assert orders.only is None or "so-kept" in seen[-1].statement


@pytest.mark.parametrize("which", [FIRST, LAST])
async def test_closing_a_page(filled: Filled, store: SqlStore, which: str) -> None:
    order_nos = await chosen(store, which)
    with watching(store._engine.sync_engine, ruler_of(filled)) as seen:
        outcomes = await closing(store).close([CloseRequest(order_no) for order_no in order_nos])
    assert all(isinstance(outcome, Closed) and len(outcome.released) == 2 for outcome in outcomes)
    expect_proportion(filled.shape.kind, seen, PAGE)
    assert {one.table for one in seen} >= {"duetime_hold", "duetime_outbox", "orders", "stock"}


async def test_finding_out_why_a_page_cannot_be_closed(filled: Filled, store: SqlStore) -> None:
    if filled.shape.population == "closed":
        pytest.skip("the orders to ask about are those that are not due yet")
    order_nos = [f"so-{number:09}" for number in range(DUE + 1000, DUE + 1000 + PAGE)]
    with watching(store._engine.sync_engine, ruler_of(filled)) as seen:
        outcomes = await closing(store).close([CloseRequest(order_no) for order_no in order_nos])
    assert all(isinstance(outcome, NotYetDue) for outcome in outcomes)
    expect_proportion(filled.shape.kind, seen, PAGE)


async def test_what_waits_for_the_releaser(filled: Filled, store: SqlStore) -> None:
    with watching(store._engine.sync_engine, ruler_of(filled)) as seen:
        async with store.transaction(write=False) as tx:
            found = await tx.unfinished_assets(limit=PAGE, now=await tx.now())
    assert found == [(("stock", WAITED_FOR), HoldState.RELEASING)]
    expect_proportion(filled.shape.kind, seen, UNFINISHED)
    assert "duetime_hold_unfinished" in seen[-1].indexes


async def test_holds_for_the_releaser(filled: Filled, store: SqlStore) -> None:
    with watching(store._engine.sync_engine, ruler_of(filled)) as seen:
        async with UndoingStore(store).transaction() as tx:
            holds = await tx.lock_holds(("stock", WAITED_FOR), HoldState.RELEASING, limit=PAGE, skip=[])
            await tx.move_holds(holds, HoldState.RELEASED, await tx.now())
    assert len(holds) == PAGE
    expect_proportion(filled.shape.kind, seen, UNFINISHED)


@pytest.mark.parametrize("finished", [False, True], ids=["who-holds", "who-finished"])
async def test_a_page_of_the_walk_along_all_holds(filled: Filled, store: SqlStore, *, finished: bool) -> None:
    """In the middle of very many holds, of which hardly any is what is looked for."""
    after = f"so-{DUE + filled.shape.rows // 2:09}"
    with watching(store._engine.sync_engine, ruler_of(filled)) as seen:
        async with store.transaction(write=False) as tx:
            old = await tx.now() - timedelta(days=900) if finished else None
            page = await tx.hold_page(after, rows=PAGE, finished_before=old)
    assert page.upto is not None
    assert page.upto > after
    expect_proportion(filled.shape.kind, seen, PAGE)


async def test_whether_anything_is_pending(filled: Filled, store: SqlStore) -> None:
    statements = await store.statements()
    with watching(store._engine.sync_engine, ruler_of(filled)) as seen:
        async with store.transaction(write=False) as tx:
            (row,) = await tx._rows(statements.any_pending())  # type: ignore[attr-defined]  # what put_sweep_run runs
    assert row[0]
    expect_proportion(filled.shape.kind, seen, 1, first_row_only=True)


async def test_how_many_have_no_deadline(filled: Filled) -> None:
    async with filled.opened(NUMBERED) as store:
        with watching(store._engine.sync_engine, ruler_of(filled)) as seen:
            async with store.transaction(write=False) as tx:
                assert await tx.count_without_deadline(limit=PAGE) == 0
    expect_proportion(filled.shape.kind, seen, PAGE)


async def test_prepared_statements_whose_plan_knows_no_values(filled: Filled, store: SqlStore) -> None:
    if filled.shape.kind != "postgresql":
        pytest.skip("only PostgreSQL keeps plans for values that it has not seen")
    after = await key_before_last(store)
    order_nos = await chosen(store, LAST)

    async def work() -> None:
        await due_page(store, after)
        await due_page(store, None, not_before=True)
        await closing(store).close([CloseRequest(order_no) for order_no in order_nos])

    async with forced_generic(store):
        for _ in range(UNPREPARED_RUNS):
            await work()
        with watching(store._engine.sync_engine, PostgreSQLCounters()) as seen:
            await work()
    expect_proportion(filled.shape.kind, seen, PAGE)
