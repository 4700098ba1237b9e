"""Walking along the holds, and removing what is old."""

from datetime import timedelta

import pytest

from duetime.event import FactType
from duetime.fleet import UNLIMITED, Fleet
from duetime.hold import HoldState
from duetime.store import SweepRun
from duetime.testing.suites.bench import HOUR, MINUTE, SECOND, StoreBench, held, some_fact

_DAY = timedelta(days=1)


class KeepingTests:
    """Pages of holds by order, what is removed and what never is."""

    async def test_pages_of_holds_meet_every_order_once(self, bench: StoreBench) -> None:
        numbers = [f"so-{n:02}" for n in range(10)]
        await bench.hand.add_holds([held(no, f"sku-{n}") for no in numbers for n in range(3)])
        await bench.hand.add_holds([held("so-99", state=state) for state in [HoldState.RELEASED]])
        met: list[str] = []
        after, pages = "", 0
        async with bench.store.transaction(write=False) as tx:
            while True:
                page = await tx.hold_page(after, rows=7)
                met += page.held
                pages += 1
                if page.upto is None:
                    break
                after = page.upto
        assert sorted(met) == numbers
        assert pages > 1

    async def test_a_page_of_holds_says_which_were_finished_long_ago(self, bench: StoreBench) -> None:
        now = await bench.now()
        await bench.hand.add_holds([held(f"so-{n}") for n in range(5)])
        async with bench.store.transaction() as tx:
            await tx.move_holds([held("so-1")], HoldState.RELEASED, now - HOUR)
            await tx.move_holds([held("so-2")], HoldState.CONSUMED, now - HOUR)
            await tx.move_holds([held("so-3")], HoldState.RELEASED, now)
            await tx.move_holds([held("so-4")], HoldState.RELEASING, now - HOUR)
        async with bench.store.transaction(write=False) as tx:
            page = await tx.hold_page("", rows=100, finished_before=now - MINUTE)
        assert sorted(page.held) == ["so-0"]
        assert sorted(page.finished) == ["so-1", "so-2"]

    @pytest.mark.parametrize("state", [state for state in HoldState if state not in {"released", "consumed"}])
    async def test_a_hold_that_is_not_finished_is_never_removed(self, bench: StoreBench, state: HoldState) -> None:
        now = await bench.now()
        await bench.hand.add_holds([held("so-1", state=state), held("so-1", "sku-2"), held("so-2")])
        async with bench.store.transaction() as tx:
            for one in (held("so-1", "sku-2"), held("so-2")):
                await tx.move_holds([one], HoldState.RELEASED, now - HOUR)
            assert await tx.remove_holds(["so-1"], finished_before=now - MINUTE) == 1
            assert await tx.remove_holds([], finished_before=now) == 0
        assert [(row.order_no, row.hold.ref) for row in await bench.hand.holds()] == [
            ("so-1", "sku-1"),
            ("so-2", "sku-1"),
        ]

    async def test_closed_here_goes_by_our_facts(self, bench: StoreBench) -> None:
        now = await bench.now()
        facts = [some_fact("so-1"), some_fact("so-2", FactType.ORDER_PAID), some_fact("so-3"), some_fact("so-3")]
        async with bench.store.transaction() as tx:
            await tx.add_facts(facts, now)
            assert await tx.closed_here(["so-1", "so-2", "so-3", "nobody"]) == {"so-1", "so-3"}
            assert await tx.closed_here([]) == set()

    async def test_old_facts_are_removed_page_by_page(self, bench: StoreBench) -> None:
        now = await bench.now()
        async with bench.store.transaction() as tx:
            await tx.add_facts([some_fact(f"so-{n}") for n in range(5)], now - _DAY)
            await tx.add_facts([some_fact("young")], now)
        removed = 0
        onwards: int | None = 0
        while onwards is not None:
            async with bench.store.transaction() as tx:
                gone, onwards = await tx.remove_facts(before=now - HOUR, after_seq=onwards, limit=2)
                removed += gone
        assert removed == 5
        assert [fact.order_no for fact in await bench.hand.facts()] == ["young"]

    async def test_a_fact_that_is_still_owed_stays_and_stops_no_other(self, bench: StoreBench) -> None:
        now = await bench.now()
        async with bench.store.transaction() as tx:
            await tx.add_facts([some_fact("nobody-wants-it")], now - _DAY)
        await bench.hand.register_consumer("mail", [FactType.ORDER_PAID])
        async with bench.store.transaction() as tx:
            await tx.add_facts([some_fact("owed", FactType.ORDER_PAID), some_fact("not-owed")], now - _DAY)
        async with bench.store.transaction() as tx:
            assert await tx.remove_facts(before=now - HOUR, after_seq=0, limit=10) == (2, None)
        assert [fact.order_no for fact in await bench.hand.facts()] == ["owed"]
        assert len(await bench.hand.deliveries()) == 1

    async def test_ever_swept_from_the_first_run_on(self, bench: StoreBench) -> None:
        now = await bench.now()
        async with bench.store.transaction() as tx:
            assert not await tx.ever_swept()
            await tx.put_sweep_run(SweepRun(0, "w", now, now, 0, 0, pending_seen=False))
            assert await tx.ever_swept()

    async def test_the_newest_sweep_run_is_never_removed(self, bench: StoreBench) -> None:
        now = await bench.now()
        runs = [SweepRun(0, "w", at, at, 0, 0, pending_seen=False) for at in (now - 3 * _DAY, now - 2 * _DAY)]
        async with bench.store.transaction() as tx:
            for run in runs:
                await tx.put_sweep_run(run)
            assert await tx.remove_sweep_runs(before=now - _DAY, limit=10) == 1
            assert await tx.remove_sweep_runs(before=now + SECOND, limit=10) == 0

    async def test_who_renews_its_lease_is_alive_and_who_ends_it_is_not(self, bench: StoreBench) -> None:
        async with bench.store.transaction() as tx:
            assert await tx.fleet() == Fleet()
            await tx.renew_lease("host:1", HOUR)
            await tx.renew_lease("host:2", timedelta(0))
            await tx.renew_lease("host:3", MINUTE)
            await tx.renew_lease("host:3", HOUR)
        async with bench.store.transaction(write=False) as tx:
            assert await tx.fleet() == Fleet(("host:1", "host:3"))
        async with bench.store.transaction() as tx:
            await tx.end_lease("host:1")
            await tx.end_lease("nobody")
        async with bench.store.transaction(write=False) as tx:
            assert (await tx.fleet()).workers == ("host:3",)

    @pytest.mark.parametrize("rate", [2000.0, 0.5, UNLIMITED])
    async def test_what_is_said_about_the_pace_stays_until_it_is_taken_back(
        self, bench: StoreBench, rate: float
    ) -> None:
        async with bench.store.transaction() as tx:
            await tx.set_rate(7.0)
            await tx.set_rate(rate)
            await tx.set_pause("mia@shop")
        async with bench.store.transaction() as tx:
            assert await tx.fleet() == Fleet((), "mia@shop", rate)
            await tx.set_pause(None)
            await tx.set_rate(None)
        async with bench.store.transaction() as tx:
            assert await tx.fleet() == Fleet()
            await tx.set_pause(None)
