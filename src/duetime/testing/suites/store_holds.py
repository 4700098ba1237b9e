"""What orders hold: recorded once, moved only from the state in which it was read."""

import itertools

import pytest

from duetime.errors import StoreConflict, StoreRefused
from duetime.hold import HOLD_MOVES, HeldHold, Hold, HoldState
from duetime.testing.suites.bench import StoreBench, held

ALL_STATES = tuple(HoldState)
PAIRS = sorted({(start, to) for (start, _), to in HOLD_MOVES.items()})
WRONG = [(pair, actual) for pair, actual in itertools.product(PAIRS, ALL_STATES) if actual is not pair[0]]


class HoldTests:
    """Holds."""

    async def test_a_hold_comes_back_as_it_was_inserted(self, bench: StoreBench) -> None:
        rows = [
            HeldHold("订单-1", Hold("stock", "🛒-1", 2**62), HoldState.HELD),
            HeldHold("订单-1", Hold("coupon", "🛒-1"), HoldState.HELD),
            HeldHold("n" * 190, Hold("k" * 190, "r" * 190, 7), HoldState.HELD),
            HeldHold("so-1", Hold("stock", "sku'1\"%\\", 3), HoldState.RELEASING),
        ]
        async with bench.store.transaction() as tx:
            await tx.insert_holds(rows)
        async with bench.store.transaction() as tx:
            found = await tx.read_holds(["订单-1", "n" * 190, "so-1", "nobody", "so-1"], ALL_STATES)
        assert sorted(found, key=repr) == sorted(rows, key=repr)
        assert sorted(await bench.hand.holds(), key=repr) == sorted(rows, key=repr)

    async def test_read_holds_answers_only_the_states_and_orders_asked_for(self, bench: StoreBench) -> None:
        for order_no in ("so-1", "so-2"):
            await bench.hand.add_holds([held(order_no, f"sku-{state}", state=state) for state in ALL_STATES])
        async with bench.store.transaction() as tx:
            for state in ALL_STATES:
                assert await tx.read_holds(["so-1"], {state}) == [held("so-1", f"sku-{state}", state=state)]
            two = {HoldState.HELD, HoldState.RELEASED}
            assert {row.state for row in await tx.read_holds(["so-1", "so-2"], two)} == two
            assert await tx.read_holds(["so-1"], set()) == []

    async def test_names_are_told_apart_byte_by_byte(self, bench: StoreBench) -> None:
        names, refs = ["so-1", "SO-1", "só-1", "so_1"], ["a", "A", "á"]
        state = HoldState.RELEASING
        async with bench.store.transaction() as tx:
            await tx.insert_holds([held(name, ref, n + 1, state) for n, name in enumerate(names) for ref in refs])
        async with bench.store.transaction() as tx:
            for n, name in enumerate(names):
                found = await tx.read_holds([name], ALL_STATES)
                assert sorted(found, key=repr) == sorted((held(name, ref, n + 1, state) for ref in refs), key=repr)
            assert len(await tx.lock_holds(("stock", "a"), state, limit=100, skip=[])) == len(names)
            assert len(await tx.lock_holds(("stock", "a"), state, limit=100, skip=["SO-1"])) == len(names) - 1

    @pytest.mark.parametrize("state", ALL_STATES)
    async def test_a_second_hold_on_the_same_asset_is_refused(self, bench: StoreBench, state: HoldState) -> None:
        await bench.hand.add_holds([held("so-1", state=state)])
        async with bench.refusing(StoreRefused) as tx:
            await tx.insert_holds([held("so-0"), held("so-1", quantity=5), held("so-2")])

    # Moving

    @pytest.mark.parametrize("start, to", PAIRS)
    async def test_a_hold_moves_from_the_state_it_was_read_in(
        self, bench: StoreBench, start: HoldState, to: HoldState
    ) -> None:
        rows = [held(order_no, ref, 3, start) for order_no in ("so-1", "so-2") for ref in ("sku-1", "sku-2")]
        await bench.hand.add_holds([*rows, held("so-1", "other", state=start), held("other", state=start)])
        async with bench.store.transaction() as tx:
            await tx.move_holds(rows, to, await tx.now())
        moved = [held(row.order_no, row.hold.ref, 3, to) for row in rows]
        assert sorted(await bench.hand.holds(), key=repr) == sorted(
            [*moved, held("so-1", "other", state=start), held("other", state=start)], key=repr
        )

    @pytest.mark.parametrize("pair, actual", WRONG)
    async def test_a_hold_that_is_in_another_state_does_not_move(
        self, bench: StoreBench, pair: tuple[HoldState, HoldState], actual: HoldState
    ) -> None:
        start, to = pair
        await bench.hand.add_holds([held("so-0", state=start), held("so-1", state=actual), held("so-2", state=start)])
        async with bench.refusing(StoreConflict) as tx:
            await tx.move_holds([held(f"so-{n}", state=start) for n in range(3)], to, await tx.now())

    async def test_a_hold_that_does_not_exist_does_not_move(self, bench: StoreBench) -> None:
        await bench.hand.add_holds([held("so-1")])
        async with bench.refusing(StoreConflict) as tx:
            await tx.move_holds([held("so-1"), held("so-1", "sku-2")], HoldState.RELEASED, await tx.now())

    async def test_holds_of_one_list_may_start_in_different_states(self, bench: StoreBench) -> None:
        rows = [held("so-1", "a", state=HoldState.HELD), held("so-1", "b", state=HoldState.RELEASING)]
        await bench.hand.add_holds(rows)
        async with bench.store.transaction() as tx:
            await tx.move_holds(rows, HoldState.RELEASED, await tx.now())
        assert {row.state for row in await bench.hand.holds()} == {HoldState.RELEASED}

    # Locking

    async def test_lock_holds_answers_one_asset_in_one_state(self, bench: StoreBench) -> None:
        wanted = [held(f"so-{n}", "sku-1", n + 1, HoldState.RELEASING) for n in range(3)]
        other = [held("so-0", "sku-2", state=HoldState.RELEASING), held("so-3", "sku-1", state=HoldState.HELD)]
        coupon = HeldHold("so-4", Hold("coupon", "sku-1"), HoldState.RELEASING)
        await bench.hand.add_holds([*wanted, *other, coupon])
        async with bench.store.transaction() as tx:
            found = await tx.lock_holds(("stock", "sku-1"), HoldState.RELEASING, limit=10, skip=[])
            assert sorted(found, key=repr) == wanted
            assert await tx.lock_holds(("stock", "nothing"), HoldState.RELEASING, limit=10, skip=[]) == []

    async def test_lock_holds_answers_no_more_than_the_limit(self, bench: StoreBench) -> None:
        await bench.hand.add_holds([held(f"so-{n}", state=HoldState.CONSUMING) for n in range(5)])
        seen: set[str] = set()
        for expected in (2, 2, 1, 0):
            async with bench.store.transaction() as tx:
                found = await tx.lock_holds(("stock", "sku-1"), HoldState.CONSUMING, limit=2, skip=[])
                await tx.move_holds(found, HoldState.CONSUMED, await tx.now())
            assert len(found) == expected
            seen |= {row.order_no for row in found}
        assert seen == {f"so-{n}" for n in range(5)}

    async def test_lock_holds_leaves_out_the_orders_to_be_skipped(self, bench: StoreBench) -> None:
        await bench.hand.add_holds([held(f"so-{n}", state=HoldState.RELEASING) for n in range(4)])
        async with bench.store.transaction() as tx:
            found = await tx.lock_holds(("stock", "sku-1"), HoldState.RELEASING, limit=2, skip=["so-0", "so-2", "x"])
        assert sorted(row.order_no for row in found) == ["so-1", "so-3"]
