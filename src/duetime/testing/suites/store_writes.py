"""The guarded write of orders, placing them, and the notes beside them."""

from datetime import datetime, timedelta

import pytest

from duetime.errors import StoreConflict, StoreRefused
from duetime.order import State
from duetime.store import CloseNote, NewOrder, OrderNote, OrderWrite
from duetime.testing.shop_hand import ShopRow
from duetime.testing.suites.bench import HOUR, MINUTE, NOT_PENDING, SECOND, StoreBench

_LONG_NAME = "n" * 190


def _close(at: datetime) -> CloseNote:
    return CloseNote(at, "timeout", "sweep")


class WriteTests:
    """Writing orders."""

    # The guarded write, from pending

    async def test_pending_becomes_closed_with_why_by_whom_and_when(self, bench: StoreBench) -> None:
        before = await bench.order(channel="app", amount_minor=5)
        now = (await bench.now()).replace(microsecond=654321)
        async with bench.store.transaction() as tx:
            (order,) = await tx.lock_orders(["so-1"])
            await tx.write_if_pending([OrderWrite(order, State.CLOSED, due_by=now, close=_close(now))])
        assert await bench.hand.orders() == {
            "so-1": ShopRow("so-1", before.expire_at, "closed", now, "timeout", "sweep", amount_minor=5, channel="app")
        }
        closed = await bench.read("so-1")
        seen = (closed.state, closed.closed_at, closed.close_reason, closed.close_source)
        assert seen == (State.CLOSED, now, "timeout", "sweep")

    async def test_pending_becomes_paid(self, bench: StoreBench) -> None:
        before = await bench.order()
        async with bench.store.transaction() as tx:
            (order,) = await tx.lock_orders(["so-1"])
            await tx.write_if_pending([OrderWrite(order, State.PAID)])
        assert await bench.hand.orders() == {"so-1": ShopRow("so-1", before.expire_at, "paid")}

    async def test_pending_stays_pending_with_a_new_deadline(self, bench: StoreBench) -> None:
        await bench.order()
        later = (await bench.now()).replace(microsecond=5) + HOUR
        async with bench.store.transaction() as tx:
            (order,) = await tx.lock_orders(["so-1"])
            await tx.write_if_pending([OrderWrite(order, State.PENDING, expire_at=later)])
        assert await bench.hand.orders() == {"so-1": ShopRow("so-1", later)}

    async def test_the_same_deadline_again_is_no_conflict(self, bench: StoreBench) -> None:
        before = await bench.order()
        async with bench.store.transaction() as tx:
            (order,) = await tx.lock_orders(["so-1"])
            await tx.write_if_pending([OrderWrite(order, State.PENDING, expire_at=before.expire_at)])
        assert await bench.read("so-1") == before

    async def test_several_orders_are_written_differently_at_once(self, bench: StoreBench) -> None:
        now = await bench.now()
        await bench.hand.add_orders([ShopRow(f"so-{n}", now - MINUTE) for n in range(6)])
        async with bench.store.transaction() as tx:
            locked = {order.order_no: order for order in await tx.lock_orders([f"so-{n}" for n in range(6)])}
            await tx.write_if_pending(
                [
                    OrderWrite(locked["so-3"], State.CLOSED, due_by=now, close=CloseNote(now, "timeout", "wheel")),
                    OrderWrite(locked["so-0"], State.CLOSED, close=CloseNote(now - SECOND, "customer", "app")),
                    OrderWrite(locked["so-4"], State.CLOSED, due_by=now, close=CloseNote(now, "timeout", "wheel")),
                    OrderWrite(locked["so-1"], State.PAID),
                    OrderWrite(locked["so-2"], State.PENDING, expire_at=now + HOUR),
                ]
            )
        rows = await bench.hand.orders()
        assert [rows[f"so-{n}"].status for n in range(6)] == [
            "closed",
            "paid",
            "pending",
            "closed",
            "closed",
            "pending",
        ]
        assert (rows["so-0"].closed_at, rows["so-0"].close_reason) == (now - SECOND, "customer")
        assert (rows["so-3"].closed_at, rows["so-3"].close_source) == (now, "wheel")
        assert rows["so-4"].close_reason == "timeout"
        assert (rows["so-2"].expire_at, rows["so-5"].expire_at) == (now + HOUR, now - MINUTE)

    # The guarded write, from anything else

    @pytest.mark.parametrize("to", [State.CLOSED, State.PAID, State.PENDING])
    @pytest.mark.parametrize("status", NOT_PENDING)
    async def test_what_is_not_pending_is_not_written(self, bench: StoreBench, status: str, to: State) -> None:
        await bench.order("so-1", status)
        await bench.order("so-2")
        async with bench.refusing(StoreConflict) as tx:
            now = await tx.now()
            locked = await tx.lock_orders(["so-1", "so-2"], pending=False)
            later = now + HOUR if to is State.PENDING else None
            close = _close(now) if to is State.CLOSED else None
            await tx.write_if_pending([OrderWrite(order, to, close=close, expire_at=later) for order in locked])

    @pytest.mark.parametrize("deadline", [timedelta(microseconds=1), HOUR, None])
    async def test_what_is_not_due_is_not_written(self, bench: StoreBench, deadline: timedelta | None) -> None:
        due_by = (await bench.now()).replace(microsecond=100)
        await bench.order("so-1", expire_at=None if deadline is None else due_by + deadline)
        await bench.order("so-2", expire_at=due_by)
        async with bench.refusing(StoreConflict) as tx:
            locked = await tx.lock_orders(["so-1", "so-2"])
            await tx.write_if_pending(
                [OrderWrite(order, State.CLOSED, due_by=due_by, close=_close(due_by)) for order in locked]
            )

    async def test_what_was_deleted_is_not_written(self, bench: StoreBench) -> None:
        gone = await bench.order()
        async with bench.store.transaction() as tx:
            locked = await tx.lock_orders(["so-1"])
            assert locked == [gone]
        await bench.hand.delete_order("so-1")
        async with bench.refusing(StoreConflict, RuntimeError) as tx:
            await tx.write_if_pending([OrderWrite(gone, State.PAID)])

    # Placing

    async def test_a_placed_order_is_pending_with_everything_that_was_said(self, bench: StoreBench) -> None:
        expire_at = (await bench.now()).replace(microsecond=999999) + HOUR
        new = NewOrder("订单-1", expire_at, "default", "seckill", 1990, "CNY", {"channel": "app"})
        async with bench.store.transaction() as tx:
            await tx.insert_orders([new, NewOrder("so-2", expire_at, "default")])
        rows = await bench.hand.orders()
        assert rows["订单-1"] == ShopRow(
            "订单-1", expire_at, category="seckill", amount_minor=1990, currency="CNY", channel="app"
        )
        assert rows["so-2"] == ShopRow("so-2", expire_at)

    async def test_a_number_that_exists_is_refused_and_nothing_is_placed(self, bench: StoreBench) -> None:
        await bench.order("so-1", "closed")
        expire_at = await bench.now() + HOUR
        async with bench.refusing(StoreRefused) as tx:
            await tx.insert_orders([NewOrder(number, expire_at, "default") for number in ("so-0", "so-1", "so-2")])

    async def test_a_number_twice_in_one_list_is_refused(self, bench: StoreBench) -> None:
        expire_at = await bench.now() + HOUR
        async with bench.refusing(StoreRefused) as tx:
            await tx.insert_orders([NewOrder("so-1", expire_at, "default")] * 2)
        assert await bench.hand.orders() == {}

    # Notes

    async def test_a_note_comes_back_as_it_was_put(self, bench: StoreBench) -> None:
        at = (await bench.now()).replace(microsecond=42)
        long = timedelta(hours=2, milliseconds=7)
        note = OrderNote("订单-1", 3, long, "category seckill", CloseNote(at, "staff", "mia@shop"))
        told_by_the_shop = OrderNote("so-2", close=CloseNote(None, "staff", "mia@shop"))
        plain = OrderNote(_LONG_NAME)
        async with bench.store.transaction() as tx:
            await tx.put_notes([note, plain, told_by_the_shop])
        async with bench.store.transaction(write=False) as tx:
            found = await tx.find_notes(["订单-1", _LONG_NAME, "nobody", "so-2", "订单-1"])
        assert found == {"订单-1": note, _LONG_NAME: plain, "so-2": told_by_the_shop}

    async def test_a_note_replaces_what_stood_there(self, bench: StoreBench) -> None:
        at = await bench.now()
        first = OrderNote("so-1", 1, MINUTE, "default", CloseNote(at, "timeout", "sweep"))
        second = OrderNote("so-1", 2, HOUR)
        for note in (first, second):
            async with bench.store.transaction() as tx:
                await tx.put_notes([note, OrderNote("so-2", 7)])
        async with bench.store.transaction(write=False) as tx:
            assert await tx.find_notes(["so-1", "so-2"]) == {"so-1": second, "so-2": OrderNote("so-2", 7)}

    async def test_notes_tell_names_apart_byte_by_byte(self, bench: StoreBench) -> None:
        names = ["so-1", "SO-1", "só-1", "so_1"]
        async with bench.store.transaction() as tx:
            await tx.put_notes([OrderNote(name, n) for n, name in enumerate(names)])
            found = await tx.find_notes(names)
        assert {name: note.extended for name, note in found.items()} == {name: n for n, name in enumerate(names)}
