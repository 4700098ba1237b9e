"""The demo's judge finds every kind of damage, and nothing where there is none."""

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from duetime.app import Duetime
from duetime.cli.demo.judge import Expected, Verdict, judge
from duetime.cli.demo.plan import Shop, Wish, opening, visits
from duetime.cli.demo.stage import GRACE, build, settings_for
from duetime.hold import Hold
from duetime.order import Paid, Placed, Reason
from duetime.paying import PaymentNotice

SHOP = Shop({"tea": 20, "cup": 20}, ("tea-001", "tea-002"))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Expected]:
    """A small shop's tables at the end of a day: orders paid, cancelled, closed at their deadline and pending."""
    file = tmp_path_factory.mktemp("demo") / "shop.db"
    asyncio.run(_played(file))
    told = Expected(SHOP.stock, 2, GRACE, placed=5, paid={"paid"}, cancelled={"cancelled"}, notices=2)
    return file, told


async def _played(file: Path) -> None:
    settings = settings_for(file, timedelta(hours=1))
    await build(settings, file, SHOP)
    duetime = Duetime(settings)
    for number in ("paid", "cancelled", "due", "due2", "pending"):
        coupons = {"paid": "tea-001", "due": "tea-002"}
        holds = [Hold("stock", "tea", 2)] + ([Hold("coupon", coupons[number])] if number in coupons else [])
        assert isinstance(await duetime.place(number, holds, amount_minor=900, currency="EUR"), Placed)
    notice = PaymentNotice("paid", "p-1", 900, "EUR")
    assert isinstance((await duetime.pay_many([notice]))[0], Paid)
    await duetime.close("cancelled", reason=Reason.CUSTOMER)
    await duetime.pay_many([PaymentNotice("cancelled", "p-2", 900, "EUR")])
    with closing(sqlite3.connect(file)) as database, database:
        past = "strftime('%Y-%m-%d %H:%M:%f', 'now', '-2 seconds') || '000'"
        database.execute(f"UPDATE orders SET expire_at = {past} WHERE order_no LIKE 'due%'")
    assert (await duetime.wired.sweep.run_once()).closed == 2
    await duetime.aclose()


@pytest.fixture
def tables(played: tuple[Path, Expected], tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A copy to be damaged."""
    file = tmp_path / "copy.db"
    with closing(sqlite3.connect(played[0])) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(played[0], file)
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        yield database


def judged(tables: sqlite3.Connection, expected: Expected) -> Verdict:
    file = tables.execute("PRAGMA database_list").fetchone()[2]
    return judge(Path(file), expected)


def broken(verdict: Verdict) -> set[str]:
    return {finding.promise for finding in verdict.findings if not finding.kept}


def test_whole_tables_keep_every_promise(tables: sqlite3.Connection, played: tuple[Path, Expected]) -> None:
    verdict = judged(tables, played[1])
    assert broken(verdict) == set()
    assert verdict.kept
    assert len(verdict.lateness_ms) == 2
    late = verdict.late(0.5)
    assert late is not None
    assert 1500 < late < 60_000
    assert verdict.findings[0].shown == "5 placed = 1 paid + 3 closed + 1 still pending"


DAMAGES = {
    "an order disappeared": ("DELETE FROM orders WHERE order_no = 'due'", "no order is lost"),
    "a status nobody knows": ("UPDATE orders SET status = 'x' WHERE order_no = 'due'", "no order is lost"),
    "a paid order that was closed": (
        "UPDATE orders SET status = 'closed' WHERE order_no = 'paid'",
        "one winner, and everybody was told who",
    ),
    "a cancelled order that was paid": (
        "UPDATE orders SET status = 'paid' WHERE order_no = 'cancelled'",
        "one winner, and everybody was told who",
    ),
    "a close inside the grace": (
        (
            "UPDATE orders SET closed_at = strftime('%Y-%m-%d %H:%M:%f', expire_at, '+0.199 seconds') || '000' "
            "WHERE order_no = 'due'"
        ),
        "no order closed early",
    ),
    "an order forgotten": (
        "UPDATE orders SET expire_at = '2026-01-01 00:00:00.000000' WHERE order_no = 'pending'",
        "no order is forgotten",
    ),
    "a unit given back twice": ("UPDATE stock SET available = available + 1 WHERE sku_id = 'tea'", "stock adds up"),
    "a unit that nobody holds": (
        "UPDATE stock SET available = available - 1, held = held + 1 WHERE sku_id = 'cup'",
        "stock adds up",
    ),
    "an article that disappeared": ("DELETE FROM stock WHERE sku_id = 'cup'", "stock adds up"),
    "a coupon locked by nobody": (
        "UPDATE coupon SET state = 'locked' WHERE coupon_id = 'tea-002'",
        "coupons add up",
    ),
    "a used coupon that is free": (
        "UPDATE coupon SET state = 'unused' WHERE coupon_id = 'tea-001'",
        "coupons add up",
    ),
    "a hold never given back": (
        "UPDATE duetime_hold SET state = 'held' WHERE order_no = 'due2'",
        "what was held is given back exactly once",
    ),
    "a hold without its order": (
        "INSERT INTO duetime_hold (order_no, kind, ref, quantity, state) VALUES ('x', 'stock', 'tea', 1, 'released')",
        "what was held is given back exactly once",
    ),
    "a fact that tells of less": (
        (
            "UPDATE duetime_outbox SET payload = replace(payload, '\"quantity\":2', '\"quantity\":1') "
            "WHERE order_no = 'due2' AND type = 'order.closed'"
        ),
        "what was held is given back exactly once",
    ),
    "a fact written twice": (
        (
            "INSERT INTO duetime_outbox (event_id, order_no, type, payload, created_at) "
            "SELECT event_id || 'x', order_no, type, payload, created_at FROM duetime_outbox "
            "WHERE type = 'order.closed'"
        ),
        "each fact is written once",
    ),
    "a fact lost": ("DELETE FROM duetime_outbox WHERE type = 'order.paid'", "each fact is written once"),
    "money lost": ("DELETE FROM duetime_payment WHERE payment_id = 'p-2'", "no money is dropped"),
    "money that paid nothing": (
        "UPDATE duetime_payment SET resolution = 'paid' WHERE payment_id = 'p-2'",
        "no money is dropped",
    ),
}


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_damage_is_found(tables: sqlite3.Connection, played: tuple[Path, Expected], damage: str) -> None:
    statement, promise = DAMAGES[damage]
    assert tables.execute(statement).rowcount > 0
    verdict = judged(tables, played[1])
    assert promise in broken(verdict)
    assert not verdict.kept


def test_customer_who_was_told_otherwise_is_found(tables: sqlite3.Connection, played: tuple[Path, Expected]) -> None:
    told = replace(played[1], paid={"paid", "due"}, placed=6, notices=3)
    assert broken(judged(tables, told)) == {
        "no order is lost",
        "one winner, and everybody was told who",
        "no money is dropped",
    }


def test_same_seed_makes_the_same_customers() -> None:
    shop = opening(rate=20, seconds=10, timeout_seconds=5)
    first, again, other = (list(visits(shop, rate=20, seconds=10, seed=seed)) for seed in (7, 7, 8))
    assert first == again != other
    assert len(first) == 200
    assert {visit.wish for visit in first} == set(Wish)
