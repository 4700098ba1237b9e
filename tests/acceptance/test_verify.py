"""`duetime verify`: each kind of damage by exactly its sentence, and not a word about a shop that is well."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from duetime import Duetime, Hold, Paid, Placed, Placement
from duetime.clock import SystemClock
from duetime.config.database_url import async_url
from duetime.paying import PaymentNotice
from duetime.settings import load_settings
from duetime.verifying.work import LOOK_AGAIN_SECONDS, Verdict
from duetime.wiring import migrator, verifying
from tests.support.command_line import CommandLine
from tests.support.damage import ASSETS, DAMAGES, NAMES, SEATS, names
from tests.support.databases import fresh_name
from tests.support.servers import DatabaseServer, run_apart
from tests.support.shop_database import Filling, ShopDatabase
from tests.support.waiting import eventually

REMOTE = [Hold("points", "p", 7)]
KINDS = ["sqlite", *(pytest.param(kind, marks=pytest.mark.services) for kind in ("postgresql", "mariadb"))]


@dataclass(frozen=True)
class Outcome:
    """What was found when all the damage was done at once, and before."""

    before: Verdict
    after: Verdict
    since: Verdict


@pytest.fixture(scope="module", params=KINDS)
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """All damage at once, on databases of their own: what is found about one says nothing about another."""
    if request.param == "sqlite":
        yield run_apart(_damaged(f"sqlite:///{tmp_path_factory.mktemp('verify')}/shop.db"))
        return
    server: DatabaseServer = request.getfixturevalue(f"{request.param}_server")
    name = fresh_name()
    url = server.create(name)
    try:
        yield run_apart(_damaged(url))
    finally:
        server.drop(name)


def settings_for(url: str) -> Any:  # noqa: ANN401 -- Settings
    return load_settings(
        environ={},
        store={"url": url},
        assets=ASSETS,
        timeouts={"grace": "0s", "category": {"now": "1ms"}},
        sweep={"pause": "0s", "interval": "300ms"},
    )


async def _damaged(url: str) -> Outcome:
    settings = settings_for(url)
    await migrator(settings).run(sample_shop=True)
    await _execute(url, [SEATS])
    async with Duetime(settings) as duetime:
        await _execute(url, [f"INSERT INTO stock (sku_id, available) VALUES ('{name}-sku', 100)" for name in NAMES])
        numbers = [names(name)[state] for name in NAMES for state in ("pending", "paid", "closed")]
        await _execute(url, [f"INSERT INTO coupon (coupon_id) VALUES ('{number}')" for number in numbers])
        await _live(duetime)
        before = await _verdict(duetime)
        damage = [
            one.format(**names(name)) for name, damage in zip(NAMES, DAMAGES, strict=True) for one in damage.statements
        ]
        await _execute(url, damage)
        since = await verifying(duetime.wired, since=datetime.now(UTC), patience=timedelta(0)).run()
        return Outcome(before, await _verdict(duetime), since)


async def _live(duetime: Duetime) -> None:
    """Place all orders, pay a third of them, and let the time of another third run out."""
    placements = [
        Placement(
            names(name)[state],
            [Hold("stock", f"{name}-sku", 2), Hold("coupon", names(name)[state])] + REMOTE * (name == NAMES[0]),
            category="now" if state == "closed" else None,
            amount_minor=1990,
            currency="CNY",
        )
        for name in NAMES
        for state in ("pending", "paid", "closed")
    ]
    assert all(isinstance(one, Placed) for one in await duetime.place_many(placements))
    paid = [names(name)["paid"] for name in NAMES]
    paying = await duetime.pay_many([PaymentNotice(number, number, 1990, "CNY", "") for number in paid])
    assert all(isinstance(one, Paid) for one in paying)
    assert (await duetime.wired.sweep.run_once()).closed == len(NAMES)


async def _verdict(duetime: Duetime) -> Verdict:
    return await verifying(duetime.wired, patience=timedelta(0)).run()


async def _execute(url: str, statements: Sequence[str]) -> None:
    engine = create_async_engine(async_url(url))
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    at = long_ago if engine.dialect.name == "postgresql" else long_ago.strftime("%Y-%m-%d %H:%M:%S.%f")
    async with engine.begin() as connection:
        for statement in statements:
            await connection.execute(text(statement), {"long_ago": at} if ":long_ago" in statement else {})
    await engine.dispose()


def test_a_shop_that_is_well_is_well(outcome: Outcome) -> None:
    assert outcome.before.findings == []
    checked = outcome.before.checked
    assert (checked["orders"], checked["holds"]) == (3 * len(NAMES), 6 * len(NAMES) + 3)
    assert (checked["facts"], checked["payments"]) == (5 * len(NAMES) + 1, len(NAMES))


@pytest.mark.parametrize("n", range(len(DAMAGES)), ids=[damage.kind for damage in DAMAGES])
def test_damage_is_found_by_its_sentence_alone(outcome: Outcome, n: int) -> None:
    damage, words = DAMAGES[n], names(NAMES[n])
    about = [finding for finding in outcome.after.findings if words["name"] in finding.about]
    assert [(one.kind, one.about) for one in about] == [(damage.kind, damage.about.format(**words))], about
    assert damage.found.format(**words) in about[0].found
    assert f"{about[0].about}: {about[0].found}; expected: " in about[0].sentence


def test_nothing_else_is_found(outcome: Outcome) -> None:
    assert len(outcome.after.findings) == len(DAMAGES)


def test_since_looks_at_orders_that_hold_something_and_at_all_assets(outcome: Outcome) -> None:
    found = {finding.kind for finding in outcome.since.findings}
    assert {"pending-order-gave-back", "hold-without-order", "unfinished-for-long", "counter-differs"} <= found
    assert {"fact-and-holds-differ", "closed-early"} & found == set()
    assert outcome.since.checked["orders"] < outcome.after.checked["orders"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_busy_shop_is_well_at_every_moment(kind: str, request: pytest.FixtureRequest) -> None:
    """Verified again and again while orders are placed, paid and closed, without any patience."""
    url = request.getfixturevalue("fresh_database")(kind)
    run_apart(_busy(url))


async def _busy(url: str) -> None:
    settings = settings_for(url)
    await migrator(settings).run(sample_shop=True)
    await _execute(url, [SEATS])
    await _execute(url, [f"INSERT INTO stock (sku_id, available) VALUES ('sku-{n}', 1000)" for n in range(3)])
    async with Duetime(settings) as duetime, Duetime(settings) as judge, duetime.running():
        customers = asyncio.gather(*(_customer(duetime, n) for n in range(4)))
        rounds = 0
        while not customers.done() or rounds == 0:
            verdict = await _verdict(judge)
            assert [finding.sentence for finding in verdict.findings] == []
            rounds += 1
        await customers

        async def settled() -> bool:
            return not await duetime.due()

        await eventually("all that is due is closed", settled, seconds_max=20)
        await duetime.place("own", [Hold("stock", "sku-0", 1)])
        paid = ["UPDATE orders SET status = 'paid' WHERE order_no = 'own'", "UPDATE stock SET held = held - 1"]
        await _execute(url, [paid[0], f"{paid[1]} WHERE sku_id = 'sku-0'"])
        verdict = await verifying(judge.wired).run()
        assert verdict.findings == [], "the sweep follows what the shop pays by itself, and verify waits for it"
    async with Duetime(settings) as judge:
        verdict = await verifying(judge.wired).run()
        assert verdict.findings == []
        assert verdict.checked["orders"] == 4 * 15 + 1


async def _customer(duetime: Duetime, who: int) -> None:
    for n in range(15):
        number = f"c{who}-{n}"
        holds = [Hold("stock", f"sku-{(n + k) % 3}", 1 + k) for k in range(2)]
        assert isinstance(await duetime.place(number, holds, category="now" if n % 3 else None), Placed)
        if n % 3 == 0:
            assert isinstance(await duetime.pay(number, payment_id=number, amount_minor=1, currency="CNY"), Paid)
        elif n % 3 == 1:
            await duetime.close(number, reason="customer")


async def test_nothing_is_waited_for_and_nothing_can_be_written(shop: ShopDatabase) -> None:
    """Somebody of the shop holds every row there is, and has changed it without a commit."""
    await shop.fill(Filling(orders=20, skus=5, late_by=-timedelta(hours=1)))
    async with shop.engine.connect() as connection, shop.duetime() as duetime:
        for statement in ("UPDATE orders SET status = 'paid'", "UPDATE stock SET held = 0", "DELETE FROM duetime_hold"):
            await shop.run(connection, statement)
        async with asyncio.timeout(10):
            assert (await _verdict(duetime)).findings == []
        await connection.rollback()
        async with duetime.wired.store.snapshot() as (reading, _, _):
            with pytest.raises(DBAPIError):
                await reading.execute(text("UPDATE stock SET held = 0"))


@pytest.mark.services
def test_where_capitals_do_not_count_names_may_be_written_in_two_ways(mariadb_url: str) -> None:
    """The same holds are of one SKU on MariaDB's usual collation, and of one that is not there on PostgreSQL."""
    verdict = run_apart(_in_capitals(mariadb_url))
    assert [finding.sentence for finding in verdict.findings] == []


@pytest.mark.services
def test_where_capitals_count_they_count(postgresql_url: str) -> None:
    verdict = run_apart(_in_capitals(postgresql_url))
    assert [(finding.kind, finding.about) for finding in verdict.findings] == [
        ("counter-differs", "stock sku-1"),
        ("asset-gone", "stock SKU-1"),
    ]


async def _in_capitals(url: str) -> Verdict:
    settings = settings_for(url)
    await migrator(settings).run(sample_shop=True)
    await _execute(url, [SEATS])
    hold = "INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES ('%s', 'stock', '%s', 2)"
    order = "INSERT INTO orders (order_no, expire_at) VALUES ('%s', '2090-01-01 00:00:00')"
    await _execute(
        url,
        [
            "INSERT INTO stock (sku_id, available, held) VALUES ('sku-1', 6, 4)",
            *(order % number for number in ("a", "b")),
            hold % ("a", "sku-1"),
            hold % ("b", "SKU-1"),
        ],
    )
    async with Duetime(settings) as duetime:
        return await _verdict(duetime)


async def test_what_becomes_right_in_time_is_not_told(sqlite_url: str) -> None:
    """The shop pays by itself, and somebody follows a little later."""
    settings = settings_for(sqlite_url)
    await migrator(settings).run(sample_shop=True)
    await _execute(sqlite_url, [SEATS])
    async with Duetime(settings) as duetime:
        await _execute(sqlite_url, ["INSERT INTO stock (sku_id, available) VALUES ('sku-1', 9)"])
        await duetime.place("so-1", [Hold("stock", "sku-1", 2)])
        await _execute(sqlite_url, ["UPDATE orders SET status = 'paid'"])
        clock = _Following(sqlite_url)
        found = (await verifying(duetime.wired, patience=timedelta(0), clock=clock).run()).findings
        assert [finding.kind for finding in found] == ["paid-order-holds"]
        clock.follow = True
        assert (await verifying(duetime.wired, patience=timedelta(seconds=9), clock=clock).run()).findings == []
        assert clock.waited == LOOK_AGAIN_SECONDS, "it was looked at again before the patience was over"


class _Following(SystemClock):
    """Whoever waits on it finds afterwards that the holds were followed."""

    def __init__(self, url: str) -> None:
        self.url, self.follow, self.waited = url, False, 0.0

    async def sleep(self, seconds: float) -> None:
        if self.follow:
            self.waited += seconds
            follow = ["UPDATE duetime_hold SET state = 'consumed'", "UPDATE stock SET held = 0"]
            await _execute(self.url, follow)


def test_the_command_tells_each_finding_and_ends_with_one(duetime: CommandLine) -> None:
    duetime.add_orders(3, late=-timedelta(hours=1))
    said = duetime("verify")
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "compared 3 orders, 0 facts, 0 payments, 3 holds, 1 stock, 0 coupon, 0 failures, 0 deliveries: "
        "everything adds up\n"
    )
    duetime.shop(lambda hand: hand.set_status("o-00001", "paid"))
    said = duetime("verify", "--patience", "0s")
    assert said.code == 1
    first, last = said.out.splitlines()
    assert first == (
        "order o-00001: it is paid, yet it still holds 1 of stock sku-1 (held); expected: what a paid order held is "
        "used up; the sweep follows the shop's own payments: see that `duetime run` is at work"
    )
    assert last.endswith(": 1 thing does not add up")
    told = duetime("verify", "--patience", "0s", "--json")
    assert told.code == 1
    (finding,) = told.data["findings"]
    assert (finding["kind"], finding["order_no"], finding["sentence"]) == ("paid-order-holds", "o-00001", first)
    assert told.data["checked"]["orders"] == 3
