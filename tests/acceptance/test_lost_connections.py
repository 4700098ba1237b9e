"""Connections that end at any moment, also between COMMIT and its answer: nobody is told that they lost to themselves.

A proxy stands between duetime and the server. Every order here is wanted by one caller only: whatever happens to the
connection, the answer must be that this caller did it, once.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import make_url

from duetime import Closed, Duetime, Extended, Hold, Paid, Placed
from duetime.testing.proxy import TcpProxy
from tests.support.figures import Figures
from tests.support.judge import Books
from tests.support.shop_database import Filling, Section, ShopDatabase, sku
from tests.support.waiting import ExpectedInVainError, eventually, let_pass
from tests.support.worker import Tally

HOUR = timedelta(hours=1)
ORDERS = 40
BACKLOG = 600


@asynccontextmanager
async def proxied(shop: ShopDatabase) -> AsyncIterator[tuple[TcpProxy, str]]:
    """Give a proxy in front of the server, and the URL through it."""
    url = make_url(shop.url)
    assert url.host is not None
    assert url.port is not None
    async with TcpProxy(url.host, url.port) as proxy:
        yield proxy, url.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)


async def place(app: Duetime, order_no: str) -> None:
    outcome = await app.place(order_no, [Hold("stock", sku(0), 2)], amount_minor=1990, currency="CNY")
    assert isinstance(outcome, Placed), outcome


async def pay(app: Duetime, order_no: str) -> None:
    outcome = await app.pay(order_no, payment_id=f"p-{order_no}", amount_minor=1990, currency="CNY")
    assert outcome == Paid(order_no, f"p-{order_no}", repeat=False)


async def close(app: Duetime, order_no: str) -> None:
    outcome = await app.close(order_no, reason="customer")
    assert isinstance(outcome, Closed), outcome


async def extend(app: Duetime, order_no: str) -> None:
    outcome = await app.extend(order_no, datetime.now(UTC) + 2 * HOUR)
    assert isinstance(outcome, Extended), outcome
    assert outcome.extended < 2 * HOUR, "it was counted twice"


Call = Callable[[Duetime, str], Awaitable[None]]
CALLS: dict[str, Call] = {"place": place, "pay": pay, "close": close, "extend": extend}


async def fill(shop: ShopDatabase) -> None:
    """Orders that nobody but their caller touches: their deadlines lie ahead."""
    await shop.add_skus(20)
    for name in CALLS:
        if name != "place":
            await shop.add_orders(Filling(orders=ORDERS, prefix=f"{name}-", late_by=-HOUR))


def done_once(books: Books, name: str, count: int) -> None:
    """Each of these orders has one fact of the caller's own, however often it was tried."""
    word = {"place": "order.placed", "pay": "order.paid", "close": "order.closed", "extend": "order.extended"}[name]
    facts = Counter(fact.order_no for fact in books.facts if fact.type == word and fact.order_no.startswith(f"{name}-"))
    assert facts == Counter([f"{name}-{n}" for n in range(count)])


@pytest.mark.parametrize("name", CALLS)
async def test_whose_commit_was_not_answered_is_told_that_it_was_done(clean_shop: ShopDatabase, name: str) -> None:
    await fill(clean_shop)
    async with proxied(clean_shop) as (proxy, url), clean_shop.duetime(store={"url": url}) as app:
        await CALLS[name](app, f"{name}-0")
        proxy.lose_answer_to(b"COMMIT")
        await CALLS[name](app, f"{name}-1")
        assert proxy.answers_lost == 1
    done_once(await clean_shop.judge(), name, 2)


async def test_closer_whose_commit_was_not_answered_knows_what_it_closed(clean_shop: ShopDatabase) -> None:
    """Two hundred orders in one batch: all of them closed, none *already closed*."""
    await clean_shop.fill(Filling(orders=201, coupons=True))
    numbers = [f"o{n}" for n in range(201)]
    async with proxied(clean_shop) as (proxy, url), clean_shop.duetime(store={"url": url}) as app:
        await app.close_many(numbers[:1], reason="timeout")
        proxy.lose_answer_to(b"COMMIT")
        outcomes = await app.close_many(numbers[1:], reason="timeout")
        assert proxy.answers_lost == 1
        await app.wired.releasing.run_once()
    assert {type(outcome) for outcome in outcomes} == {Closed}
    told = {outcome.order_no: set(outcome.released) for outcome in outcomes if isinstance(outcome, Closed)}
    books = await clean_shop.judge()
    held = {no: {Hold(one.kind, one.ref, one.quantity) for one in books.holds_of(no)} for no in numbers[1:]}
    assert told == held


class Progress:
    """Counts answered calls: connections are cut as often as something gets done, however slow the machine is."""

    def __init__(self) -> None:
        self.answered = 0

    async def some(self, chance: random.Random) -> None:
        enough = self.answered + chance.randint(1, 6)
        with suppress(ExpectedInVainError):
            await eventually("some calls are answered", lambda: self.answered >= enough, seconds_max=2)


async def cut_at_random(proxy: TcpProxy, progress: Progress, chance: random.Random) -> None:
    while True:
        await progress.some(chance)
        await let_pass(chance.uniform(0, 0.05), because="connections end at any moment")
        match chance.randrange(4):
            case 0:
                proxy.cut()
            case 1:
                proxy.cut_after(chance.randrange(1, 4000))
            case 2:
                proxy.lose_answer_to(b"COMMIT")
            case _:
                proxy.refuse()
                proxy.cut()
                await let_pass(chance.uniform(0, 0.1), because="the server is not reached for a moment")
                proxy.accept()


@pytest.mark.parametrize("times", [pytest.param(1, id="once"), pytest.param(20, id="often", marks=pytest.mark.long)])
@pytest.mark.timeout(600)
async def test_cuts_at_random_moments(shop: ShopDatabase, figures: Figures, times: int) -> None:
    await fill(shop)
    await shop.add_orders(Filling(orders=0))
    for n in range(times):
        await one_rough_stretch(shop, figures, n)


async def one_rough_stretch(shop: ShopDatabase, figures: Figures, n: int) -> None:
    seed = random.randrange(2**32)
    backlog = Filling(orders=BACKLOG, first=n * BACKLOG, prefix="late-", coupons=True)
    await shop.add_orders(backlog)
    for name in CALLS:
        if n > 0 and name != "place":
            await shop.add_orders(Filling(orders=ORDERS, first=n * ORDERS, prefix=f"{name}-", late_by=-HOUR))
    tally, progress = Tally(), Progress()
    small: dict[str, Section] = {"closing": {"batch_size": 20}, "sweep": {"interval": "200ms", "page_size": 40}}
    async with (
        proxied(shop) as (proxy, url),
        shop.duetime(tally, store={"url": url, "pool_size": 8}, **small) as app,
        app.wired.service.running(),
    ):
        cutting = asyncio.create_task(cut_at_random(proxy, progress, random.Random(seed)))
        try:
            async with asyncio.TaskGroup() as callers:
                for name in CALLS:
                    callers.create_task(one_after_the_other(app, name, n, progress))
        finally:
            cutting.cancel()
            with suppress(asyncio.CancelledError):
                await cutting
            proxy.accept()
        before = await shop.count("closed")
        await eventually("the same worker goes on", lambda: closed(shop, (n + 1) * BACKLOG), seconds_max=30)
        await eventually("all is given back", lambda: nothing_left(shop), seconds_max=20)
    figures(
        f"seed {seed}; {before} closed while connections ended; {proxy.connections} connections, "
        f"{proxy.answers_lost} answers lost; {dict(tally.outcomes)}"
    )
    books = await shop.judge()
    for name in CALLS:
        done_once(books, name, (n + 1) * ORDERS)
    assert proxy.answers_lost > 0, "nothing was lost: this showed nothing"
    assert tally.outcomes["closed"] == BACKLOG + ORDERS, "somebody was told of a close that was not theirs, or not told"


async def one_after_the_other(app: Duetime, name: str, n: int, progress: Progress) -> None:
    for number in range(n * ORDERS, (n + 1) * ORDERS):
        await CALLS[name](app, f"{name}-{number}")
        progress.answered += 1


async def closed(shop: ShopDatabase, count: int) -> bool:
    query = "SELECT count(*) FROM orders WHERE status = 'closed' AND close_reason = 'timeout'"
    return await shop.number(query) == count


async def nothing_left(shop: ShopDatabase) -> bool:
    return await shop.unfinished() == 0
