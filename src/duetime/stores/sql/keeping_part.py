"""The operations that walk along holds, and that remove what is old, on SQL."""

from collections.abc import Sequence
from datetime import datetime

from duetime.store import HoldPage
from duetime.stores.sql.dialect import bound
from duetime.stores.sql.session import Session, unique


class KeepingPart(Session):
    """Walks along the holds; removes old holds, facts and sweep runs."""

    async def ever_swept(self) -> bool:
        """Say whether any sweep run is on record."""
        return bool((await self._rows(self._statements.ever_swept()))[0][0])

    async def hold_page(self, after: str, *, rows: int, finished_before: datetime | None = None) -> HoldPage:
        """Read about ``rows`` holds of the orders that follow ``after``."""
        kept = self._statements
        last = await self._rows(kept.last_of_page(), bound(after_no=after, page_rows=rows - 1))
        upto = last[0][0] if last else None
        page = bound(after_no=after) | (bound(upto_no=upto) if last else {})
        held = await self._rows(kept.held_orders(bounded=bool(last)), page)
        finished = []
        if finished_before is not None:
            page |= bound(finished_before=self._own(finished_before))
            finished = list(await self._rows(kept.finished_orders(bounded=bool(last)), page))
        return HoldPage([row[0] for row in held], [row[0] for row in finished], upto)

    async def closed_here(self, order_nos: Sequence[str]) -> set[str]:
        """Answer which of these orders duetime has closed itself, by its facts."""
        if not order_nos:
            return set()
        numbers = bound(order_nos=unique(order_nos))
        closes = dict(map(tuple, await self._rows(self._statements.closes_here(), numbers)))
        again = dict(map(tuple, await self._rows(self._statements.generations(), numbers)))
        return {order_no for order_no, count in closes.items() if count > again.get(order_no, 0)}

    async def remove_holds(self, order_nos: Sequence[str], *, finished_before: datetime) -> int:
        """Remove released and consumed holds of these orders that were finished before this instant."""
        if not order_nos:
            return 0
        parameters = bound(order_nos=unique(order_nos), finished_before=self._own(finished_before))
        return (await self._run(self._statements.remove_holds(), parameters)).rowcount

    async def remove_facts(self, *, before: datetime, after_seq: int, limit: int) -> tuple[int, int | None]:
        """Look at a page of facts; remove those from before, if nothing is owed of them."""
        kept = self._statements
        consumers = [row.name for row in await self._rows(kept.find_consumers())]
        parameters = bound(after_seq=after_seq, page_rows=limit, consumers=consumers or [""])
        page = await self._rows(kept.oldest_facts(), parameters)
        old = [row for row in page if self._instant(row.created_at) < before]
        removable = [row.seq for row in old if not row.owed]
        if removable:
            if consumers:
                await self._run(kept.remove_deliveries(), bound(consumers=consumers, seqs=removable))
            await self._run(kept.remove_facts(), bound(seqs=removable))
        all_old = len(page) == limit and len(old) == len(page)
        return len(removable), page[-1].seq if all_old else None

    async def remove_sweep_runs(self, *, before: datetime, limit: int) -> int:
        """Remove sweep runs that began before this instant, never the newest."""
        parameters = bound(before=self._own(before), page_rows=limit)
        ids = [row[0] for row in await self._rows(self._statements.old_sweep_runs(), parameters)]
        if ids:
            await self._run(self._statements.remove_sweep_runs(), bound(run_ids=ids))
        return len(ids)
