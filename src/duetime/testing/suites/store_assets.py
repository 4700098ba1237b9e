"""The rows that give back: counters and single pieces, locked by key, changed only as they were when locked."""

import asyncio
import itertools
from datetime import timedelta

import pytest

from duetime.errors import StoreConflict, StoreRefused
from duetime.hold import Effect
from duetime.store import AssetRow
from duetime.testing.suites.bench import HOUR, SECOND, StoreBench

COUPON_STATES = ("unused", "locked", "used", "expired", "torn")
STARTS = {Effect.TAKE: "unused", Effect.RELEASE: "locked", Effect.CONSUME: "locked"}
ENDS = {Effect.TAKE: "locked", Effect.RELEASE: "unused", Effect.CONSUME: "used"}
WRONG = [(effect, state) for effect, state in itertools.product(Effect, COUPON_STATES) if state != STARTS[effect]]


async def _change(bench: StoreBench, kind: str, units: dict[str, int], effect: Effect) -> None:
    async with bench.store.transaction() as tx:
        lock = await tx.lock_assets(kind, list(units))
        assert set(lock.rows) == set(units)
        await tx.change_assets(kind, units, effect)


class AssetTests:
    """Assets."""

    # Locking

    async def test_lock_assets_answers_rows_and_names_what_is_missing(self, bench: StoreBench) -> None:
        await bench.stock("sku-1", available=5, held=2)
        await bench.stock("sku-2", available=0, held=0)
        async with bench.store.transaction() as tx:
            lock = await tx.lock_assets("stock", ["sku-2", "gone", "sku-1", "sku-2", "gone"])
        assert lock.rows == {"sku-1": AssetRow(5, 2), "sku-2": AssetRow(0, 0)}
        assert lock.missing == {"gone"}

    async def test_lock_assets_answers_the_state_of_a_piece(self, bench: StoreBench) -> None:
        now = await bench.now()
        await bench.coupon("plain", "locked")
        await bench.coupon("valid", "unused", now + HOUR)
        await bench.coupon("over", "torn", now - SECOND)
        async with bench.store.transaction() as tx:
            lock = await tx.lock_assets("coupon", ["plain", "valid", "over"])
        assert lock.rows == {
            "plain": AssetRow(state="locked"),
            "valid": AssetRow(state="unused"),
            "over": AssetRow(state="torn", expired=True),
        }

    @pytest.mark.parametrize("ref", ["套餐-🛒", "sku'1", 'sku"1', "sku%1", "sku\\1", "["])
    async def test_lock_assets_takes_any_reference_as_it_is(self, bench: StoreBench, ref: str) -> None:
        await bench.stock(ref, available=5, held=2)
        await _change(bench, "stock", {ref: 2}, Effect.RELEASE)
        row = (await bench.hand.stock())[ref]
        assert (row.available, row.held) == (7, 0)

    async def test_lock_assets_names_a_reference_that_no_key_could_be_as_missing(self, bench: StoreBench) -> None:
        refs = ["r" * 190, "sku-1"]
        await bench.stock("sku-1")
        async with bench.store.transaction() as tx:
            lock = await tx.lock_assets("stock", refs)
        assert (set(lock.rows), lock.missing) == ({"sku-1"}, frozenset({"r" * 190}))

    async def test_lock_assets_leaves_out_rows_that_the_shop_holds(self, bench: StoreBench) -> None:
        bench.need_hand_locks()
        for sku in ("sku-1", "sku-2"):
            await bench.stock(sku)
        await bench.coupon("c-1")
        async with bench.hand.lock_asset("stock", "sku-1"), bench.store.transaction() as tx:
            lock = await tx.lock_assets("stock", ["sku-1", "sku-2", "gone"])
            assert (set(lock.rows), lock.missing) == ({"sku-2"}, frozenset({"gone"}))
            assert set((await tx.lock_assets("coupon", ["c-1"])).rows) == {"c-1"}
        async with bench.hand.lock_asset("coupon", "c-1"), bench.store.transaction() as tx:
            lock = await tx.lock_assets("coupon", ["c-1"])
            assert (lock.rows, lock.missing) == ({}, frozenset())
        async with bench.store.transaction() as tx:
            assert set((await tx.lock_assets("stock", ["sku-1", "sku-2"])).rows) == {"sku-1", "sku-2"}

    async def test_lock_assets_leaves_out_rows_that_another_transaction_of_ours_holds(self, bench: StoreBench) -> None:
        bench.need("row_locks")
        for sku in ("sku-1", "sku-2"):
            await bench.stock(sku)
        async with bench.store.transaction() as first:
            await first.lock_assets("stock", ["sku-1"])
            async with bench.store.transaction() as second:
                lock = await second.lock_assets("stock", ["sku-1", "sku-2"])
        assert (set(lock.rows), lock.missing) == ({"sku-2"}, frozenset())

    async def test_lock_assets_waits_until_a_row_is_free(self, bench: StoreBench) -> None:
        bench.need("row_locks")
        await bench.stock("sku-1", available=5, held=5)
        holding = asyncio.Event()

        async def first() -> None:
            async with bench.store.transaction() as tx:
                await tx.lock_assets("stock", ["sku-1"])
                await tx.change_assets("stock", {"sku-1": 2}, Effect.RELEASE)
                holding.set()
                await asyncio.sleep(0.2)  # the other one must have come to wait; if it has not, nothing is proved

        async def second() -> AssetRow:
            await holding.wait()
            async with bench.store.transaction() as tx:
                return (await tx.lock_assets("stock", ["sku-1"], wait=True)).rows["sku-1"]

        _, row = await asyncio.gather(first(), second())
        assert row == AssetRow(7, 3)

    # Counters

    @pytest.mark.parametrize(
        "effect, after", [(Effect.TAKE, (6, 8)), (Effect.RELEASE, (14, 0)), (Effect.CONSUME, (10, 0))]
    )
    async def test_a_counter_moves_its_units(self, bench: StoreBench, effect: Effect, after: tuple[int, int]) -> None:
        await bench.stock("sku-1", available=10, held=4)
        await bench.stock("other", available=1, held=1)
        await _change(bench, "stock", {"sku-1": 4}, effect)
        rows = await bench.hand.stock()
        assert (rows["sku-1"].available, rows["sku-1"].held) == after
        assert (rows["other"].available, rows["other"].held) == (1, 1)

    async def test_several_counters_move_by_different_numbers_at_once(self, bench: StoreBench) -> None:
        for n in range(5):
            await bench.stock(f"sku-{n}", available=10, held=n)
        await _change(bench, "stock", {f"sku-{n}": n for n in (3, 1, 4, 2)}, Effect.RELEASE)
        rows = await bench.hand.stock()
        assert [(rows[f"sku-{n}"].available, rows[f"sku-{n}"].held) for n in range(5)] == [
            (10, 0), (11, 0), (12, 0), (13, 0), (14, 0),
        ]  # fmt: skip

    async def test_all_units_of_a_counter_can_be_taken(self, bench: StoreBench) -> None:
        await bench.stock("sku-1", available=3, held=0)
        await _change(bench, "stock", {"sku-1": 3}, Effect.TAKE)
        row = (await bench.hand.stock())["sku-1"]
        assert (row.available, row.held) == (0, 3)

    @pytest.mark.parametrize("effect", list(Effect))
    async def test_a_counter_never_goes_below_zero(self, bench: StoreBench, effect: Effect) -> None:
        await bench.stock("sku-0", available=9, held=9)
        await bench.stock("sku-1", available=3, held=3)
        before = await bench.state()
        with pytest.raises((StoreRefused, StoreConflict)):
            await _change(bench, "stock", {"sku-0": 1, "sku-1": 4}, effect)
        assert await bench.state() == before

    # Single pieces

    @pytest.mark.parametrize("effect", list(Effect))
    async def test_a_piece_moves_from_the_state_that_the_change_expects(
        self, bench: StoreBench, effect: Effect
    ) -> None:
        for coupon in ("c-1", "c-2", "other"):
            await bench.coupon(coupon, STARTS[effect])
        await _change(bench, "coupon", {"c-1": 1, "c-2": 1}, effect)
        states = {name: row.state for name, row in (await bench.hand.coupons()).items()}
        assert states == {"c-1": ENDS[effect], "c-2": ENDS[effect], "other": STARTS[effect]}

    @pytest.mark.parametrize("effect, state", WRONG)
    async def test_a_piece_in_another_state_does_not_move(self, bench: StoreBench, effect: Effect, state: str) -> None:
        await bench.coupon("c-1", STARTS[effect])
        await bench.coupon("c-2", state)
        before = await bench.state()
        with pytest.raises(StoreConflict):
            await _change(bench, "coupon", {"c-1": 1, "c-2": 1}, effect)
        assert await bench.state() == before

    @pytest.mark.parametrize("valid_for, state", [(None, "unused"), (HOUR, "unused"), (-SECOND, "expired")])
    async def test_a_piece_whose_own_validity_ran_out_is_given_back_as_expired(
        self, bench: StoreBench, valid_for: timedelta | None, state: str
    ) -> None:
        valid_until = None if valid_for is None else await bench.now() + valid_for
        await bench.coupon("c-1", "locked", valid_until)
        await _change(bench, "coupon", {"c-1": 1}, Effect.RELEASE)
        assert (await bench.hand.coupons())["c-1"].state == state

    async def test_a_piece_is_used_up_whatever_its_validity(self, bench: StoreBench) -> None:
        await bench.coupon("c-1", "locked", await bench.now() - SECOND)
        await _change(bench, "coupon", {"c-1": 1}, Effect.CONSUME)
        assert (await bench.hand.coupons())["c-1"].state == "used"
