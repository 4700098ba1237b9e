"""What a transaction is: all or nothing, alone with what it locked, and on the store's own clock."""

import asyncio
from datetime import timedelta

import pytest

from duetime.errors import StoreConflict, StoreError
from duetime.hold import Effect
from duetime.order import State
from duetime.store import FullTransaction, NewOrder, OrderNote, OrderWrite, SweepRun
from duetime.testing.suites.bench import MINUTE, OnPurpose, StoreBench, failure, held, payment, some_fact

_STANDSTILL_SECONDS = 7
_WRITERS, _TURNS = 6, 5


async def write_everything(tx: FullTransaction) -> None:
    """Use every write of the contract once, on an order so-1, a SKU sku-1 and a hold of so-1 that exist."""
    now = await tx.now()
    (order,) = await tx.lock_orders(["so-1"])
    (hold,) = await tx.read_holds(["so-1"], {held("so-1").state})
    await tx.write_if_pending([OrderWrite(order, State.PAID)])
    await tx.insert_orders([NewOrder("so-2", now, "default")])
    await tx.put_notes([OrderNote("so-1", extended=1)])
    await tx.insert_holds([held("so-2", "sku-2")])
    await tx.move_holds([hold], hold.state.RELEASED, now)
    await tx.add_facts([some_fact("so-1")], now)
    await tx.record_payments([payment("p-1")])
    await tx.put_failures([failure("so-1", now)])
    await tx.put_sweep_run(SweepRun(0, "w", now, now, 0, 0))
    await tx.lock_assets("stock", ["sku-1"])
    await tx.change_assets("stock", {"sku-1": 1}, Effect.RELEASE)


def fail_with(error: type[BaseException]) -> None:
    """Raise, where the type checker does not see that what follows the block is reached all the same."""
    raise error


class TransactionTests:
    """Commit, rollback, isolation, time."""

    async def prepare(self, bench: StoreBench) -> None:
        """Have one pending order with one hold."""
        await bench.order("so-1")
        await bench.stock("sku-1", available=9, held=1)
        await bench.hand.add_holds([held("so-1")])

    async def test_check_finds_nothing_wrong_with_the_sample_shop(self, bench: StoreBench) -> None:
        await bench.store.check()

    async def test_what_is_written_is_there_after_the_block(self, bench: StoreBench) -> None:
        await self.prepare(bench)
        async with bench.store.transaction() as tx:
            await write_everything(tx)
        assert sorted(await bench.hand.orders()) == ["so-1", "so-2"]
        assert (await bench.hand.orders())["so-1"].status == "paid"
        assert (await bench.hand.stock())["sku-1"].available == 10
        assert await bench.hand.holds() == [
            held("so-1", state=held("so-1").state.RELEASED),
            held("so-2", "sku-2"),
        ]
        assert len(await bench.hand.facts()) == 1

    @pytest.mark.parametrize("error", [OnPurpose, asyncio.CancelledError, StoreConflict])
    async def test_a_block_that_raises_leaves_nothing(self, bench: StoreBench, error: type[BaseException]) -> None:
        await self.prepare(bench)
        async with bench.refusing(error) as tx:
            await write_everything(tx)
            fail_with(error)
        async with bench.store.transaction() as tx:
            assert await tx.find_notes(["so-1"]) == {}
            assert await tx.find_payments("so-1") == []
            await write_everything(tx)

    async def test_nobody_sees_what_is_not_committed(self, bench: StoreBench) -> None:
        await self.prepare(bench)
        before = await bench.state()
        async with bench.store.transaction() as tx:
            await write_everything(tx)
            assert await bench.state() == before
        assert await bench.state() != before

    async def test_a_transaction_sees_its_own_writes(self, bench: StoreBench) -> None:
        await self.prepare(bench)
        async with bench.store.transaction() as tx:
            await write_everything(tx)
            (order,) = await tx.find_orders(["so-1"])
            assert order.state is State.PAID
            assert await tx.read_holds(["so-2"], {held("so-2").state}) == [held("so-2", "sku-2")]

    async def test_an_empty_transaction_is_harmless(self, bench: StoreBench) -> None:
        async with bench.store.transaction():
            pass
        async with bench.store.transaction(write=False):
            pass

    async def test_writes_of_nothing_are_harmless(self, bench: StoreBench) -> None:
        await self.prepare(bench)
        before = await bench.state()
        async with bench.store.transaction() as tx:
            now = await tx.now()
            await tx.write_if_pending([])
            await tx.insert_orders([])
            await tx.put_notes([])
            await tx.insert_holds([])
            await tx.move_holds([], held("so-1").state.RELEASED, now)
            await tx.change_assets("stock", {}, Effect.RELEASE)
            await tx.add_facts([], now)
            await tx.put_failures([])
            assert await tx.record_payments([]) == {}
            assert await tx.find_notes([]) == {}
            assert await tx.read_holds([], {held("so-1").state}) == []
            assert await tx.find_facts(event_ids=[]) == []
            assert (await tx.lock_assets("stock", [])).rows == {}
        assert await bench.state() == before

    # The clock

    async def test_now_is_an_aware_instant_in_utc_that_does_not_go_back(self, bench: StoreBench) -> None:
        async with bench.store.transaction() as tx:
            first, second = await tx.now(), await tx.now()
        third = await bench.now()
        assert first.utcoffset() == timedelta(0)
        assert first <= second <= third

    # Several at once

    async def test_no_update_is_lost_between_many_writers(self, bench: StoreBench) -> None:
        await bench.stock("sku-1", available=100, held=0)

        async def take_one() -> None:
            async with bench.store.transaction() as tx:
                lock = await tx.lock_assets("stock", ["sku-1"], wait=True)
                await tx.change_assets("stock", dict.fromkeys(lock.rows, 1), Effect.TAKE)

        async def take_some() -> None:
            for _ in range(_TURNS):
                while True:
                    try:
                        await take_one()
                    except StoreConflict:
                        continue
                    break

        await asyncio.gather(*(take_some() for _ in range(_WRITERS)))
        row = (await bench.hand.stock())["sku-1"]
        assert (row.available, row.held) == (100 - _WRITERS * _TURNS, _WRITERS * _TURNS)

    async def test_one_of_many_payers_wins(self, bench: StoreBench) -> None:
        await bench.order("so-1")

        async def pay_once() -> bool:
            async with bench.store.transaction() as tx:
                locked = await tx.lock_orders(["so-1"])
                await tx.write_if_pending([OrderWrite(order, State.PAID) for order in locked])
            return bool(locked)

        assert sum(await asyncio.gather(*(pay_once() for _ in range(_WRITERS)))) == 1

    async def test_waiting_for_a_row_that_the_shop_holds_ends_in_a_conflict(self, bench: StoreBench) -> None:
        bench.need_hand_locks()
        await bench.order("so-1")
        await bench.stock("sku-1")
        async with asyncio.timeout(60), bench.hand.lock_order("so-1"), bench.refusing(StoreConflict) as tx:
            await tx.lock_orders(["so-1"], wait=True)
        async with asyncio.timeout(60), bench.hand.lock_asset("stock", "sku-1"), bench.refusing(StoreConflict) as tx:
            await tx.lock_assets("stock", ["sku-1"], wait=True)

    async def test_a_row_that_is_waited_for_comes_as_it_is_afterwards(self, bench: StoreBench) -> None:
        bench.need("row_locks")
        await bench.order("so-1")
        holding = asyncio.Event()

        async def pay() -> None:
            async with bench.store.transaction() as tx:
                locked = await tx.lock_orders(["so-1"])
                holding.set()
                await tx.write_if_pending([OrderWrite(order, State.PAID) for order in locked])
                await asyncio.sleep(0.2)  # the other one must have come to wait; if it has not, nothing is proved

        async def close() -> list[State | None]:
            await holding.wait()
            async with bench.store.transaction() as tx:
                pending = await tx.lock_orders(["so-1"], wait=True)
                return [order.state for order in pending]

        _, states = await asyncio.gather(pay(), close())
        assert states == []

    async def test_a_transaction_that_stands_still_is_ended_by_the_store(self, bench: StoreBench) -> None:
        bench.need("own_clock")
        await bench.order("so-1")
        with pytest.raises(StoreError):
            await self.pay_very_slowly(bench)
        assert (await bench.hand.orders())["so-1"].status == "shipped"

    async def pay_very_slowly(self, bench: StoreBench) -> None:
        """Stand still while holding an order's row, until the shop gets it all the same."""
        async with bench.store.transaction() as tx:
            (order,) = await tx.lock_orders(["so-1"])
            await asyncio.sleep(_STANDSTILL_SECONDS)
            async with asyncio.timeout(2):
                await bench.hand.set_status("so-1", "shipped")
            await tx.write_if_pending([OrderWrite(order, State.PAID)])

    async def test_the_store_serves_on_after_many_failed_blocks(self, bench: StoreBench) -> None:
        for _ in range(20):
            async with bench.refusing(OnPurpose) as tx:
                await tx.now()
                fail_with(OnPurpose)
        assert (await bench.order(expire_at=await bench.now() + MINUTE)).state is State.PENDING
