"""Passes of observe mode and its report, on the model: time is an argument."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from duetime.errors import StoreUnavailable
from duetime.observation import FOLLOWED_FOR, Seen, Verdict
from duetime.observer import Watched
from duetime.observing import Observing, ObservingOptions
from duetime.order import State
from duetime.reporting import COUNTING_SECONDS, ObserveReport, Reporting, ReportingOptions
from duetime.stores.memory import MemoryStore
from duetime.testing import ManualClock
from duetime.testing.faults import Fault, FaultsAt, FaultyStore
from duetime.testing.memory_hand import MemoryShopHand
from duetime.testing.shop_hand import ShopRow

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
GRACE = timedelta(seconds=5)


class Hasty(ManualClock):
    """A clock on which every look takes half of the time for counting."""

    def monotonic(self) -> float:
        self._looked = getattr(self, "_looked", 0.0) + COUNTING_SECONDS / 2
        return self._looked


class Beside:
    """A shop with a closer of its own, and observe mode beside it."""

    def __init__(self, **options: object) -> None:
        self.clock = ManualClock(NOW)
        self.store = MemoryStore(clock=self.clock)
        self.hand = MemoryShopHand(self.store)
        some: dict[str, object] = {"page_size": 2, "pause_seconds": 0.0, **options}
        self.observing = Observing(self.store, ObservingOptions(GRACE, 5 * MINUTE, **some), clock=self.clock)  # type: ignore[arg-type]  # its fields

    async def orders(self, *deadlines: timedelta, prefix: str = "so") -> None:
        rows = [ShopRow(f"{prefix}-{n}", self.clock.now() + after) for n, after in enumerate(deadlines)]
        await self.hand.add_orders(rows)

    async def after(self, duration: timedelta) -> Watched:
        await self.clock.advance(duration)
        return await self.observing.run_once()

    async def close(self, order_no: str) -> None:
        async with self.store.by_hand() as data:
            order = data.orders[order_no]
            data.orders[order_no] = replace(order, state=State.CLOSED, status="closed", closed_at=self.clock.now())

    async def report(self, **options: datetime) -> ObserveReport:
        return await Reporting(self.store, ReportingOptions(GRACE, MINUTE, page_size=2, **options)).report()

    @property
    def known(self) -> dict[str, Seen]:
        return {order_no: one.seen for order_no, one in sorted(self.store.data.observed.items())}


async def test_an_order_is_begun_with_shortly_before_its_deadline() -> None:
    shop = Beside()
    await shop.orders(5 * MINUTE, 5 * MINUTE + GRACE)
    assert await shop.observing.run_once() == Watched(begun=1)
    assert await shop.after(GRACE) == Watched(begun=1, followed=1)
    assert await shop.after(5 * MINUTE) == Watched(followed=2, would_close=1)
    assert await shop.after(GRACE) == Watched(followed=2, would_close=1)


async def test_what_became_of_each_is_summed_up() -> None:
    shop = Beside()
    await shop.orders(*[MINUTE] * 8)
    await shop.observing.run_once()
    await shop.close("so-0")
    await shop.hand.set_status("so-1", "paid")
    await shop.hand.delete_order("so-2")
    await shop.after(MINUTE)
    await shop.close("so-3")
    await shop.close("so-1")
    await shop.after(GRACE)
    await shop.hand.set_status("so-4", "paid")
    await shop.after(MINUTE)
    for number in ("so-5", "so-6"):
        await shop.close(number)
    found = await shop.report()
    assert found.counts == {
        Verdict.EARLY: 1, Verdict.CLOSED_PAID: 1, Verdict.DELETED: 1, Verdict.IN_TIME: 1,
        Verdict.PAID_LATE: 1, Verdict.LATE: 2, Verdict.MISSED: 1,
    }  # fmt: skip
    assert (found.observed, found.due, found.unsure) == (8, 5, 0)
    assert found.late is not None
    assert found.closed is not None
    assert (found.late.p50, found.late.longest) == (MINUTE + GRACE, MINUTE + GRACE)
    assert (found.closed.p50, found.closed.p95) == (MINUTE + GRACE, MINUTE + GRACE)
    assert [one.order_no for one in found.examples[Verdict.LATE]] == ["so-5", "so-6"]
    assert found.began_at == NOW


async def test_half_and_nearly_all_are_counted_from_the_quick_end() -> None:
    shop = Beside()
    await shop.orders(*[MINUTE] * 20)
    await shop.observing.run_once()
    await shop.clock.advance(MINUTE)
    for n in range(20):
        await shop.clock.advance(timedelta(seconds=1))
        await shop.close(f"so-{n}")
    spread = (await shop.report()).closed
    assert spread is not None
    assert [one.total_seconds() for one in (spread.p50, spread.p95, spread.longest)] == [10, 19, 20]


async def test_the_report_looks_once_more_and_writes_nothing() -> None:
    shop = Beside()
    await shop.orders(MINUTE)
    await shop.observing.run_once()
    await shop.clock.advance(MINUTE)
    await shop.close("so-0")
    assert (await shop.report()).counts == {Verdict.IN_TIME: 1}
    assert shop.known == {"so-0": Seen.PENDING}


async def test_years_of_forgotten_orders_stay_out_and_are_counted() -> None:
    shop = Beside()
    await shop.orders(*[-year * 365 * DAY for year in range(1, 6)], prefix="old")
    await shop.orders(-6 * DAY, MINUTE)
    for _ in range(3):
        await shop.observing.run_once()
    assert shop.known == {"so-0": Seen.PENDING, "so-1": Seen.PENDING}
    found = await shop.report()
    assert (found.too_old, found.too_old_more) == (5, False)
    assert found.counts == {Verdict.MISSED: 1, Verdict.OPEN: 1}


async def test_a_missed_order_that_was_observed_is_not_counted_as_too_old() -> None:
    shop = Beside()
    await shop.orders(MINUTE)
    await shop.observing.run_once()
    await shop.after(FOLLOWED_FOR + 2 * MINUTE)
    found = await shop.report()
    assert (found.too_old, found.counts) == (0, {Verdict.MISSED: 1})
    assert await shop.observing.run_once() == Watched()


async def test_not_before_is_the_oldest_deadline() -> None:
    shop = Beside(not_before=NOW - MINUTE)
    await shop.orders(-2 * MINUTE, -MINUTE)
    await shop.observing.run_once()
    assert list(shop.known) == ["so-1"]
    assert (await shop.report(not_before=NOW - MINUTE)).too_old == 1


async def test_what_is_older_is_read_a_bounded_number_of_pages_at_a_time() -> None:
    shop = Beside(pages_at_once=2)
    await shop.orders(*[-DAY] * 9)
    met = [await shop.observing.run_once() for _ in range(5)]
    assert [one.begun for one in met] == [4, 4, 1, 0, 0]
    # Four are known after the first pass, and all nine after the third: a walk then takes three passes.
    assert [one.followed for one in met] == [0, 4, 4, 1, 4]


async def test_what_is_near_its_deadline_comes_on_every_pass_however_much_is_older() -> None:
    shop = Beside(pages_at_once=1)
    await shop.orders(*[-DAY] * 9)
    await shop.orders(*[MINUTE] * 5, prefix="new")
    assert (await shop.observing.run_once()).begun == 2 + 5
    assert (await shop.observing.run_once()).followed == 2 + 5


async def test_closed_and_pending_again_it_is_begun_with_anew() -> None:
    shop = Beside()
    await shop.orders(MINUTE)
    await shop.observing.run_once()
    await shop.close("so-0")
    await shop.after(GRACE)
    assert shop.known == {"so-0": Seen.CLOSED}
    await shop.hand.set_status("so-0", "pending")
    assert (await shop.after(GRACE)).begun == 1
    assert shop.known == {"so-0": Seen.PENDING}


async def test_in_a_state_unknown_and_pending_again_it_is_begun_with_anew() -> None:
    shop = Beside()
    await shop.orders(MINUTE)
    await shop.observing.run_once()
    await shop.hand.set_status("so-0", "frozen")
    await shop.after(2 * DAY)
    assert shop.known == {"so-0": Seen.OTHER}
    await shop.hand.set_status("so-0", "pending")
    assert (await shop.after(GRACE)).begun == 1
    assert shop.known == {"so-0": Seen.PENDING}


async def test_a_pass_that_was_cut_short_is_gone_on_with_where_it_was() -> None:
    shop = Beside(pages_at_once=4)
    await shop.orders(*[-DAY] * 9)
    whole = shop.store
    # Of each walk the first page is what is recent: there is nothing.
    shop.observing._store = FaultyStore(whole, FaultsAt({"due_page": [None, None, None, Fault()]}))
    with pytest.raises(StoreUnavailable):
        await shop.observing.run_once()
    assert len(shop.known) == 4
    shop.observing._store = whole
    assert (await shop.observing.run_once()).begun == 5
    cut = FaultyStore(whole, FaultsAt({"observed_page": [None, None, None, Fault()]}))
    shop.observing._store = cut
    with pytest.raises(StoreUnavailable):
        await shop.observing.run_once()
    shop.observing._store = whole
    assert (await shop.observing.run_once()).followed == 9 - 4


async def test_what_is_old_is_counted_for_a_limited_time() -> None:
    shop = Beside()
    await shop.orders(*[-365 * DAY] * 7, prefix="old")
    reporting = Reporting(shop.store, ReportingOptions(GRACE, DAY, page_size=2), clock=Hasty())
    found = await reporting.report()
    assert (found.too_old, found.too_old_more) == (2, True)


@pytest.mark.parametrize("since, orders", [(NOW, 2), (NOW + MINUTE, 1), (NOW + DAY, 0)])
async def test_since_chooses_by_deadline(since: datetime, orders: int) -> None:
    shop = Beside()
    await shop.orders(timedelta(0), MINUTE)
    await shop.observing.run_once()
    assert (await shop.report(since=since)).observed == orders


async def test_no_page_is_begun_once_it_is_to_stop() -> None:
    shop = Beside()
    await shop.orders(MINUTE)
    shop.observing.stopping = True
    assert await shop.observing.run_once() == Watched()
