"""duetime's own books, and lists as long as a batch."""

from dataclasses import replace
from datetime import timedelta

import pytest

from duetime.hold import UNFINISHED, Effect, HeldHold, Hold, HoldState
from duetime.order import State
from duetime.store import (
    CloseNote,
    DueQuery,
    FailureQuery,
    NewOrder,
    OrderNote,
    OrderWrite,
    Quarantine,
    Stage,
    SweepRun,
)
from duetime.testing.shop_hand import ShopRow, StockRow
from duetime.testing.suites.bench import HOUR, MINUTE, SECOND, StoreBench, failure, held, payment, some_fact

_BATCH = 1000


class BookTests:
    """Failures, unfinished assets, sweep runs."""

    # Failures

    async def test_a_failure_comes_back_as_it_was_put(self, bench: StoreBench) -> None:
        at = (await bench.now()).replace(microsecond=77)
        rows = [
            failure("订单-1", at, failures=3, first_failed_at=at - HOUR, error="没有 sku-1 🛒 " + "x" * 3000),
            failure("n" * 190, at + SECOND, stage=Stage.RELEASE, state=Quarantine.QUARANTINED),
        ]
        async with bench.store.transaction() as tx:
            await tx.put_failures(rows)
        async with bench.store.transaction(write=False) as tx:
            assert await tx.find_failures(FailureQuery()) == rows

    async def test_a_failure_replaces_that_of_the_same_order_and_stage(self, bench: StoreBench) -> None:
        at = await bench.now()
        close, release = failure("so-1", at), failure("so-1", at, stage=Stage.RELEASE)
        again = replace(close, failures=2, next_try_at=at + MINUTE, state=Quarantine.RESOLVED, error="again")
        async with bench.store.transaction() as tx:
            await tx.put_failures([close, release])
        async with bench.store.transaction() as tx:
            await tx.put_failures([again])
            assert await tx.find_failures(FailureQuery()) == [release, again]

    async def test_find_failures_keeps_to_the_query(self, bench: StoreBench) -> None:
        at = await bench.now()
        states = list(Quarantine)
        rows = [failure(f"so-{n}", at + n * SECOND, state=states[n % 3]) for n in range(6)]
        async with bench.store.transaction() as tx:
            await tx.put_failures(rows[::-1])
        async with bench.store.transaction(write=False) as tx:
            assert await tx.find_failures(FailureQuery()) == rows
            assert await tx.find_failures(FailureQuery(limit=2)) == rows[:2]
            assert await tx.find_failures(FailureQuery(order_nos=["so-4", "so-1", "nobody"])) == [rows[1], rows[4]]
            assert await tx.find_failures(FailureQuery(order_nos=[])) == []
            assert await tx.find_failures(FailureQuery(try_by=at + 2 * SECOND)) == rows[:3]
            for state in Quarantine:
                query = FailureQuery(states=frozenset({state}))
                assert await tx.find_failures(query) == [row for row in rows if row.state is state]
            assert await tx.find_failures(FailureQuery(states=frozenset())) == []

    # Unfinished assets

    async def test_unfinished_assets_are_those_that_a_promise_waits_for(self, bench: StoreBench) -> None:
        now = await bench.now()
        for state in HoldState:
            await bench.hand.add_holds([held(f"so-{n}", f"sku-{state}", state=state) for n in range(3)])
        await bench.hand.add_holds(
            [
                HeldHold("so-1", Hold("coupon", "c-1"), HoldState.RELEASING),
                HeldHold("so-1", Hold("points", "remote"), HoldState.RELEASING),
            ]
        )
        async with bench.store.transaction(write=False) as tx:
            found = await tx.unfinished_assets(limit=10, now=now)
            assert sorted(found) == sorted(
                [
                    *((("stock", f"sku-{state}"), state) for state in UNFINISHED),
                    (("coupon", "c-1"), HoldState.RELEASING),
                ]
            )
            assert len(await tx.unfinished_assets(limit=2, now=now)) == 2

    async def test_an_asset_with_promises_both_ways_is_named_for_each(self, bench: StoreBench) -> None:
        await bench.hand.add_holds([held(f"so-{state}", state=state) for state in UNFINISHED])
        async with bench.store.transaction(write=False) as tx:
            found = await tx.unfinished_assets(limit=10, now=await tx.now())
        assert sorted(found) == sorted((("stock", "sku-1"), state) for state in UNFINISHED)

    @pytest.mark.parametrize(
        "state, stage, next_try, waits",
        [
            (Quarantine.RETRYING, Stage.RELEASE, HOUR, False),
            (Quarantine.RETRYING, Stage.RELEASE, -SECOND, True),
            (Quarantine.QUARANTINED, Stage.RELEASE, -SECOND, False),
            (Quarantine.QUARANTINED, Stage.RELEASE, HOUR, False),
            (Quarantine.RESOLVED, Stage.RELEASE, HOUR, True),
            (Quarantine.QUARANTINED, Stage.CLOSE, HOUR, True),
        ],
    )
    async def test_an_asset_is_left_alone_while_all_its_orders_are_in_trouble(
        self, bench: StoreBench, state: Quarantine, stage: Stage, next_try: timedelta, *, waits: bool
    ) -> None:
        now = await bench.now()
        await bench.hand.add_holds([held("so-1", state=HoldState.RELEASING)])
        async with bench.store.transaction() as tx:
            await tx.put_failures([failure("so-1", now + next_try, stage=stage, state=state)])
            assert len(await tx.unfinished_assets(limit=10, now=now)) == waits
        await bench.hand.add_holds([held("so-2", state=HoldState.RELEASING)])
        async with bench.store.transaction() as tx:
            assert await tx.unfinished_assets(limit=10, now=now) == [(("stock", "sku-1"), HoldState.RELEASING)]

    # Sweep runs

    @pytest.mark.parametrize("statuses, seen", [((), False), (("paid", "closed"), False), (("paid", "pending"), True)])
    async def test_a_sweep_run_says_whether_any_order_was_pending(
        self, bench: StoreBench, statuses: tuple[str, ...], *, seen: bool
    ) -> None:
        for n, status in enumerate(statuses):
            await bench.order(f"so-{n}", status, expire_at=await bench.now() + HOUR)
        async with bench.store.transaction() as tx:
            now = await tx.now()
            run = SweepRun(3, "worker-1", now - SECOND, now, 7, 5, error="lost the connection")
            assert await tx.put_sweep_run(run) == replace(run, pending_seen=seen)

    async def test_a_sweep_run_that_knows_is_not_asked_again(self, bench: StoreBench) -> None:
        async with bench.store.transaction() as tx:
            now = await tx.now()
            run = SweepRun(0, "n" * 190, now, now, 0, 0, pending_seen=True)
            assert await tx.put_sweep_run(run) == run

    # As many as a batch

    async def test_a_thousand_of_everything_is_one_transaction(self, bench: StoreBench) -> None:
        now = await bench.now()
        orders = [f"so-{n}" for n in range(_BATCH)]
        await bench.hand.put_stock([StockRow(f"sku-{n}", 0, 1) for n in range(_BATCH)])
        holds = [held(order_no, f"sku-{n}") for n, order_no in enumerate(orders)]
        async with bench.store.transaction() as tx:
            await tx.insert_orders([NewOrder(order_no, now - MINUTE, "default") for order_no in orders])
            await tx.insert_holds(holds)
            await tx.put_notes([OrderNote(order_no, policy="default") for order_no in orders])
            await tx.record_payments([payment(f"p-{order_no}", order_no) for order_no in orders])
            await tx.put_failures([failure(order_no, now) for order_no in orders])
        async with bench.store.transaction() as tx:
            locked = await tx.lock_orders(orders, due_by=now)
            assert len(locked) == _BATCH
            read = await tx.read_holds(orders, {HoldState.HELD})
            await tx.add_facts([some_fact(order_no) for order_no in orders], now)
            close = CloseNote(now, "timeout", "sweep")
            await tx.write_if_pending([OrderWrite(order, State.CLOSED, due_by=now, close=close) for order in locked])
            lock = await tx.lock_assets("stock", [row.hold.ref for row in read])
            assert len(lock.rows) == _BATCH
            await tx.move_holds(read, HoldState.RELEASED, now)
            await tx.change_assets("stock", {row.hold.ref: 1 for row in read}, Effect.RELEASE)
        assert {row.status for row in (await bench.hand.orders()).values()} == {"closed"}
        assert {(row.available, row.held) for row in (await bench.hand.stock()).values()} == {(1, 0)}
        assert {row.state for row in await bench.hand.holds()} == {HoldState.RELEASED}
        assert [fact.order_no for fact in await bench.hand.facts()] == orders

    async def test_a_thousand_due_orders_are_one_page(self, bench: StoreBench) -> None:
        now = await bench.now()
        await bench.hand.add_orders([ShopRow(f"so-{n}", now - n * SECOND) for n in range(_BATCH)])
        async with bench.store.transaction(write=False) as tx:
            page = await tx.due_page(DueQuery(now, limit=_BATCH))
            assert len(await tx.find_orders([order.order_no for order in page])) == _BATCH
        assert [order.order_no for order in page] == [f"so-{n}" for n in reversed(range(_BATCH))]
