"""Observing: what duetime would do beside another closer, written into a table of its own and nowhere else.

A pass reads the shop as a sweep does, and remembers each pending order from ``ahead`` before its deadline on. Later
passes look at those orders again: still pending, paid, closed by the other closer, deleted. No row of the shop is
locked, and ``duetime_observed`` is all that is written. What it means is said by ``observation``, summed up by
``reporting``.

What bounds the work: orders that are due for more than ``FOLLOWED_FOR`` are not begun with (years of forgotten orders
stay out of the table) and no longer looked at; what is near its deadline is read in full, what is older a bounded
number of pages per pass, going on where the last pass ended.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from duetime.clock import Clock, SystemClock
from duetime.observation import FOLLOWED_FOR, Look, Observation, Seen, first_look, looked
from duetime.observer import Observers, Watched
from duetime.order import matched
from duetime.store import DueQuery, FullTransaction, ObservedQuery, PageKey, Store

RECENT_AT_LEAST = timedelta(minutes=10)
"""Deadlines at most this old are looked at on every pass."""

FOR_EVER = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ObservingOptions:
    """How to observe. ``ahead``: how long before its deadline an order is begun with; ``grace`` as in closing.

    ``pause_seconds``: between pages. ``pages_at_once``: of what is older, on each pass.
    """

    grace: timedelta
    ahead: timedelta
    not_before: datetime | None = None
    page_size: int = 500
    pause_seconds: float = 0.03
    pages_at_once: int = 20


def observed_since(now: datetime, not_before: datetime | None) -> datetime:
    """Answer the oldest deadline that is begun with."""
    oldest = now - FOLLOWED_FOR
    return oldest if not_before is None else max(oldest, not_before)


class Observing:
    """Looks at the shop's orders, again and again."""

    def __init__(
        self, store: Store, options: ObservingOptions, *, clock: Clock | None = None, observers: Observers | None = None
    ) -> None:
        """Look in ``store``."""
        self._store = store
        self._options = options
        self._clock = clock or SystemClock()
        self._observers = observers or Observers()
        self._older_followed: tuple[datetime, str] | None = None
        self._older_begun: PageKey | None = None
        self.stopping = False
        """Set when no further page is to be begun."""

    async def run_once(self) -> Watched:
        """Look at what is remembered, then begin with what is new; answer what was met.

        Raises:
            StoreError: the store stayed away; what was written until then stays.
        """
        async with self._store.transaction(write=False) as tx:
            now = await tx.now()
        recent = now - max(self._options.ahead, RECENT_AT_LEAST)
        watched = Watched()
        await self._follow_recent(recent, watched)
        await self._follow_older(recent, watched)
        await self._begin_recent(now, recent, watched)
        await self._begin_older(now, recent, watched)
        self._observers.watched(watched)
        return watched

    # Looking again

    async def _follow_recent(self, recent: datetime, watched: Watched) -> None:
        query = ObservedQuery(recent, FOR_EVER, self._options.page_size, followed=True)
        async for page in self._observed_pages(query):
            await self._look_again(page, watched)

    async def _follow_older(self, recent: datetime, watched: Watched) -> None:
        since, after_no = self._older_followed or (datetime(1970, 1, 1, tzinfo=UTC), "")
        query = ObservedQuery(since, recent, self._options.page_size, after_no, followed=True)
        pages = 0
        async for page in self._observed_pages(query):
            await self._look_again(page, watched)
            self._older_followed = page[-1].expire_at, page[-1].order_no
            pages += 1
            if pages == self._options.pages_at_once:
                return
        self._older_followed = None

    async def _observed_pages(self, query: ObservedQuery) -> AsyncIterator[list[Observation]]:
        while not self.stopping:
            async with self._store.transaction(write=False) as tx:
                page = await tx.observed_page(query)
            if page:
                yield page
            if len(page) < query.limit:
                return
            query = replace(query, since=page[-1].expire_at, after_no=page[-1].order_no)
            await self._clock.sleep(self._options.pause_seconds)

    async def _look_again(self, page: Sequence[Observation], watched: Watched) -> None:
        async with self._store.transaction(write=False) as tx:
            after = await look_again(tx, page, self._options.grace)
        changed = [new for old, new in zip(page, after, strict=True) if new != old]
        watched.followed += len(page)
        watched.ended += sum(not one.followed for one in changed)
        watched.would_close += sum(
            new.would_close_at is not None and old.would_close_at is None for old, new in zip(page, after, strict=True)
        )
        await self._write(changed)

    # Beginning

    async def _begin_recent(self, now: datetime, recent: datetime, watched: Watched) -> None:
        since = recent if self._options.not_before is None else max(recent, self._options.not_before)
        query = DueQuery(now + self._options.ahead, self._options.page_size, not_before=since)
        async for _ in self._begun_pages(query, watched):
            pass

    async def _begin_older(self, now: datetime, recent: datetime, watched: Watched) -> None:
        since = observed_since(now, self._options.not_before)
        query = DueQuery(recent, self._options.page_size, self._older_begun, since)
        pages = 0
        async for reached in self._begun_pages(query, watched):
            self._older_begun = reached
            pages += 1
            if pages == self._options.pages_at_once:
                return
        self._older_begun = None

    async def _begun_pages(self, query: DueQuery, watched: Watched) -> AsyncIterator[PageKey]:
        while not self.stopping:
            async with self._store.transaction(write=False) as tx:
                look = Look(await tx.now(), self._options.grace)
                orders = await tx.due_page(query)
                known = {one.order_no: one for one in await tx.find_observed([order.order_no for order in orders])}
            begun = [first_look(order, look) for order in orders if _is_new(known.get(order.order_no))]
            new = [one for one in begun if one is not None]
            watched.begun += len(new)
            watched.would_close += sum(one.would_close_at is not None for one in new)
            await self._write(new)
            if orders:
                last = orders[-1]
                after = PageKey(last.expire_at, last.id, last.page_key)
                yield after
                query = replace(query, after=after)
            if len(orders) < query.limit:
                return
            await self._clock.sleep(self._options.pause_seconds)

    async def _write(self, observations: Sequence[Observation]) -> None:
        if observations:
            async with self._store.transaction() as tx:
                await tx.put_observed(observations)


async def look_again(tx: FullTransaction, page: Sequence[Observation], grace: timedelta) -> list[Observation]:
    """Answer what is remembered after one more look at those that are followed; nothing is written."""
    look = Look(await tx.now(), grace)
    numbers = [one.order_no for one in page if one.followed]
    there = matched(numbers, await tx.find_orders(numbers)) if numbers else {}
    return [looked(one, there.get(one.order_no), look) if one.followed else one for one in page]


def _is_new(known: Observation | None) -> bool:
    """Say whether a pending order is to be begun with: unknown, or one that had ended and is pending again."""
    return known is None or (not known.followed and known.seen is not Seen.PENDING)
