"""Finding orders, locking them, and paging through what is due."""

from datetime import timedelta

import pytest

from duetime.order import Order, State
from duetime.store import DueQuery, PageKey
from duetime.testing.shop_hand import ShopRow
from duetime.testing.suites.bench import HOUR, MINUTE, NOT_PENDING, SECOND, StoreBench, numbers


class OrderTests:
    """Reading and locking orders."""

    # Finding

    async def test_find_orders_answers_the_row_as_it_is(self, bench: StoreBench) -> None:
        now = await bench.now()
        row = ShopRow("so-1", now, "closed", now, "customer", "app", "seckill", 1990, "CNY")
        await bench.hand.add_orders([row])
        found = await bench.read("so-1")
        seen = (found.expire_at, found.status, found.closed_at, found.close_reason, found.close_source)
        assert seen == (now, "closed", now, "customer", "app")
        assert (found.category, found.amount_minor, found.currency) == ("seckill", 1990, "CNY")
        assert found.state is State.CLOSED

    @pytest.mark.parametrize(
        "status, state",
        [("pending", State.PENDING), ("paid", State.PAID), ("closed", State.CLOSED), ("shipped", None), ("", None)],
    )
    async def test_find_orders_names_the_state_where_the_description_does(
        self, bench: StoreBench, status: str, state: State | None
    ) -> None:
        order = await bench.order(status=status)
        assert (order.state, order.status) == (state, status)

    async def test_find_orders_reads_an_order_without_a_deadline(self, bench: StoreBench) -> None:
        assert (await bench.order(expire_at=None)).expire_at is None

    async def test_pending_orders_without_a_deadline_are_counted_up_to_a_limit(self, bench: StoreBench) -> None:
        for n in range(3):
            await bench.order(f"so-{n}", expire_at=None)
        await bench.order("so-3")
        await bench.order("so-4", status="paid", expire_at=None)
        async with bench.store.transaction(write=False) as tx:
            assert [await tx.count_without_deadline(limit=limit) for limit in (1, 3, 100)] == [1, 3, 3]

    async def test_find_orders_leaves_out_what_does_not_exist_and_answers_each_order_once(
        self, bench: StoreBench
    ) -> None:
        await bench.order("so-1")
        await bench.order("so-2")
        async with bench.store.transaction(write=False) as tx:
            assert numbers(await tx.find_orders(["so-2", "so-1", "so-2", "nobody"])) == ["so-1", "so-2"]
            assert await tx.find_orders([]) == []
            assert await tx.find_orders(["nobody"]) == []

    @pytest.mark.parametrize("order_no", ["订单-№1-🛒", "so'1", 'so"1', "so%1", "so\\1", "so;--", ":so", "{so}", "\t"])
    async def test_find_orders_takes_any_number_as_it_is(self, bench: StoreBench, order_no: str) -> None:
        await bench.order("so-1")
        order = await bench.order(order_no)
        assert order.order_no == order_no
        async with bench.store.transaction() as tx:
            assert await tx.lock_orders([order_no]) == [order]

    async def test_find_orders_keeps_microseconds(self, bench: StoreBench) -> None:
        expire_at = (await bench.now()).replace(microsecond=123457)
        assert (await bench.order(expire_at=expire_at)).expire_at == expire_at

    # Locking

    async def test_lock_orders_answers_the_row_as_it_is(self, bench: StoreBench) -> None:
        order = await bench.order(category="seckill", amount_minor=1990, currency="CNY")
        async with bench.store.transaction() as tx:
            assert await tx.lock_orders(["so-1"]) == [order]

    async def test_lock_orders_answers_each_order_once_and_leaves_out_what_does_not_exist(
        self, bench: StoreBench
    ) -> None:
        await bench.order("so-1")
        await bench.order("so-2")
        async with bench.store.transaction() as tx:
            assert numbers(await tx.lock_orders(["so-2", "so-1", "so-2", "nobody"])) == ["so-1", "so-2"]
            assert await tx.lock_orders([]) == []
            assert await tx.lock_orders(["nobody"], wait=True) == []

    @pytest.mark.parametrize("status", NOT_PENDING)
    async def test_lock_orders_leaves_out_what_is_not_pending(self, bench: StoreBench, status: str) -> None:
        await bench.order(status=status)
        async with bench.store.transaction() as tx:
            assert await tx.lock_orders(["so-1"]) == []
            assert await tx.lock_orders(["so-1"], wait=True) == []

    @pytest.mark.parametrize("status", ["pending", *NOT_PENDING])
    async def test_lock_orders_answers_any_status_where_pending_does_not_matter(
        self, bench: StoreBench, status: str
    ) -> None:
        order = await bench.order(status=status)
        async with bench.store.transaction() as tx:
            assert await tx.lock_orders(["so-1"], pending=False) == [order]

    async def test_lock_orders_answers_what_is_due_by_an_instant_and_no_later(self, bench: StoreBench) -> None:
        due_by = (await bench.now()).replace(microsecond=500000)
        step = timedelta(microseconds=1)
        await bench.hand.add_orders(
            [
                ShopRow("before", due_by - step),
                ShopRow("at", due_by),
                ShopRow("after", due_by + step),
                ShopRow("never", None),
            ]
        )
        every = ["before", "at", "after", "never"]
        async with bench.store.transaction() as tx:
            assert numbers(await tx.lock_orders(every, due_by=due_by)) == ["at", "before"]
            assert numbers(await tx.lock_orders(every)) == sorted(every)

    async def test_lock_orders_leaves_out_rows_that_the_shop_holds(self, bench: StoreBench) -> None:
        bench.need_hand_locks()
        for order_no in ("so-1", "so-2", "so-3"):
            await bench.order(order_no)
        async with bench.hand.lock_order("so-2"), bench.store.transaction() as tx:
            assert numbers(await tx.lock_orders(["so-1", "so-2", "so-3"])) == ["so-1", "so-3"]
        async with bench.store.transaction() as tx:
            assert numbers(await tx.lock_orders(["so-1", "so-2", "so-3"])) == ["so-1", "so-2", "so-3"]

    async def test_lock_orders_leaves_out_rows_that_another_transaction_of_ours_holds(self, bench: StoreBench) -> None:
        bench.need("row_locks")
        await bench.order("so-1")
        await bench.order("so-2")
        async with bench.store.transaction() as first:
            await first.lock_orders(["so-1"])
            async with bench.store.transaction() as second:
                assert numbers(await second.lock_orders(["so-1", "so-2"])) == ["so-2"]

    async def test_reading_never_waits_for_rows_that_the_shop_holds(self, bench: StoreBench) -> None:
        bench.need_hand_locks()
        order = await bench.order()
        async with bench.hand.lock_order("so-1"), bench.store.transaction(write=False) as tx:
            assert await tx.find_orders(["so-1"]) == [order]
            assert await tx.due_page(DueQuery(order.expire_at or await tx.now(), limit=5)) == [order]

    async def test_locked_orders_are_as_the_shop_left_them_in_between(self, bench: StoreBench) -> None:
        await bench.order()
        async with bench.store.transaction(write=False) as tx:
            await tx.find_orders(["so-1"])
        await bench.hand.set_status("so-1", "paid")
        async with bench.store.transaction() as tx:
            (order,) = await tx.lock_orders(["so-1"], pending=False)
        assert order.state is State.PAID

    # Paging

    async def test_due_page_answers_pending_orders_by_deadline(self, bench: StoreBench) -> None:
        now = await bench.now()
        await bench.hand.add_orders(
            [
                ShopRow("late", now - SECOND),
                ShopRow("oldest", now - HOUR),
                ShopRow("old", now - MINUTE),
                ShopRow("future", now + HOUR),
                ShopRow("never", None),
                *(ShopRow(f"gone-{n}", now - HOUR, status) for n, status in enumerate(NOT_PENDING)),
            ]
        )
        async with bench.store.transaction(write=False) as tx:
            page = await tx.due_page(DueQuery(now, limit=10))
            assert [order.order_no for order in page] == ["oldest", "old", "late"]
            assert page == [await bench.read(order.order_no) for order in page]
            assert [order.order_no for order in await tx.due_page(DueQuery(now, limit=2))] == ["oldest", "old"]

    async def test_due_page_includes_both_of_its_bounds(self, bench: StoreBench) -> None:
        low = (await bench.now()).replace(microsecond=250000)
        high, step = low + SECOND, timedelta(microseconds=1)
        deadlines = {"below": low - step, "low": low, "high": high, "above": high + step}
        await bench.hand.add_orders([ShopRow(order_no, at) for order_no, at in deadlines.items()])
        async with bench.store.transaction(write=False) as tx:
            page = await tx.due_page(DueQuery(high, limit=10, not_before=low))
        assert [order.order_no for order in page] == ["low", "high"]

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
    async def test_due_pages_meet_every_order_once_though_deadlines_are_equal(
        self, bench: StoreBench, limit: int
    ) -> None:
        now = await bench.now()
        deadlines = [now - HOUR] * 5 + [now - MINUTE] + [now - SECOND] * 5
        await bench.hand.add_orders([ShopRow(f"so-{n}", at) for n, at in enumerate(deadlines)])
        seen: list[Order] = []
        after: PageKey | None = None
        async with bench.store.transaction(write=False) as tx:
            while page := await tx.due_page(DueQuery(now, limit=limit, after=after)):
                assert len(page) <= limit
                seen += page
                after = PageKey(page[-1].expire_at or now, page[-1].id)
        assert numbers(seen) == sorted(f"so-{n}" for n in range(11))
        assert [order.expire_at for order in seen] == sorted(deadlines)

    async def test_due_page_goes_on_after_an_order_that_is_no_longer_there(self, bench: StoreBench) -> None:
        now = await bench.now()
        await bench.hand.add_orders([ShopRow(f"so-{n}", now - MINUTE) for n in range(4)])
        async with bench.store.transaction(write=False) as tx:
            first = await tx.due_page(DueQuery(now, limit=2))
        await bench.hand.delete_order(first[-1].order_no)
        async with bench.store.transaction(write=False) as tx:
            rest = await tx.due_page(DueQuery(now, limit=9, after=PageKey(now - MINUTE, first[-1].id)))
        assert numbers([*first, *rest]) == ["so-0", "so-1", "so-2", "so-3"]

    async def test_due_page_of_an_empty_shop_is_empty(self, bench: StoreBench) -> None:
        async with bench.store.transaction(write=False) as tx:
            assert await tx.due_page(DueQuery(await tx.now(), limit=5)) == []
