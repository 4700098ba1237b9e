"""Connections that a real server loses at the worst moment, and a duetime that goes on by itself.

The proxy stands between the store and the server; the shop's hand looks at the tables directly.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from duetime.closing import CloseRequest, Closing, ClosingOptions
from duetime.errors import StoreUnavailable
from duetime.hold import HoldState
from duetime.order import Closed, Paid
from duetime.paying import Paying, PaymentNotice
from duetime.stores.sql.reading import SqlBooks
from duetime.stores.sql.store import SqlStore
from duetime.testing.proxy import TcpProxy
from duetime.testing.shop_hand import ShopRow
from duetime.testing.suites import StoreBench, suite_assets
from duetime.testing.suites.bench import MINUTE, held, some_fact
from duetime.verifying.orders import Terms
from duetime.verifying.work import Verifying, VerifyOptions
from tests.support.sql_bench import cleared, filled_database, sql_bench
from tests.support.waiting import let_pass

ASSETS = {asset.kind: asset for asset in suite_assets()}
BATCH = 20


@dataclass(frozen=True)
class Bench:
    store: StoreBench
    proxy: TcpProxy
    closing: Closing


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with filled_database(request.getfixturevalue(f"{request.param}_server")) as url:
        yield url


@asynccontextmanager
async def through_proxy(url: str) -> AsyncIterator[Bench]:
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    async with TcpProxy(address.hostname, address.port) as proxy:
        user = address.netloc.rpartition("@")[0]
        detour = address._replace(netloc=f"{user}@127.0.0.1:{proxy.port}").geturl()
        async with sql_bench(url, store_url=detour) as bench:
            await cleared(bench)
            closing = Closing(bench.store, ClosingOptions(timedelta(0), ASSETS, patience_seconds=20))
            yield Bench(bench, proxy, closing)


@pytest.fixture
async def bench(url: str) -> AsyncIterator[Bench]:
    async with through_proxy(url) as bench:
        await bench.store.stock("sku-1", available=0, held=BATCH)
        now = await bench.store.now()
        numbers = [f"so-{n}" for n in range(BATCH)]
        await bench.store.hand.add_orders([ShopRow(number, now - MINUTE, amount_minor=5) for number in numbers])
        await bench.store.hand.add_holds([held(number) for number in numbers])
        yield bench


def requests() -> list[CloseRequest]:
    return [CloseRequest(f"so-{n}", source="proxy") for n in range(BATCH)]


async def assert_closed_once(bench: Bench) -> None:
    hand = bench.store.hand
    assert {row.status for row in (await hand.orders()).values()} == {"closed"}
    assert sorted(fact.order_no for fact in await hand.facts()) == sorted(f"so-{n}" for n in range(BATCH))
    assert {row.state for row in await hand.holds()} == {HoldState.RELEASED}
    row = (await hand.stock())["sku-1"]
    assert (row.available, row.held) == (BATCH, 0)


async def test_whoever_closed_is_told_so_though_the_commits_answer_was_lost(bench: Bench) -> None:
    bench.proxy.lose_answer_to(b"COMMIT")
    outcomes = await bench.closing.close(requests())
    assert bench.proxy.answers_lost == 1
    assert {type(outcome) for outcome in outcomes} == {Closed}
    await assert_closed_once(bench)


async def test_whoever_paid_is_told_so_though_the_commits_answer_was_lost(bench: Bench) -> None:
    paying = Paying(bench.store.store, ASSETS, bench.closing)
    bench.proxy.lose_answer_to(b"COMMIT")
    (outcome,) = await paying.pay([PaymentNotice("so-1", "p-1", 5, "CNY")])
    assert bench.proxy.answers_lost == 1
    assert outcome == Paid("so-1", "p-1", repeat=False)
    assert [fact.type for fact in await bench.store.hand.facts()] == ["order.paid"]


@pytest.mark.parametrize("words", [b"UPDATE", b"INSERT", b"SELECT"])
async def test_a_connection_lost_inside_the_transaction_is_tried_again(bench: Bench, words: bytes) -> None:
    await bench.store.now()
    bench.proxy.lose_answer_to(words)
    outcomes = await bench.closing.close(requests())
    assert bench.proxy.answers_lost == 1
    assert {type(outcome) for outcome in outcomes} == {Closed}
    await assert_closed_once(bench)


async def test_connections_that_died_in_the_pool_are_noticed(bench: Bench) -> None:
    await bench.store.now()
    bench.proxy.cut()
    outcomes = await bench.closing.close(requests())
    assert {type(outcome) for outcome in outcomes} == {Closed}
    await assert_closed_once(bench)


async def test_a_server_that_refuses_for_a_while_is_waited_for(bench: Bench) -> None:
    bench.proxy.refuse()
    bench.proxy.cut()
    closing = asyncio.ensure_future(bench.closing.close(requests()))
    await let_pass(0.5, because="the server stays away for longer than one try takes")
    assert not closing.done()
    bench.proxy.accept()
    assert {type(outcome) for outcome in await closing} == {Closed}
    await assert_closed_once(bench)


@pytest.mark.parametrize("count", [1, 40, 400, 4000])
async def test_a_statement_cut_in_the_middle_leaves_nothing(bench: Bench, count: int) -> None:
    await bench.store.now()
    bench.proxy.cut_after(count)
    outcomes = await bench.closing.close(requests())
    assert {type(outcome) for outcome in outcomes} == {Closed}
    await assert_closed_once(bench)


async def test_a_lost_connection_is_the_store_being_unavailable(bench: Bench) -> None:
    before = await bench.store.hand.facts()
    with pytest.raises(StoreUnavailable):
        await cut_inside(bench)
    assert await bench.store.hand.facts() == before


async def cut_inside(bench: Bench) -> None:
    async with bench.store.store.transaction() as tx:
        await tx.add_facts([some_fact()], await tx.now())
        bench.proxy.cut()
        await tx.find_orders(["so-1"])


@pytest.mark.parametrize("cut_at", ["orders", "holds"])
async def test_verify_reads_again_what_was_cut(bench: Bench, cut_at: str) -> None:
    """A cut between two pages, and one within the snapshot of holds and assets."""
    options = VerifyOptions(Terms(timedelta(0), frozenset(ASSETS)), list(ASSETS.values()), page_size=3)
    store = bench.store.store
    assert isinstance(store, SqlStore)
    cuts: list[int] = []

    def cut(checked: Counter[str]) -> None:
        if checked[cut_at] > 0 and not cuts:
            cuts.append(checked[cut_at])
            bench.proxy.cut()

    verdict = await Verifying(SqlBooks(store), options).run(cut)
    assert cuts == [3]
    assert (verdict.findings, verdict.checked["orders"], verdict.checked["holds"]) == ([], BATCH, BATCH)
