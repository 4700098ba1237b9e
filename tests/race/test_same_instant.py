"""Pay, close, cancel and extend at the same instant: exactly one wins, and each loser is told who.

Every contender has a ``Duetime`` of its own, hence its own connections. The deadlines lie around the instant of the
race, so that timeouts are early, in time and late.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from duetime import Duetime
from duetime.order import (
    AlreadyClosed,
    AlreadyPaid,
    Busy,
    Closed,
    Extended,
    ExtendOutcome,
    NeedsReview,
    NotYetDue,
    Outcome,
    Paid,
    PayOutcome,
)
from tests.support.figures import Figures
from tests.support.judge import Books, OrderRow
from tests.support.shop_database import Filling, ShopDatabase
from tests.support.waiting import eventually, let_pass

TOGETHER = 4
LATEST_START_SECONDS = 0.004
EXTENSION = timedelta(minutes=30)
TRIES = 200

AnyOutcome = Outcome | PayOutcome | ExtendOutcome
Contender = Callable[[str], Awaitable[AnyOutcome]]


@dataclass(frozen=True)
class Round:
    """One order, and what each contender was told."""

    order_no: str
    told: dict[str, AnyOutcome]


def contenders(apps: list[Duetime]) -> dict[str, Contender]:
    payer, customer, staff, worker, extender = apps

    async def pay(order_no: str) -> AnyOutcome:
        return await payer.pay(order_no, payment_id=f"p-{order_no}", amount_minor=1990, currency="CNY")

    async def time_out(order_no: str) -> AnyOutcome:
        """Come back shortly from a locked row, and at its time to an order that is due soon, as a worker does."""
        outcome = await worker.close(order_no, reason="timeout")
        for _ in range(TRIES):
            if isinstance(outcome, NotYetDue) and outcome.due_at is not None and outcome.due_at < soon():
                await let_pass(0.002, because="the order falls due in the middle of the race")
            elif isinstance(outcome, Busy):
                await let_pass(0.001, because="somebody else has the row")
            else:
                break
            outcome = await worker.close(order_no, reason="timeout")
        return outcome

    return {
        "pay": pay,
        "customer": lambda order_no: customer.close(order_no, reason="customer"),
        "staff": lambda order_no: staff.close(order_no, reason="staff", source="alice"),
        "timeout": time_out,
        "extend": lambda order_no: extender.extend(order_no, datetime.now(UTC) + EXTENSION),
    }


def soon() -> datetime:
    return datetime.now(UTC) + EXTENSION / 2


async def race(order_no: str, racing: dict[str, Contender], chance: random.Random) -> Round:
    async def start(name: str, after: float) -> tuple[str, AnyOutcome]:
        await let_pass(after, because="contenders start within some milliseconds of each other")
        return name, await racing[name](order_no)

    names = chance.sample(sorted(racing), len(racing))
    starts = [start(name, chance.choice([0, chance.uniform(0, LATEST_START_SECONDS)])) for name in names]
    return Round(order_no, dict(await asyncio.gather(*starts)))


def winner(order: OrderRow) -> str:
    assert order.status in {"paid", "closed"}, f"nobody won {order}"
    return "pay" if order.status == "paid" else str(order.reason)


def check(one: Round, order: OrderRow) -> None:
    """The winner knows that it won; everybody else was told who did."""
    who = winner(order)
    for name, outcome in one.told.items():
        if name == who:
            assert isinstance(outcome, Paid if who == "pay" else Closed), (one, order)
        elif isinstance(outcome, Extended | NotYetDue) and name in {"extend", "timeout"}:
            # Moved the deadline, or was told to come back, while the race was still open.
            continue
        else:
            told_who_won(outcome, order)
    if isinstance(paid := one.told["pay"], Paid):
        assert not paid.repeat, "the only payment of this order is told that it is a repetition"


def told_who_won(outcome: AnyOutcome, order: OrderRow) -> None:
    found = outcome.found if isinstance(outcome, NeedsReview) else outcome
    if order.status == "paid":
        assert found == AlreadyPaid(order.order_no, "paid"), (outcome, order)
    else:
        assert found == AlreadyClosed(order.order_no, order.reason, order.source, order.closed_at), (outcome, order)


def extended_once(rounds: list[Round], books: Books) -> None:
    """An extension that was answered is a fact, and one that was refused is none."""
    facts = Counter(fact.order_no for fact in books.facts if fact.type == "order.extended")
    answered = Counter(one.order_no for one in rounds if isinstance(one.told["extend"], Extended))
    assert facts == answered


@pytest.mark.parametrize(
    "rounds", [pytest.param(1000, id="1000"), pytest.param(20_000, id="20000", marks=pytest.mark.long)]
)
@pytest.mark.timeout(900)
async def test_exactly_one_wins_and_each_loser_is_told_who(shop: ShopDatabase, figures: Figures, rounds: int) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    figures(f"seed {seed}")
    await shop.fill(Filling(orders=0))
    async with AsyncExitStack() as stack:
        apps = [await stack.enter_async_context(shop.duetime()) for _ in range(5)]
        racing = contenders(apps)
        seen: list[Round] = []
        for first in range(0, rounds, TOGETHER):
            await shop.add_orders(Filling(orders=TOGETHER, first=first, late_by=-EXTENSION, coupons=True))
            numbers = [f"o{n}" for n in range(first, first + TOGETHER)]
            # Due some milliseconds ago, now, or in some milliseconds.
            due = datetime.now(UTC) + timedelta(milliseconds=chance.uniform(-10, 40))
            await shop.execute("UPDATE orders SET expire_at = :due WHERE status = 'pending'", due=due)
            seen += await asyncio.gather(*(race(order_no, racing, chance) for order_no in numbers))
        async with apps[0].wired.service.running():
            await eventually("what was left to the releaser is finished", shop.settled)
    books = await shop.judge()
    for one in seen:
        check(one, books.orders[one.order_no])
    extended_once(seen, books)
    won = Counter(winner(books.orders[one.order_no]) for one in seen)
    told = Counter(f"{name}: {type(outcome).__name__}" for one in seen for name, outcome in one.told.items())
    figures(f"winners {dict(won)}; outcomes {dict(sorted(told.items()))}")
    assert set(won) == {"pay", "customer", "staff", "timeout"}, "a contender that never wins was not in the race"
