"""`duetime pause | resume | rate`, and closing.closes_per_second: all workers obey, and share what they may."""

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, Said
from tests.support.figures import Figures
from tests.support.shop_database import Filling, ShopDatabase
from tests.support.waiting import eventually, let_pass

RATE = 200
ORDERS = 1600
HOUR = timedelta(hours=1)


@pytest.fixture
def command(shop: ShopDatabase, tmp_path: Path) -> Iterator[CommandLine]:
    config = tmp_path / "duetime.toml"
    closing = {"closes_per_second": RATE, "lease": "2s"}
    config.write_text(shop.config(closing=closing, triggers=[{"type": "database"}], sweep={"interval": "1s"}))
    command = CommandLine(shop.url, tmp_path, {"DUETIME_CONFIG": str(config)})
    with command.running:
        yield command


async def told(command: CommandLine, *words: str) -> Said:
    return await asyncio.to_thread(command, *words)


async def closed_in(shop: ShopDatabase, seconds: float) -> float:
    """Answer how many orders are closed a second."""
    before, began = await shop.count("closed"), time.monotonic()
    await let_pass(seconds, because="a pace is measured over a stretch of time")
    return (await shop.count("closed") - before) / (time.monotonic() - began)


async def test_workers_share_the_pace_and_one_that_dies_leaves_it_to_the_others(
    shop: ShopDatabase, command: CommandLine, figures: Figures
) -> None:
    workers = [command.start("run") for _ in range(2)]
    for worker in workers:
        worker.until("started")
    await eventually("both are known", lambda: _alive(command, 2), seconds_max=10)
    await shop.fill(Filling(orders=ORDERS * 4))
    await eventually("they close", lambda: _closed(shop), seconds_max=10)
    await let_pass(1.5, because="the sweep of each is to have begun")
    both = await closed_in(shop, 4)
    workers.pop().process.kill()
    await eventually("one is left", lambda: _alive(command, 1), seconds_max=10)
    alone = 0.0

    async def alone_at_full_pace() -> bool:
        nonlocal alone
        alone = await closed_in(shop, 2)
        return alone > 0.7 * RATE

    await eventually("the one that is left does it all", alone_at_full_pace, seconds_max=15)
    await told(command, "rate", "unlimited")
    await eventually("all are closed", shop.settled, seconds_max=30)
    assert workers[0].stop() == 0
    assert (await told(command, "rate", "config", "--json")).data["workers"] == []
    await shop.judge()
    figures(f"at most {RATE} a second: two workers close {both:.0f}, one alone {alone:.0f}")
    assert RATE * 0.4 < both < RATE * 1.15
    assert alone < RATE * 1.15


async def _alive(command: CommandLine, count: int) -> bool:
    return len((await told(command, "rate", "config", "--json")).data["workers"]) == count


async def _closed(shop: ShopDatabase) -> bool:
    return await shop.count("closed") > RATE / 10


async def test_a_pause_is_obeyed_within_a_second_and_customers_are_served(
    shop: ShopDatabase, command: CommandLine
) -> None:
    worker = command.start("run")
    worker.until("started")
    await shop.fill(Filling(orders=ORDERS))
    await eventually("it closes", lambda: _closed(shop), seconds_max=10)
    said = await told(command, "pause", "--by", "mia")
    assert (said.code, said.out) == (0, "closing is paused by mia; 1 workers are alive\n")
    await let_pass(1.2, because="all obey within a second, and finish what they have in hand")
    assert await closed_in(shop, 2) == 0
    async with shop.duetime() as customers:
        assert type(await customers.close(f"o{ORDERS - 1}")).__name__ == "Closed"
        paid = await customers.pay(f"o{ORDERS - 2}", payment_id="p", amount_minor=1990, currency="CNY")
        assert type(paid).__name__ == "Paid"
    (sweep,) = [line for line in (await told(command, "doctor", "--json")).data["checks"] if line["check"] == "sweep"]
    assert (sweep["grade"], sweep["found"]) == ("warning", "closing is paused by mia")
    assert command.alone("sweep", "--once").out == "closing is paused by mia: nothing was closed\n"
    assert "workers close as fast" in (await told(command, "resume")).out
    await told(command, "rate", "5000")
    await eventually("all are closed", shop.settled, seconds_max=30)
    assert worker.stop() == 0
    await shop.judge()


async def test_a_worker_that_starts_in_a_pause_closes_nothing(shop: ShopDatabase, command: CommandLine) -> None:
    await told(command, "pause")
    await shop.fill(Filling(orders=100))
    worker = command.start("run")
    worker.until("started")
    await let_pass(1.5, because="the sweep and the trigger shall have found them")
    asked = time.monotonic()
    assert worker.stop() == 0
    assert time.monotonic() - asked < 3
    assert await shop.count("pending") == 100


@pytest.mark.parametrize("rate", ["0", "-1", "nan", "fast", "1e999x"])
def test_a_rate_that_is_none_is_refused(on_sqlite: CommandLine, rate: str) -> None:
    said = on_sqlite("rate", "--", rate)
    assert said.code == 2
    assert rate in said.err
