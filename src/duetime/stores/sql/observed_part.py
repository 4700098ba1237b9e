"""The operations on what observe mode remembers, on SQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row

from duetime.observation import Observation, Seen
from duetime.store import ObservedQuery
from duetime.stores.sql.dialect import bound
from duetime.stores.sql.session import Session, unique

COLUMNS: Final = (
    "order_no", "expire_at", "first_seen_at", "seen", "followed",
    "would_close_at", "closed_at", "closed_seen_at", "paid_at",
)  # fmt: skip


class ObservedPart(Session):
    """Reads, writes and removes observed orders."""

    async def observed_page(self, query: ObservedQuery) -> list[Observation]:
        """Read one page of observed orders by (deadline, order number)."""
        parameters = bound(
            since=self._own(query.since),
            before=self._own(query.before),
            after_no=query.after_no,
            page_rows=query.limit,
        )
        rows = await self._rows(self._statements.observed_page(followed=query.followed), parameters)
        return [self._observation(row) for row in rows]

    async def find_observed(self, order_nos: Sequence[str]) -> list[Observation]:
        """Read what is remembered of orders."""
        if not order_nos:
            return []
        rows = await self._rows(self._statements.find_observed(), bound(order_nos=unique(order_nos)))
        return [self._observation(row) for row in rows]

    async def put_observed(self, observations: Sequence[Observation]) -> None:
        """Write observations, replacing those of the same orders."""
        if not observations:
            return
        # Two workers that write the same orders lock them in the same order.
        rows = [self._stored(one) for one in sorted(observations, key=_number)]
        upsert = self._statements.upsert(self._statements.own.observed, COLUMNS, COLUMNS[1:])
        await self._insert(upsert, rows)

    async def remove_observed(self, *, before: datetime, limit: int) -> int:
        """Remove observed orders whose deadline was before this instant."""
        parameters = bound(before=self._own(before), page_rows=limit)
        numbers = [row[0] for row in await self._rows(self._statements.old_observed(), parameters)]
        if numbers:
            await self._run(self._statements.remove_observed(), bound(order_nos=numbers))
        return len(numbers)

    def _stored(self, one: Observation) -> dict[str, object]:
        return {
            "order_no": one.order_no,
            "expire_at": self._own(one.expire_at),
            "first_seen_at": self._own(one.first_seen_at),
            "seen": one.seen.value,
            "followed": int(one.followed),
            "would_close_at": self._own(one.would_close_at),
            "closed_at": self._own(one.closed_at),
            "closed_seen_at": self._own(one.closed_seen_at),
            "paid_at": self._own(one.paid_at),
        }

    def _observation(self, row: Row[Any]) -> Observation:
        read = self._own_time.read
        return Observation(
            order_no=row.order_no,
            expire_at=self._instant(row.expire_at),
            first_seen_at=self._instant(row.first_seen_at),
            seen=Seen(row.seen),
            followed=bool(row.followed),
            would_close_at=read(row.would_close_at),
            closed_at=read(row.closed_at),
            closed_seen_at=read(row.closed_seen_at),
            paid_at=read(row.paid_at),
        )


def _number(one: Observation) -> str:
    return one.order_no
