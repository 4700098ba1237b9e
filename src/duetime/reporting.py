"""The report of observe mode: what another closer did with the orders that duetime would have closed.

It reads what is remembered, page by page, looks once more at the shop's rows of those that are still followed (so the
numbers are true also when no worker runs), and sums up. Nothing is written.
"""

from array import array
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import ceil

from duetime.clock import Clock, SystemClock
from duetime.observation import Observation, Verdict, judged
from duetime.observer import SAMPLES_AT_MOST
from duetime.observing import FOR_EVER, look_again, observed_since
from duetime.store import DueQuery, FullTransaction, ObservedQuery, PageKey, Store

COUNTED_AT_MOST = 200_000
COUNTING_SECONDS = 20.0
"""Orders that are too old to be observed are counted up to the first of the two."""

CLOSED = frozenset({Verdict.IN_TIME, Verdict.LATE})
"""Closed as they should be, sooner or later."""


@dataclass(frozen=True, slots=True)
class ReportingOptions:
    """``late_after``: how long a closer may take from the deadline on; ``since``: deadlines from this instant on."""

    grace: timedelta
    late_after: timedelta
    since: datetime | None = None
    not_before: datetime | None = None
    page_size: int = 1000


@dataclass(frozen=True, slots=True)
class Spread:
    """How far durations lie apart: half of them are at most ``p50``, 95 of 100 at most ``p95``."""

    p50: timedelta
    p95: timedelta
    longest: timedelta


@dataclass(frozen=True, slots=True)
class Example:
    """One order, with how long after its deadline it was closed (below zero: before), where it was."""

    order_no: str
    expire_at: datetime
    closed_after: timedelta | None = None


@dataclass(slots=True)
class ObserveReport:
    """What was found. ``counts``: orders by verdict, with ``examples`` of each.

    ``due``: orders whose deadline and grace passed while they were pending and unpaid. ``late``: of those that were
    closed late, how long after their deadline; ``closed``: of all that were closed at or after it. ``unsure``: closed
    at a time that the shop's row does not say, so that a pass's time stands for it. ``too_old``: pending orders that
    are due for too long to be observed (``too_old_more``: and more).
    """

    at: datetime
    began_at: datetime | None = None
    counts: Counter[Verdict] = field(default_factory=Counter)
    examples: dict[Verdict, list[Example]] = field(default_factory=dict)
    due: int = 0
    late: Spread | None = None
    closed: Spread | None = None
    unsure: int = 0
    too_old: int = 0
    too_old_more: bool = False

    @property
    def observed(self) -> int:
        """How many orders the report is about."""
        return self.counts.total()


class Reporting:
    """Sums up what is remembered."""

    def __init__(self, store: Store, options: ReportingOptions, *, clock: Clock | None = None) -> None:
        """Report on ``store``; ``clock`` measures how long it counts."""
        self._store = store
        self._options = options
        self._clock = clock or SystemClock()

    async def report(self) -> ObserveReport:
        """Read everything and answer the sums.

        Raises:
            StoreError: the store stayed away or is not as described.
        """
        async with self._store.transaction(write=False) as tx:
            found = ObserveReport(await tx.now())
        took: dict[Verdict, array[float]] = {verdict: array("d") for verdict in CLOSED}
        query = ObservedQuery(
            self._options.since or datetime(1970, 1, 1, tzinfo=UTC), FOR_EVER, self._options.page_size
        )
        while True:
            async with self._store.transaction(write=False) as tx:
                page = await tx.observed_page(query)
                for one in await look_again(tx, page, self._options.grace):
                    self._add(one, found, took)
            if len(page) < query.limit:
                break
            query = replace(query, since=page[-1].expire_at, after_no=page[-1].order_no)
        late = took[Verdict.LATE]
        found.late, found.closed = _spread(late), _spread(late + took[Verdict.IN_TIME])
        await self._count_too_old(found)
        return found

    def _add(self, one: Observation, found: ObserveReport, took: "dict[Verdict, array[float]]") -> None:
        verdict = judged(one, now=found.at, late_after=self._options.late_after)
        after = None if one.closed is None else one.closed - one.expire_at
        found.counts[verdict] += 1
        found.due += _was_due(one, verdict)
        found.began_at = min(one.first_seen_at, found.began_at or one.first_seen_at)
        found.unsure += one.closed_seen_at is not None and one.closed_at is None
        examples = found.examples.setdefault(verdict, [])
        if len(examples) < SAMPLES_AT_MOST:
            examples.append(Example(one.order_no, one.expire_at, after))
        if verdict in CLOSED and after is not None:
            took[verdict].append(after.total_seconds())

    async def _count_too_old(self, found: ObserveReport) -> None:
        oldest = observed_since(found.at, self._options.not_before)
        query = DueQuery(oldest - timedelta(microseconds=1), self._options.page_size)
        ends = self._clock.monotonic() + COUNTING_SECONDS
        while found.too_old < COUNTED_AT_MOST and self._clock.monotonic() < ends:
            async with self._store.transaction(write=False) as tx:
                read, unknown, after = await _unknown(tx, query)
            found.too_old += unknown
            if read < query.limit:
                return
            query = replace(query, after=after)
        found.too_old_more = True


async def _unknown(tx: FullTransaction, query: DueQuery) -> tuple[int, int, PageKey | None]:
    """Read a page of due orders; answer how many there are, how many were never observed, and where it ended."""
    orders = await tx.due_page(query)
    known = {one.order_no for one in await tx.find_observed([order.order_no for order in orders])}
    last = orders[-1] if orders else None
    after = None if last is None else PageKey(last.expire_at, last.id, last.page_key)
    return len(orders), sum(order.order_no not in known for order in orders), after


def _was_due(one: Observation, verdict: Verdict) -> bool:
    always = {Verdict.IN_TIME, Verdict.LATE, Verdict.MISSED}
    return verdict in always or (verdict is not Verdict.CLOSED_PAID and one.would_close_at is not None)


def _spread(seconds: "array[float]") -> Spread | None:
    if not seconds:
        return None
    ordered = sorted(seconds)

    def at(share: float) -> timedelta:
        return timedelta(seconds=ordered[ceil(share * len(ordered)) - 1])

    return Spread(at(0.5), at(0.95), timedelta(seconds=ordered[-1]))
