"""The operations that walk along holds, that remove what is old, and that observe, on the model."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from duetime.event import FactType
from duetime.fleet import Fleet
from duetime.hold import DONE, HoldState
from duetime.observation import Observation
from duetime.store import HoldPage, ObservedQuery
from duetime.stores.memory_data import MemoryData, MemoryHold


class MemoryKeeping:
    """Keeps house on a copy of the data."""

    data: MemoryData

    async def now(self) -> datetime:
        """Answer the store's time; the transaction says how."""
        raise NotImplementedError

    async def ever_swept(self) -> bool:
        """Say whether any sweep run is on record."""
        return bool(self.data.sweep_runs)

    async def hold_page(self, after: str, *, rows: int, finished_before: datetime | None = None) -> HoldPage:
        """Read about ``rows`` holds of the orders that follow ``after``."""
        following = [row for key, row in sorted(self.data.holds.items(), key=lambda item: item[0]) if key[0] > after]
        upto = following[rows - 1].held.order_no if len(following) >= rows else None
        page = [row for row in following if upto is None or row.held.order_no <= upto]
        held = [row.held.order_no for row in page if row.held.state is HoldState.HELD]
        old = [] if finished_before is None else [row for row in page if _finished_before(row, finished_before)]
        return HoldPage(list(dict.fromkeys(held)), list(dict.fromkeys(row.held.order_no for row in old)), upto)

    async def closed_here(self, order_nos: Sequence[str]) -> set[str]:
        """Answer which of these orders duetime has closed itself, by its facts."""
        facts = (row.fact for row in self.data.facts.values())
        return {fact.order_no for fact in facts if fact.type is FactType.ORDER_CLOSED} & set(order_nos)

    async def remove_holds(self, order_nos: Sequence[str], *, finished_before: datetime) -> int:
        """Remove finished holds of these orders."""
        numbers = set(order_nos)
        old = [
            key for key, row in self.data.holds.items() if key[0] in numbers and _finished_before(row, finished_before)
        ]
        for key in old:
            del self.data.holds[key]
        return len(old)

    async def remove_facts(self, *, before: datetime, after_seq: int, limit: int) -> tuple[int, int | None]:
        """Look at a page of facts; remove those from before, of which nothing is owed."""
        following = sorted((row for row in self.data.facts.values() if row.seq > after_seq), key=lambda row: row.seq)
        page = following[:limit]
        old = [row for row in page if row.created_at < before]
        owed = {delivery.seq for delivery in self.data.deliveries}
        removable = [row for row in old if row.seq not in owed]
        for row in removable:
            del self.data.facts[row.fact.event_id]
        all_old = len(page) == limit and len(old) == len(page)
        return len(removable), page[-1].seq if all_old else None

    async def remove_sweep_runs(self, *, before: datetime, limit: int) -> int:
        """Remove old sweep runs, never the newest."""
        runs = self.data.sweep_runs
        old = sorted((run for run in runs[:-1] if run.started_at < before), key=lambda run: run.started_at)[:limit]
        self.data.sweep_runs = [run for run in runs if not any(run is one for one in old)]
        return len(old)

    async def observed_page(self, query: ObservedQuery) -> list[Observation]:
        """Read one page of observed orders by (deadline, order number)."""
        found = [
            one
            for one in self.data.observed.values()
            if (one.expire_at, one.order_no) > (query.since, query.after_no)
            and one.expire_at < query.before
            and (one.followed or not query.followed)
        ]
        return sorted(found, key=_deadline)[: query.limit]

    async def find_observed(self, order_nos: Sequence[str]) -> list[Observation]:
        """Read what is remembered of orders."""
        return [self.data.observed[number] for number in order_nos if number in self.data.observed]

    async def renew_lease(self, worker: str, lease: timedelta) -> None:
        """Say that a worker is alive for so long from now on."""
        self.data.leases[worker] = await self.now() + lease

    async def end_lease(self, worker: str) -> None:
        """Say that a worker has gone."""
        self.data.leases.pop(worker, None)

    async def fleet(self) -> Fleet:
        """Answer who is alive, and what was said about the pace."""
        now = await self.now()
        alive = sorted(worker for worker, ends in self.data.leases.items() if ends > now)
        return Fleet(tuple(alive), self.data.paused_by, self.data.rate)

    async def set_pause(self, paused_by: str | None) -> None:
        """Let nothing be closed any more; None ends it."""
        self.data.paused_by = paused_by

    async def set_rate(self, rate: float | None) -> None:
        """Let all workers together close so many orders a second; None leaves it to the config."""
        self.data.rate = rate

    async def put_observed(self, observations: Sequence[Observation]) -> None:
        """Write observations."""
        self.data.observed.update({one.order_no: one for one in observations})

    async def remove_observed(self, *, before: datetime, limit: int) -> int:
        """Remove old observations."""
        old = sorted((one for one in self.data.observed.values() if one.expire_at < before), key=_deadline)[:limit]
        for one in old:
            del self.data.observed[one.order_no]
        return len(old)


def _deadline(one: Observation) -> tuple[datetime, str]:
    return one.expire_at, one.order_no


def _finished_before(row: MemoryHold, instant: datetime) -> bool:
    finished = row.held.state in DONE.values()
    return finished and row.released_at is not None and row.released_at < instant
