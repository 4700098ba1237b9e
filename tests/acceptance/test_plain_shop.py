"""A shop that knows duetime by the printed statements alone places, pays and cancels beside `duetime run`."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.figures import Figures
from tests.support.judge import Books
from tests.support.plain_shop import PlainShop, Plan, Report
from tests.support.shop_database import ShopDatabase
from tests.support.waiting import eventually

SKUS = 30
ORDERS_PER_SECOND = 200
P99_MS_MAX = 1500
GRACE = timedelta(0)
ASSETS: list[Mapping[str, object]] = [
    {"kind": "stock", "storage": "counter", "table": "stock", "key": "sku_id", "available": "available"}
]


@pytest.mark.parametrize(
    "seconds, workers",
    [
        pytest.param(6, 1, id="6s"),
        pytest.param(60, 2, id="60s", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    ],
)
async def test_shop_in_plain_sql_beside_workers(
    shop: ShopDatabase, tmp_path: Path, figures: Figures, *, seconds: int, workers: int
) -> None:
    await shop.add_skus(SKUS)
    command = CommandLine(shop.url, tmp_path, {"DUETIME_CONFIG": str(tmp_path / "duetime.toml")})
    (tmp_path / "duetime.toml").write_text(shop.config(assets=ASSETS))
    with command.running:
        started = [command.start("run") for _ in range(workers)]
        for worker in started:
            worker.until("started")
        report = await asyncio.to_thread(_shop, shop, command, tmp_path, seconds)
        await eventually("all that is due is closed and given back", lambda: _done(shop), seconds_max=30)
        assert [worker.stop() for worker in started] == [0] * workers
    books = await shop.judge(grace=GRACE)
    _judge(report, books, seconds)
    said = await asyncio.to_thread(command, "verify")
    assert said.code == 0, said.out
    _tell(figures, report, books)


def _shop(shop: ShopDatabase, command: CommandLine, folder: Path, seconds: int) -> Report:
    """Run the shop to its end."""
    printed = ", ".join(f'"{name}": {command("sql", name, "--json").out}' for name in ("place", "pay", "cancel"))
    (folder / "recipes.json").write_text(f"{{{printed}}}")
    words = shop.words
    plan = Plan(
        url=shop.url,
        recipes=str(folder / "recipes.json"),
        report=str(folder / "shop.json"),
        seconds=seconds,
        orders_per_second=ORDERS_PER_SECOND,
        skus=SKUS,
        sessions=words.sessions_in_deadlock,
        deadlock_report=words.deadlock_report or "",
        session_id=words.session_id,
        again=tuple(words.deadlock | words.lock_timeout),
    )
    return PlainShop(plan).start().end()


async def _done(shop: ShopDatabase) -> bool:
    due = "SELECT count(*) FROM orders WHERE status = 'pending' AND expire_at <= :now"
    return await shop.number(due, now=datetime.now(UTC)) == 0 and await shop.unfinished() == 0


def _judge(report: Report, books: Books, seconds: int) -> None:
    """What the shop was told is what is written; nothing of duetime's was in a deadlock of the shop's."""
    expected = {"paid": {"paid"}, "manual": {"closed"}, "cancelled": {"closed"}, "placed": {"pending", "closed"}}
    assert len(report.answers) == pytest.approx(seconds * ORDERS_PER_SECOND, abs=2)
    for order_no, answer in report.answers.items():
        assert books.orders[order_no].status in expected[answer], (order_no, answer, books.orders[order_no])
        late = [fact for fact in books.facts_of(order_no) if fact.type == "payment.late"] if answer == "manual" else []
        assert len(late) == (answer == "manual")
    assert {order.reason for order in books.orders.values() if order.status == "closed"} == {"timeout", "customer"}
    ours = set(report.sessions)
    assert all(set(deadlock) <= ours for deadlock in report.deadlocks), "one of duetime's sessions was in a deadlock"
    for name in ("place", "pay", "cancel"):
        assert report.ms(name, 99) < P99_MS_MAX, f"{name} took {report.ms(name, 99)} ms (p99)"


def _tell(figures: Figures, report: Report, books: Books) -> None:
    late = [fact.payload["lateness_ms"] for fact in books.facts if fact.payload.get("reason") == "timeout"]
    took = "; ".join(
        f"{name} {len(report.seconds[name])}: p50 {report.ms(name, 50)}, p99 {report.ms(name, 99)}, "
        f"longest {report.ms(name, 100)} ms"
        for name in ("place", "pay", "cancel")
    )
    figures(
        f"{len(report.answers)} orders in {report.lasted:.1f} s; {took}; {len(late)} closed by time-out, at most "
        f"{max(late)} ms late; deadlocks among the shop's own carts: {len(report.deadlocks)}; {dict(report.conflicts)}"
    )
