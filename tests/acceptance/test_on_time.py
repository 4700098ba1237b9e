"""`duetime run` with a trigger: orders close when they are due, not when the next sweep comes."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duetime import Placed
from tests.support.command_line import CommandLine
from tests.support.figures import Figures
from tests.support.shop_database import Filling, ShopDatabase
from tests.support.waiting import eventually

RARELY = {"interval": "1h"}
LATE_AT_MOST = timedelta(seconds=5)
"""Far below the sweep's interval, and far above what a busy machine needs."""


@pytest.fixture
def command(shop: ShopDatabase, tmp_path: Path) -> Iterator[CommandLine]:
    config = tmp_path / "duetime.toml"
    config.write_text(shop.config(triggers=[{"type": "database"}], sweep=RARELY))
    command = CommandLine(shop.url, tmp_path, {"DUETIME_CONFIG": str(config)})
    with command.running:
        yield command


async def lateness(shop: ShopDatabase) -> list[float]:
    rows = await shop.rows("SELECT expire_at, closed_at FROM orders WHERE status = 'closed'")
    return sorted((closed_at - expire_at).total_seconds() for expire_at, closed_at in rows)


async def test_orders_close_one_by_one_when_they_are_due(
    shop: ShopDatabase, command: CommandLine, figures: Figures
) -> None:
    await shop.add_skus(50)
    worker = command.start("run")
    worker.until("started")
    for n in range(100):
        late_by = -timedelta(seconds=2 + n * 0.03)
        await shop.add_orders(Filling(orders=1, first=n, late_by=late_by))
    await eventually("all are closed and given back", shop.settled, seconds_max=30)
    assert worker.stop() == 0
    assert (await shop.judge()).count("closed") == 100
    late = await lateness(shop)
    assert late[0] >= 0
    assert late[-1] < LATE_AT_MOST.total_seconds()
    figures(f"late by p50 {late[50] * 1000:.1f} ms, p99 {late[98] * 1000:.1f} ms, at most {late[-1] * 1000:.1f} ms")


async def test_a_burst_closes_without_a_sweep(shop: ShopDatabase, command: CommandLine, figures: Figures) -> None:
    await shop.add_skus(50)
    worker = command.start("run")
    worker.until("started")
    await shop.add_orders(Filling(orders=3000, late_by=timedelta(seconds=-3)))
    await eventually("all are closed and given back", shop.settled, seconds_max=60)
    assert worker.stop() == 0
    assert (await shop.judge()).count("closed") == 3000
    late = await lateness(shop)
    assert late[0] >= 0
    figures(f"3,000 due at once: the last one closed {late[-1]:.2f} s after its deadline")


async def test_two_workers_say_the_same_and_close_once(shop: ShopDatabase, command: CommandLine) -> None:
    await shop.add_skus(50)
    workers = [command.start("run") for _ in range(2)]
    for worker in workers:
        worker.until("started")
    for n in range(20):
        await shop.add_orders(Filling(orders=20, first=20 * n, late_by=timedelta(seconds=-2 - n * 0.1)))
    await eventually("all are closed and given back", shop.settled, seconds_max=30)
    assert [worker.stop() for worker in workers] == [0, 0]
    assert (await shop.judge()).count("closed") == 400


@pytest.mark.parametrize("kind", ["wheel", "database"])
async def test_an_order_placed_by_the_worker_itself_closes_on_time(shop: ShopDatabase, kind: str) -> None:
    timeouts = {"default": "1s", "grace": "0s"}
    triggers: list[Mapping[str, object]] = [{"type": kind}]
    async with shop.duetime(triggers=triggers, sweep=RARELY, timeouts=timeouts) as duetime, duetime.running():
        placed = await duetime.place("so-1", amount_minor=5, currency="CNY")
        assert isinstance(placed, Placed)
        await eventually("it is closed", shop.settled, seconds_max=15)
    late = await lateness(shop)
    assert len(late) == 1
    assert 0 <= late[0] < LATE_AT_MOST.total_seconds()
    assert datetime.now(UTC) - placed.expire_at < timedelta(seconds=30)
