"""What observe mode remembers."""

from dataclasses import replace
from datetime import timedelta

from duetime.observation import Observation, Seen
from duetime.store import ObservedQuery
from duetime.testing.suites.bench import HOUR, SECOND, StoreBench


class ObservedTests:
    """Observed orders are kept as they were written, and read in the order of their deadlines."""

    async def test_an_observation_is_read_as_it_was_written(self, bench: StoreBench) -> None:
        now = await bench.now()
        short = Observation("so-1", now, now, Seen.PENDING)
        times = {"would_close_at": now + SECOND, "closed_at": now - HOUR, "closed_seen_at": now, "paid_at": now}
        full = Observation("so-2", now, now, Seen.CLOSED, followed=False, **times)
        async with bench.store.transaction() as tx:
            await tx.put_observed([full, short])
            await tx.put_observed([])
        async with bench.store.transaction(write=False) as tx:
            found = await tx.find_observed(["so-2", "so-1", "so-3"])
            assert await tx.find_observed([]) == []
        assert sorted(found, key=lambda one: one.order_no) == [short, full]

    async def test_an_observation_takes_the_place_of_the_one_before(self, bench: StoreBench) -> None:
        now = await bench.now()
        first = Observation("so-1", now, now, Seen.PENDING)
        second = replace(first, seen=Seen.PAID, followed=False, paid_at=now, expire_at=now + HOUR)
        async with bench.store.transaction() as tx:
            await tx.put_observed([first])
            await tx.put_observed([second, Observation("so-2", now, now, Seen.OTHER)])
        async with bench.store.transaction(write=False) as tx:
            assert await tx.find_observed(["so-1"]) == [second]

    async def test_pages_meet_every_observation_once(self, bench: StoreBench) -> None:
        now = await bench.now()
        ones = [
            Observation(f"so-{n:02}", now + timedelta(seconds=n // 3), now, Seen.PENDING, followed=n % 2 == 0)
            for n in range(20)
        ]
        async with bench.store.transaction() as tx:
            await tx.put_observed(ones)
        query = ObservedQuery(now + SECOND, now + 6 * SECOND, 4)
        inside = [one for one in ones if query.since <= one.expire_at < query.before]
        assert await _all_pages(bench, query) == inside
        assert await _all_pages(bench, replace(query, followed=True)) == [one for one in inside if one.followed]

    async def test_old_observations_are_removed_oldest_first(self, bench: StoreBench) -> None:
        now = await bench.now()
        async with bench.store.transaction() as tx:
            await tx.put_observed([Observation(f"so-{n}", now - n * HOUR, now, Seen.CLOSED) for n in range(5)])
            assert await tx.remove_observed(before=now - HOUR, limit=2) == 2
            assert len(await tx.find_observed(["so-3", "so-4"])) == 0
            assert await tx.remove_observed(before=now - HOUR, limit=2) == 1
            assert await tx.remove_observed(before=now - HOUR, limit=2) == 0
            assert len(await tx.find_observed(["so-0", "so-1", "so-2"])) == 2


async def _all_pages(bench: StoreBench, query: ObservedQuery) -> list[Observation]:
    found: list[Observation] = []
    while True:
        async with bench.store.transaction(write=False) as tx:
            page = await tx.observed_page(query)
        found += page
        if len(page) < query.limit:
            return found
        query = replace(query, since=page[-1].expire_at, after_no=page[-1].order_no)
