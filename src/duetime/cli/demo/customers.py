"""The demo's customers: they place, pay, cancel and forget orders, and remember what they were told."""

import asyncio
import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Final

from duetime.app import Duetime
from duetime.cli.demo.plan import CURRENCY, Visit, Wish
from duetime.clock import Clock
from duetime.order import (
    AlreadyClosed,
    AlreadyPaid,
    Busy,
    Closed,
    Extended,
    NeedsReview,
    OutOfStock,
    Paid,
    Placed,
    Reason,
    outcome_word,
)
from duetime.paying import PaymentNotice
from duetime.placing import Placement

TICK_SECONDS: Final = 0.05
LINES: Final = 8
AT_ONCE: Final = 200


@dataclass(slots=True)
class Told:
    """What the shop told its customers."""

    placed: int = 0
    turned_away: int = 0
    paid: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    extended: set[str] = field(default_factory=set)
    too_late: Counter[str] = field(default_factory=Counter)
    notices: int = 0
    last_deadline: datetime | None = None
    lines: list[tuple[str, str]] = field(default_factory=list)

    def line(self, kind: str, words: str) -> None:
        """Keep the latest lines for the screen."""
        self.lines.append((kind, words))
        del self.lines[:-LINES]

    def deadline(self, at: datetime) -> None:
        """Keep the latest deadline that anybody was told."""
        self.last_deadline = at if self.last_deadline is None else max(at, self.last_deadline)


class Customers:
    """Plays a list of visits against a shop."""

    def __init__(
        self,
        duetime: Duetime,
        visits: Iterator[Visit],
        told: Told,
        *,
        seconds: tuple[float, float, float],
        clock: Clock,
    ) -> None:
        """``seconds``: the time to pay, the grace that nobody tells them about, and when the door is shut at last."""
        self._duetime = duetime
        self._visits = visits
        self.told = told
        self._timeout, self._grace, self._open_seconds = seconds
        self._clock = clock
        self._number = count()
        self._later: list[tuple[float, int, Visit]] = []

    async def play(self, stop: asyncio.Event) -> None:
        """Let everybody come and act; ``stop`` shuts the shop's door, and who is inside may finish."""
        began = self._clock.monotonic()
        coming = next(self._visits, None)
        while coming is not None or self._later:
            now = self._clock.monotonic() - began
            if stop.is_set() or now > self._open_seconds:
                coming = None
            batch: list[Visit] = []
            while coming is not None and coming.at <= now and len(batch) < AT_ONCE:
                batch.append(coming)
                coming = next(self._visits, None)
            acting: list[Visit] = []
            while self._later and self._later[0][0] <= now and len(acting) < AT_ONCE:
                acting.append(heapq.heappop(self._later)[2])
            await asyncio.gather(self._place(batch, now), self._act(acting))
            spent = self._clock.monotonic() - began - now
            await self._clock.sleep(TICK_SECONDS - spent)

    async def _place(self, batch: Sequence[Visit], now: float) -> None:
        if not batch:
            return
        more = {"channel": "demo"}
        outcomes = await self._duetime.place_many(
            [
                Placement(v.order_no, v.holds, amount_minor=v.amount_minor, currency=CURRENCY, columns=more)
                for v in batch
            ]
        )
        for visit, outcome in zip(batch, outcomes, strict=True):
            match outcome:
                case Placed():
                    self.told.placed += 1
                    self.told.deadline(outcome.expire_at)
                    held = ", ".join(f"{hold.quantity} {hold.ref}" for hold in visit.holds)
                    self.told.line("placed", f"{visit.order_no}  {held}")
                    self._remember(visit, now)
                case OutOfStock():
                    self.told.turned_away += 1
                    self.told.line("out of stock", f"{visit.order_no}  wanted {outcome.wanted} {outcome.ref}")
                case _:
                    raise AssertionError(f"{visit.order_no}: {outcome_word(outcome)}")

    def _remember(self, visit: Visit, now: float) -> None:
        if visit.wish is Wish.FORGET:
            return
        whole = self._timeout + (self._grace if visit.wish is Wish.PAY_LATE else 0.0)
        heapq.heappush(self._later, (now + whole * visit.share, next(self._number), visit))

    def _again(self, visit: Visit, wish: Wish) -> None:
        """Let a customer who was told to try again do so at the next tick."""
        heapq.heappush(self._later, (0.0, next(self._number), replace(visit, wish=wish)))

    async def _act(self, acting: Sequence[Visit]) -> None:
        paying = [visit for visit in acting if visit.wish in {Wish.PAY, Wish.PAY_LATE, Wish.RACE}]
        cancelling = [visit for visit in acting if visit.wish in {Wish.CANCEL, Wish.RACE}]
        extending = [visit for visit in acting if visit.wish is Wish.EXTEND]
        work: list[Awaitable[None]] = [self._extend(visit) for visit in extending]
        steps: list[tuple[Callable[[Sequence[Visit]], Awaitable[None]], Sequence[Visit]]] = [
            (self._cancel, cancelling),
            (self._pay, paying),
        ]
        if next(self._number) % 2:  # who asks first wins a race; let it be either
            steps.reverse()
        work += [step(visits) for step, visits in steps if visits]
        await asyncio.gather(*work)

    async def _pay(self, visits: Sequence[Visit]) -> None:
        notices = [
            PaymentNotice(visit.order_no, f"pay-{visit.order_no}", visit.amount_minor, CURRENCY, "demo")
            for visit in visits
        ]
        self.told.notices += len(notices)
        by_number = {visit.order_no: visit for visit in visits}
        for outcome in await self._duetime.pay_many(notices):
            match outcome:
                case Paid():
                    self.told.paid.add(outcome.order_no)
                    self.told.line("paid", outcome.order_no)
                case NeedsReview():
                    self.told.too_late["payments that met a closed order, kept for a person"] += 1
                    self.told.line("too late", f"{outcome.order_no}  {outcome.why}")
                case Busy():
                    self.told.notices -= 1
                    self._again(by_number[outcome.order_no], Wish.PAY)

    async def _cancel(self, visits: Sequence[Visit]) -> None:
        by_number = {visit.order_no: visit for visit in visits}
        for outcome in await self._duetime.close_many(list(by_number), reason=Reason.CUSTOMER):
            match outcome:
                case Closed():
                    self.told.cancelled.add(outcome.order_no)
                    self.told.line("cancelled", outcome.order_no)
                case AlreadyPaid() | AlreadyClosed():
                    self.told.too_late["cancellations that met an order that was paid or closed"] += 1
                case Busy():
                    self._again(by_number[outcome.order_no], Wish.CANCEL)
                case _:
                    raise AssertionError(f"{outcome.order_no}: {outcome_word(outcome)}")

    async def _extend(self, visit: Visit) -> None:
        story = await self._duetime.story(visit.order_no)
        if story is None or not story.payable or story.order.expire_at is None:
            return
        until = story.order.expire_at + timedelta(seconds=self._timeout / 2)
        outcome = await self._duetime.extend(visit.order_no, until)
        if isinstance(outcome, Extended):
            self.told.extended.add(visit.order_no)
            self.told.deadline(outcome.expire_at)
            self.told.line("extended", visit.order_no)
