"""Workers with a trigger, killed and frozen in turn while orders become due and customers act in the last moment.

The whole way is in it: look ahead, wheel, batches, sweep. Every few seconds a worker dies, or stops for longer than
the server waits for its transactions, and another one begins; meanwhile orders are paid, extended and cancelled around
their deadlines, some of them in transactions of the shop's own that commit late.
"""

import asyncio
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duetime import Duetime
from duetime.errors import DuetimeError
from tests.support.command_line import CommandLine, Worker
from tests.support.figures import Figures
from tests.support.shop_database import Filling, Section, ShopDatabase
from tests.support.waiting import eventually, let_pass

FROZEN_SECONDS = 7.0
"""Longer than a lease, and than the server waits for a transaction of ours that stands still."""

LEASE_SECONDS = 2.0
SWEEP_SECONDS = 2.0
LATE_AT_MOST_SECONDS = 5.0 + 2 * LEASE_SECONDS + SWEEP_SECONDS + SWEEP_SECONDS / 2 + 7.0
"""What a frozen worker keeps locked; a lease, and another where the heir dies too; a sweep and its margin; and what two
busy cores add. Who dies again and again, just after it took over, can make an order later still: a lease each time."""
ON_ANY_MACHINE_SECONDS = 60.0
"""Beside other tests workers take seconds to start and to be heard; how late it was is printed."""


@dataclass(frozen=True)
class Run:
    """How much, how long, and how often somebody is hurt."""

    orders: int
    seconds: float
    workers: int
    hurt_every_seconds: float = 3.0
    late_at_most_seconds: float = LATE_AT_MOST_SECONDS


RUNS = [
    pytest.param(Run(2_000, 18, 2, 6.0, ON_ANY_MACHINE_SECONDS), id="2 workers, 18 s", marks=pytest.mark.timeout(180)),
    pytest.param(Run(50_000, 60, 4), id="4 workers, 60 s", marks=[pytest.mark.long, pytest.mark.timeout(900)]),
]


@pytest.fixture
def command(shop: ShopDatabase, tmp_path: Path) -> Iterator[CommandLine]:
    config = tmp_path / "duetime.toml"
    sections: dict[str, Section] = {
        "triggers": [{"type": "database"}],
        "sweep": {"interval": f"{SWEEP_SECONDS:g}s"},
        "closing": {"lease": f"{LEASE_SECONDS:g}s"},
    }
    config.write_text(shop.config(**sections))
    command = CommandLine(shop.url, tmp_path, {"DUETIME_CONFIG": str(config)})
    with command.running:
        yield command


@pytest.mark.parametrize("run", RUNS)
async def test_nothing_is_lost_doubled_or_early_whoever_dies(
    shop: ShopDatabase, command: CommandLine, run: Run, figures: Figures
) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    await shop.add_skus(100)
    team = [command.start("run") for _ in range(run.workers)]
    for worker in team:
        worker.until("started")
    begins = datetime.now(UTC) + timedelta(seconds=6 + run.orders / 5000)
    await add_spread(shop, run, begins)
    async with shop.duetime() as customers, asyncio.TaskGroup() as group:
        acting = group.create_task(customers_act(customers, shop, run, begins, chance))
        hurting = group.create_task(hurt(command, team, run, begins, chance))
    await eventually("all are settled", shop.settled, seconds_max=120)
    assert [worker.stop() for worker in team] == [0] * len(team)
    books = await shop.judge()
    late = await lateness(shop)
    told = f"seed {seed}; {hurting.result()}; customers: {acting.result()}"
    figures(f"{told}; closed {len(late)}, late by p50 {late[len(late) // 2]:.3f} s, at most {late[-1]:.2f} s")
    assert late[0] >= 0
    assert late[-1] < run.late_at_most_seconds
    assert len(late) == books.count("closed") - acting.result()["cancelled"]
    assert not books.quarantine


async def add_spread(shop: ShopDatabase, run: Run, begins: datetime) -> None:
    """Add orders whose deadlines lie a quarter of a second apart, batch after batch."""
    steps = int(run.seconds * 4)
    each = run.orders // steps
    for step in range(steps):
        due = begins + timedelta(seconds=step / 4)
        late_by = datetime.now(UTC) - due
        await shop.add_orders(Filling(orders=each, first=step * each, skus=100, late_by=late_by))


async def hurt(command: CommandLine, team: list[Worker], run: Run, begins: datetime, chance: random.Random) -> str:
    """Kill or freeze one of the team every few seconds, and put another one in its place."""
    await let_pass(max(0.0, (begins - datetime.now(UTC)).total_seconds()), because="nothing is due yet")
    ends, kills, frozen = time.monotonic() + run.seconds, 0, 0
    async with asyncio.TaskGroup() as waking:
        while time.monotonic() < ends:
            await let_pass(run.hurt_every_seconds, because="that is how often a worker is hurt")
            worker = team.pop(chance.randrange(len(team)))
            if chance.random() < 0.5:
                worker.process.kill()
                worker.process.wait()
                kills += 1
            else:
                worker.process.send_signal(signal.SIGSTOP)
                waking.create_task(wake(worker, team))
                frozen += 1
            team.append(command.start("run"))
    return f"{kills} killed, {frozen} frozen for {FROZEN_SECONDS:g} s"


async def wake(worker: Worker, team: list[Worker]) -> None:
    await let_pass(FROZEN_SECONDS, because="the worker is frozen")
    worker.process.send_signal(signal.SIGCONT)
    team.append(worker)


async def customers_act(
    duetime: Duetime, shop: ShopDatabase, run: Run, begins: datetime, chance: random.Random
) -> dict[str, int]:
    """Pay, cancel, extend around deadlines, and commit late; answer how often each took place."""
    await let_pass(max(0.0, (begins - datetime.now(UTC)).total_seconds()), because="nothing is due yet")
    done = {"paid": 0, "cancelled": 0, "extended": 0, "committed late": 0}
    ends = time.monotonic() + run.seconds
    n = 0
    while time.monotonic() < ends:
        n += 1
        elapsed = run.seconds - (ends - time.monotonic())
        about = int((elapsed + chance.uniform(-0.3, 0.5)) / run.seconds * run.orders)
        number = f"o{min(max(about, 0), run.orders - 1)}"
        with suppress(DuetimeError):
            match n % 4:
                case 0:
                    paid = await duetime.pay(number, payment_id=f"p-{n}", amount_minor=1990, currency="CNY")
                    done["paid"] += type(paid).__name__ == "Paid"
                case 1:
                    closed = await duetime.close(number, reason="customer")
                    done["cancelled"] += type(closed).__name__ == "Closed"
                case 2:
                    extended = await duetime.extend(number, datetime.now(UTC) + timedelta(seconds=2))
                    done["extended"] += type(extended).__name__ == "Extended"
                case _:
                    await commit_late(shop, f"late-{n}-", chance)
                    done["committed late"] += 1
    return done


async def commit_late(shop: ShopDatabase, number: str, chance: random.Random) -> None:
    """Place an order by hand that is due before its transaction ends."""
    async with shop.engine.begin() as connection:
        due = datetime.now(UTC) + timedelta(seconds=chance.uniform(0, 0.2))
        insert = "INSERT INTO orders (order_no, status, expire_at) VALUES (:no, 'pending', :due)"
        hold = "INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES (:no, 'stock', 'sku-0001', 1)"
        take = "UPDATE stock SET held = held + 1, available = available - 1 WHERE sku_id = 'sku-0001'"
        await shop.run(connection, insert, no=number, due=due)
        await shop.run(connection, hold, no=number)
        await let_pass(chance.uniform(0, 0.3), because="the shop's transaction takes its time")
        await shop.run(connection, take)


async def lateness(shop: ShopDatabase) -> list[float]:
    """Answer how late orders were closed by time-out, in seconds; those that committed late count from then on."""
    rows = await shop.rows(
        "SELECT expire_at, closed_at FROM orders WHERE status = 'closed' AND close_reason = 'timeout'"
    )
    return sorted((closed_at - expire_at).total_seconds() for expire_at, closed_at in rows)
