"""The sweep: the net under all triggers. It looks for orders that are due and that nobody reported, and closes them.

It reads pending orders by (deadline, primary key), a page at a time and never by OFFSET, so that the last page costs
what the first did; the size of a page does not grow with the backlog, and there is a pause between pages. A run goes
once from the oldest deadline to the instant at which it started. Each run is a row that operators can look at.

Orders that failed before are left to ``retrying``. Orders whose row somebody else held are tried again at the end of
the run; those still held then make the next run come sooner.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from duetime.clock import Clock, SystemClock
from duetime.closing import CloseRequest
from duetime.errors import DuetimeError
from duetime.giving import Assets
from duetime.lining import held_by
from duetime.observer import Observers
from duetime.order import Busy, Closed, Order, Outcome
from duetime.patience import jittered
from duetime.retrying import Retrying
from duetime.store import DueQuery, PageKey, Store, SweepRun

BUSY_PAUSE_SECONDS = 0.2
BUSY_TRIES = 3


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How to sweep.

    ``grace``: as in closing. ``margin``: how long an order must be due before the sweep takes it from the triggers;
    None: as long as whoever starts triggers says (``Sweep.trigger_margin``).
    ``pause_seconds``: between pages. ``concurrency``: pages being closed at the same time.
    ``assets``: as in closing; a dry run looks up what it would give back.
    """

    grace: timedelta
    margin: timedelta | None = None
    page_size: int = 500
    pause_seconds: float = 0.03
    concurrency: int = 2
    not_before: datetime | None = None
    worker: str = "worker"
    assets: Assets = field(default_factory=dict)


@dataclass(slots=True)
class DryRun:
    """What a run would close and give back, without touching anything.

    ``too_old``: due before ``not_before``; with ``too_old_more`` at least so many. ``blocked``: orders of which what
    the shop's rows say cannot be given back, and why. ``without_deadline``: pending orders that are never due; not
    more than ``UNDATED_AT_MOST`` of them are counted.
    """

    orders: int = 0
    by_day: Counter[str] = field(default_factory=Counter)
    by_category: Counter[str] = field(default_factory=Counter)
    too_old: int = 0
    too_old_more: bool = False
    blocked: dict[str, str] = field(default_factory=dict)
    units: Counter[tuple[str, str]] = field(default_factory=Counter)
    in_quarantine: int = 0
    without_deadline: int = 0
    sample: list[Order] = field(default_factory=list)


@dataclass(slots=True)
class _Tally:
    due_found: int = 0
    closed: int = 0
    busy: list[str] = field(default_factory=list)
    error: DuetimeError | None = None

    def add(self, outcomes: Sequence[Outcome]) -> None:
        self.closed += sum(isinstance(outcome, Closed) for outcome in outcomes)
        self.busy += [outcome.order_no for outcome in outcomes if isinstance(outcome, Busy)]


FORGOTTEN_AFTER = timedelta(days=7)
"""A shop with orders due for longer than this, where nothing was ever swept, has other plans for them, or none."""

UNDATED_AT_MOST = 10_000
"""Pending orders without a deadline are counted up to here; a shop can have millions."""

COUNTED_AT_MOST = 200_000
COUNTING_SECONDS = 20.0
"""Counting what waits ends at the first of the two; whoever asks learns that there is more."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Due orders that a first run would close, by the month of the deadline in UTC. ``more``: not all were counted."""

    orders: int
    by_month: Mapping[str, int]
    oldest: datetime
    more: bool = False


class Sweep:
    """Finds due orders."""

    def __init__(
        self,
        store: Store,
        retrying: Retrying,
        options: SweepOptions,
        *,
        clock: Clock | None = None,
        observers: Observers | None = None,
    ) -> None:
        """Look in ``store``; close through ``retrying``, which keeps the books on what fails."""
        self._store = store
        self._retrying = retrying
        self._options = options
        self._clock = clock or SystemClock()
        self._observers = observers or Observers()
        self.stopping = False
        """Set when no further page is to be begun; the batches in hand are finished."""
        self.trigger_margin = timedelta(0)
        """How long due orders are left to the triggers while some run."""
        self.mine: Callable[[str], bool] = lambda _: True
        """Which orders are this worker's to close."""
        self.busy = 0
        """Orders that somebody else still held when the last run ended."""

    async def run_once(self, progress: Callable[[int, int], None] | None = None) -> SweepRun:
        """Close everything that is due now; ``progress`` hears how many were found and closed so far.

        Raises:
            StoreError: the store stayed away or is not as described; what was closed until then stays closed.
        """
        async with self._store.transaction(write=False) as tx:
            started_at = await tx.now()
        tally = _Tally()
        try:
            await self._close_all(started_at, tally, progress)
        except DuetimeError as error:
            await self._record(started_at, tally, str(error))
            raise
        return await self._record(started_at, tally, None)

    async def _record(self, started_at: datetime, tally: _Tally, error: str | None) -> SweepRun:
        self.busy = len(tally.busy)
        async with self._store.transaction() as tx:
            run = SweepRun(
                0, self._options.worker, started_at, await tx.now(), tally.due_found, tally.closed, error
            )  # fmt: skip
            written = await tx.put_sweep_run(run)
        self._observers.swept(written)
        return written

    async def _close_all(
        self, started_at: datetime, tally: _Tally, progress: Callable[[int, int], None] | None
    ) -> None:
        places = asyncio.Semaphore(self._options.concurrency)

        async def close(order_nos: list[str]) -> None:
            try:
                tally.add(await self._retrying.close([CloseRequest(order_no) for order_no in order_nos]))
            except DuetimeError as error:
                tally.error = tally.error or error
            finally:
                places.release()
            if progress is not None:
                progress(tally.due_found, tally.closed)

        async with asyncio.TaskGroup() as pages:
            # A group wraps what its body raises, and cancels the closes in hand: an error is kept until they are done.
            try:
                async for orders, waiting in self._pages(started_at):
                    if tally.error is not None or self.stopping:
                        break
                    mine = (order.order_no for order in orders if self.mine(order.order_no))
                    chosen = [order_no for order_no in mine if order_no not in waiting]
                    if not chosen:
                        continue
                    tally.due_found += len(chosen)
                    await places.acquire()
                    pages.create_task(close(chosen))
                    await self._clock.sleep(self._options.pause_seconds)
            except DuetimeError as error:
                tally.error = tally.error or error
        if tally.error is not None:
            raise tally.error
        await self._try_busy_again(tally)

    async def _try_busy_again(self, tally: _Tally) -> None:
        for _ in range(BUSY_TRIES):
            if not tally.busy:
                return
            await self._clock.sleep(jittered(BUSY_PAUSE_SECONDS))
            busy, tally.busy = tally.busy, []
            tally.add(await self._retrying.close([CloseRequest(order_no) for order_no in busy]))

    async def _pages(
        self, started_at: datetime, options: SweepOptions | None = None
    ) -> AsyncIterator[tuple[list[Order], set[str]]]:
        """Yield pages of due orders, each with the numbers of those that failed before."""
        options = options or self._options
        due_by = started_at - options.grace - self._margin(options)
        after: PageKey | None = None
        failures = self._retrying.failures
        async with self._store.transaction(write=False) as tx:
            any_waiting = await failures.any_waiting(tx)
        while True:
            async with self._store.transaction(write=False) as tx:
                orders = await tx.due_page(DueQuery(due_by, options.page_size, after, options.not_before))
                numbers = [order.order_no for order in orders]
                waiting = await failures.waiting(tx, numbers) if any_waiting and numbers else set()
            if orders:
                yield orders, waiting
            if len(orders) < options.page_size:
                return
            last = orders[-1]
            after = PageKey(last.expire_at, last.id, last.page_key)

    def _margin(self, options: SweepOptions) -> timedelta:
        return self.trigger_margin if options.margin is None else options.margin

    async def forgotten(self) -> Backlog | None:
        """Answer what a first run would close, where some of it is due for more than seven days; None otherwise.

        A shop that was ever swept before has no first run, and its backlog is what an outage left.
        """
        options = self._options
        async with self._store.transaction(write=False) as tx:
            if await tx.ever_swept():
                return None
            now = await tx.now()
            longest = now - options.grace - FORGOTTEN_AFTER
            oldest = await tx.due_page(DueQuery(longest, 1, not_before=options.not_before))
        if not oldest or oldest[0].expire_at is None:
            return None
        by_month, more = await self._count(now, options)
        return Backlog(by_month.total(), by_month, oldest[0].expire_at, more)

    async def _count(self, now: datetime, options: SweepOptions) -> tuple[Counter[str], bool]:
        """Count due orders by month, and say whether there are more than could be counted."""
        by_month: Counter[str] = Counter()
        ends = self._clock.monotonic() + COUNTING_SECONDS
        async for orders, _ in self._pages(now, options):
            by_month.update(f"{order.expire_at:%Y-%m}" for order in orders if order.expire_at is not None)
            if by_month.total() >= COUNTED_AT_MOST or self._clock.monotonic() > ends:
                return by_month, True
        return by_month, False

    async def dry_run(self, *, sample: int = 20, progress: Callable[[int], None] | None = None) -> DryRun:
        """Sum up what a run would close and give back now; nothing is written and nothing is locked.

        ``progress`` hears how many orders were found so far.
        """
        found = DryRun()
        async with self._store.transaction(write=False) as tx:
            started_at = await tx.now()
        async for orders, waiting in self._pages(started_at):
            would = [order for order in orders if order.order_no not in waiting]
            found.in_quarantine += len(orders) - len(would)
            found.orders += len(would)
            found.by_day.update(_day(order) for order in would)
            found.by_category.update(order.category or "" for order in would)
            found.sample += would[: max(0, sample - len(found.sample))]
            await self._hold(would, found)
            if progress is not None:
                progress(found.orders)
        await self._count_too_old(started_at, found)
        async with self._store.transaction(write=False) as tx:
            found.without_deadline = await tx.count_without_deadline(limit=UNDATED_AT_MOST)
        return found

    async def _count_too_old(self, now: datetime, found: DryRun) -> None:
        """Count due orders that ``not_before`` keeps from being closed."""
        options = self._options
        if options.not_before is None:
            return
        last = min(options.not_before - timedelta(microseconds=1), now - options.grace - self._margin(options))
        older = replace(options, not_before=None, grace=timedelta(0), margin=timedelta(0))
        by_month, found.too_old_more = await self._count(last, older)
        found.too_old = by_month.total()

    async def _hold(self, orders: Sequence[Order], dry: DryRun) -> None:
        """Add up what orders would give back."""
        async with self._store.transaction(write=False) as tx:
            found = await held_by(tx, self._options.assets, orders)
        dry.blocked |= found.blocked
        for held in found.holds:
            hold = held.hold
            if hold.kind not in self._options.assets:
                dry.blocked.setdefault(held.order_no, f"it holds {hold.kind} {hold.ref}, which no [[assets]] describes")
            dry.units[hold.kind, hold.ref] += hold.quantity


def _day(order: Order) -> str:
    return order.expire_at.date().isoformat() if order.expire_at is not None else "without a readable deadline"
