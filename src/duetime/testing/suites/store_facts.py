"""Facts and payments: written once, found again, owed to every consumer that wants them."""

from dataclasses import replace
from datetime import timedelta

from duetime.errors import StoreRefused
from duetime.event import FactType
from duetime.testing.suites.bench import SECOND, StoreBench, payment, some_fact


class FactTests:
    """The outbox and the payments."""

    async def test_a_fact_comes_back_as_it_was_written(self, bench: StoreBench) -> None:
        deep = {"list": [1, -2.5, None, True, "套餐 🛒"], "empty": {}, "quote": "'\"\\%\x1f", "big": 2**53}
        written = some_fact("订单-🛒", FactType.ORDER_PLACED, deep=deep)
        async with bench.store.transaction() as tx:
            await tx.add_facts([written], await tx.now())
        assert await bench.hand.facts() == [written]
        async with bench.store.transaction(write=False) as tx:
            assert await tx.find_facts(event_ids=[written.event_id]) == [written]

    async def test_facts_keep_the_order_in_which_they_were_written(self, bench: StoreBench) -> None:
        facts = [some_fact(f"so-{n % 3}", n=n) for n in range(12)]
        for start in (0, 6):
            async with bench.store.transaction() as tx:
                await tx.add_facts(facts[start : start + 6], await tx.now())
        assert await bench.hand.facts() == facts
        async with bench.store.transaction(write=False) as tx:
            assert await tx.find_facts(order_no="so-1") == [fact for fact in facts if fact.order_no == "so-1"]

    async def test_find_facts_answers_only_what_was_asked_for(self, bench: StoreBench) -> None:
        facts = [some_fact(f"so-{n}") for n in range(4)]
        async with bench.store.transaction() as tx:
            await tx.add_facts(facts, await tx.now())
        wanted = [facts[2].event_id, facts[0].event_id, facts[2].event_id, "unknown"]
        async with bench.store.transaction(write=False) as tx:
            found = await tx.find_facts(event_ids=wanted)
            assert {fact.event_id for fact in found} == {facts[0].event_id, facts[2].event_id}
            assert len(found) == 2
            assert await tx.find_facts(order_no="nobody") == []

    async def test_an_identifier_that_exists_is_refused(self, bench: StoreBench) -> None:
        first, second = some_fact("so-1"), some_fact("so-2")
        async with bench.store.transaction() as tx:
            await tx.add_facts([first], await tx.now())
        async with bench.refusing(StoreRefused) as tx:
            await tx.add_facts([second, replace(first, order_no="so-3")], await tx.now())
        assert await bench.hand.facts() == [first]

    async def test_every_consumer_is_owed_the_facts_that_it_wants(self, bench: StoreBench) -> None:
        await bench.hand.register_consumer("all", list(FactType))
        await bench.hand.register_consumer("closed", [FactType.ORDER_CLOSED])
        await bench.hand.register_consumer("none", [])
        closed, placed = some_fact("so-1"), some_fact("so-1", FactType.ORDER_PLACED)
        async with bench.store.transaction() as tx:
            await tx.add_facts([closed, placed], await tx.now())
        assert sorted(await bench.hand.deliveries()) == sorted(
            [
                ("all", closed.event_id),
                ("closed", closed.event_id),
                ("all", placed.event_id),
            ]
        )

    async def test_nothing_is_owed_where_nobody_registered(self, bench: StoreBench) -> None:
        async with bench.store.transaction() as tx:
            await tx.add_facts([some_fact()], await tx.now())
        assert await bench.hand.deliveries() == []

    # Payments

    async def test_a_notice_is_recorded_as_it_came(self, bench: StoreBench) -> None:
        notice = payment("付-🛒", "订单-1", amount_minor=2**60, provider="微信", resolution="manual")
        async with bench.store.transaction() as tx:
            assert await tx.record_payments([notice]) == {}
        async with bench.store.transaction(write=False) as tx:
            assert await tx.find_payments("订单-1") == [notice]

    async def test_a_repeated_notice_is_answered_with_the_first_one(self, bench: StoreBench) -> None:
        first = payment("p-1", resolution="manual")
        async with bench.store.transaction() as tx:
            await tx.record_payments([first])
        again, new = payment("p-1", amount_minor=7), payment("p-2")
        async with bench.store.transaction() as tx:
            assert await tx.record_payments([new, again]) == {"p-1": first}
        async with bench.store.transaction(write=False) as tx:
            assert await tx.find_payments("so-1") == [first, new]

    async def test_find_payments_answers_those_of_one_order_oldest_first(self, bench: StoreBench) -> None:
        at = payment("p").received_at
        notices = [payment(f"p-{n}", received_at=at - n * SECOND) for n in range(3)]
        async with bench.store.transaction() as tx:
            await tx.record_payments([*notices, payment("p-x", "SO-1"), payment("p-y", "so-2")])
        async with bench.store.transaction(write=False) as tx:
            assert await tx.find_payments("so-1") == notices[::-1]
            assert await tx.find_payments("nobody") == []

    async def test_payment_ids_are_told_apart_byte_by_byte(self, bench: StoreBench) -> None:
        notices = [payment(name, received_at=payment("p").received_at + timedelta(seconds=n))
                   for n, name in enumerate(["pay", "PAY", "páy", "n" * 190])]  # fmt: skip
        async with bench.store.transaction() as tx:
            assert await tx.record_payments(notices) == {}
            assert await tx.find_payments("so-1") == notices
