"""Observe mode beside a closer of the shop's own that misses some, is late for some, and closes some that are paid."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.test_grants import account, printed
from tests.support.command_line import CommandLine
from tests.support.shop_database import MARIADB, ShopDatabase
from tests.support.waiting import eventually, let_pass

ORDERS = 300
MISSED = {n for n in range(ORDERS) if n % 100 in {3, 33, 63}}
LATE = {n for n in range(ORDERS) if n % 20 == 7}
PAID_SEEN = {50, 150}
PAID_UNSEEN = {250}
"""Paid and closed in one transaction: only the column of payment times tells."""

AHEAD = timedelta(seconds=4)
SPREAD = timedelta(seconds=1)
LATE_BY = timedelta(seconds=5)
LATE_AFTER = "3500ms"
OBSERVED = {"closing": {"mode": "observe"}, "orders": {"paid_at": "paid_at"}}


def number(n: int) -> str:
    return f"so-{n:03}"


@dataclass
class ForeignCloser:
    """A task of the shop in plain SQL; ``closed`` says when it closed what."""

    shop: ShopDatabase
    deadlines: dict[int, datetime] = field(default_factory=dict)
    closed: dict[int, datetime] = field(default_factory=dict)
    paid_are_seen: asyncio.Event = field(default_factory=asyncio.Event)
    """It closes the paid ones only after that: else it may come first on a busy machine."""

    async def place(self) -> None:
        begin = datetime.now(UTC) + AHEAD
        self.deadlines = {n: begin + SPREAD * n / ORDERS for n in range(ORDERS)}
        insert = "INSERT INTO orders (order_no, status, expire_at) VALUES (:no, 'pending', :at)"
        async with self.shop.engine.begin() as tx:
            for n, at in self.deadlines.items():
                await self.shop.run(tx, insert, no=number(n), at=at)

    async def run(self) -> None:
        """Close each order at its deadline, or later, until all are closed that it does not miss."""
        waiting = sorted(set(self.deadlines) - MISSED, key=self._when)
        while waiting:
            now = datetime.now(UTC)
            for n in waiting:
                if self._when(n) <= now and (n not in PAID_SEEN or self.paid_are_seen.is_set()):
                    await self._close(n, now)
            waiting = [n for n in waiting if n not in self.closed]
            await let_pass(0.05, because="a closer that polls")

    def _when(self, n: int) -> datetime:
        return self.deadlines[n] + (LATE_BY if n in LATE else timedelta(0))

    async def _close(self, n: int, now: datetime) -> None:
        paid = "paid_at = :now," if n in PAID_UNSEEN else ""
        await self.shop.execute(
            f"UPDATE orders SET {paid} status = 'closed', closed_at = :now, close_source = 'cron' WHERE order_no = :no",
            now=now,
            no=number(n),
        )
        self.closed[n] = now

    def seconds(self, these: set[int]) -> list[float]:
        """How long after its deadline each of these was closed, the quick ones first."""
        return sorted((self.closed[n] - self.deadlines[n]).total_seconds() for n in these & set(self.closed))


async def beside(shop: ShopDatabase, command: CommandLine) -> None:
    """Let observe mode watch the closer, and compare its report with what the closer knows."""
    closer = ForeignCloser(shop)
    worker = command.start("run")
    worker.until("started")
    await closer.place()
    await eventually("all are observed", lambda: _observed(shop, "pending", ORDERS))
    closing = asyncio.create_task(closer.run())
    for n in PAID_SEEN:
        await shop.execute("UPDATE orders SET status = 'paid' WHERE order_no = :no", no=number(n))
    await eventually("the paid ones are seen", lambda: _observed(shop, "paid", len(PAID_SEEN)))
    closer.paid_are_seen.set()
    await closing
    assert worker.stop() == 0
    said = await asyncio.to_thread(command, "observe", "report", "--late-after", LATE_AFTER, "--json")
    assert said.code == 0, said.err
    _compare(said.data, closer)
    await _judge(shop, closer)
    told = await asyncio.to_thread(command, "observe", "report", "--late-after", LATE_AFTER)
    for words in (f"{ORDERS} orders observed since", "never closed", "3.0%", "5.1%", number(min(MISSED))):
        assert words in told.out, told.out


async def _observed(shop: ShopDatabase, seen: str, count: int) -> bool:
    return await shop.number("SELECT count(*) FROM duetime_observed WHERE seen = :seen", seen=seen) == count


def _compare(report: Mapping[str, object], closer: ForeignCloser) -> None:
    paid = PAID_SEEN | PAID_UNSEEN
    in_time = set(range(ORDERS)) - MISSED - LATE - paid
    wanted = {
        "observed": ORDERS, "due": ORDERS - len(paid), "missed": 9, "closed_late": 15, "closed_though_paid": 3,
        "closed_in_time": len(in_time), "closed_early": 0, "paid_in_time": 0, "paid_after_due": 0, "deleted": 0,
        "open": 0, "other": 0, "closed_at_unsure": 0, "too_old": 0,
    }  # fmt: skip
    assert {key: report[key] for key in wanted} == wanted
    examples = report["examples"]
    assert isinstance(examples, dict)
    for key, these in {"missed": MISSED, "closed_late": LATE, "closed_though_paid": paid}.items():
        assert [one["order_no"] for one in examples[key]] == [number(n) for n in sorted(these)]
    assert len(examples["closed_in_time"]) == 20
    assert report["closed_late_after"] == pytest.approx(_spread(closer.seconds(LATE)), abs=0.002)
    assert report["closed_after"] == pytest.approx(_spread(closer.seconds(in_time | LATE)), abs=0.002)


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    return {
        "p50": seconds[-(-len(seconds) * 50 // 100) - 1],
        "p95": seconds[-(-len(seconds) * 95 // 100) - 1],
        "max": seconds[-1],
    }


async def _judge(shop: ShopDatabase, closer: ForeignCloser) -> None:
    """See that the shop's rows are as the shop's own hands left them, and that nothing else was written."""
    rows = await shop.rows("SELECT order_no, status, close_source, close_reason FROM orders ORDER BY order_no")
    assert [tuple(row) for row in rows] == [
        (number(n), *(("closed", "cron") if n in closer.closed else ("pending", None)), None) for n in range(ORDERS)
    ]
    for table in ("duetime_hold", "duetime_outbox", "duetime_order", "duetime_quarantine", "duetime_sweep_run"):
        assert await shop.number(f"SELECT count(*) FROM {table}") == 0


@asynccontextmanager
async def reader(shop: ShopDatabase) -> AsyncIterator[str]:
    """An account with the rights that are printed for observe mode, and no more: on the shop's tables only SELECT."""
    async with account(shop) as of:
        async with shop.duetime(**OBSERVED) as owner:
            rights = [grant.sql for grant in await owner.wired.store.grants(of.name)]
        harmless = ("SELECT ON", "USAGE ON SCHEMA", "CONNECT ON DATABASE", "duetime_observed")
        assert all(any(words in one for words in harmless) for one in rights), rights
        await shop.execute(*rights)
        yield of.url


def command_for(shop: ShopDatabase, url: str, folder: Path) -> CommandLine:
    config = folder / "duetime.toml"
    config.write_text(shop.config(**OBSERVED, store={"url": url}))
    return CommandLine(url, folder, {"DUETIME_CONFIG": str(config)})


async def test_numbers_beside_a_bad_closer_with_rights_to_read_alone(shop: ShopDatabase, tmp_path: Path) -> None:
    async with reader(shop) as url:
        command = command_for(shop, url, tmp_path)
        with command.running:
            await beside(shop, command)
            said = await asyncio.to_thread(command, "doctor", "--json")
            assert "may do all that duetime does" in said.out, said.out


async def test_each_of_the_printed_rights_is_needed(shop: ShopDatabase) -> None:
    async with shop.duetime(**OBSERVED) as watching, shop.duetime() as closing:
        to_watch = [one.sql for one in await watching.wired.store.grants("x")]
        to_close = await printed(shop, "x")
        del closing
    own = [one for one in to_watch if "duetime_observed" in one]
    assert len(own) == 1
    assert {"SELECT", "INSERT", "UPDATE", "DELETE"} <= set(own[0].replace(",", "").split())
    assert not any("INSERT" in one for one in to_close if "duetime_observed" in one)
    assert not any(right in one for one in to_watch if one not in own for right in ("INSERT", "UPDATE", "DELETE"))


async def test_numbers_beside_a_bad_closer_on_a_file(sqlite_url: str, tmp_path: Path) -> None:
    shop = ShopDatabase(sqlite_url, replace(MARIADB, zoned=False))
    await shop.create()
    command = command_for(shop, sqlite_url, tmp_path)
    with command.running:
        await beside(shop, command)
    await shop.aclose()


def test_before_anything_was_observed_the_report_says_what_to_do(duetime: CommandLine) -> None:
    said = duetime("observe", "report")
    assert (said.code, said.out.count("\n")) == (0, 1)
    assert 'nothing was observed yet: set closing.mode = "observe"' in said.out
    duetime.more["DUETIME_CLOSING__MODE"] = "observe"
    assert "make one pass with `duetime sweep --once`" in duetime("observe", "report").out
    assert duetime("observe", "report", "--json").data["observed"] == 0


def test_one_pass_tells_what_it_would_have_closed(duetime: CommandLine) -> None:
    duetime.add_orders(3, late=timedelta(hours=1))
    duetime.add_orders(2, late=timedelta(days=30), prefix="old", hold=False)
    duetime.more["DUETIME_CLOSING__MODE"] = "observe"
    assert "3 orders would have closed now; nothing was written to the shop" in duetime("sweep", "--once").out
    assert set(duetime.statuses().values()) == {"pending"}
    said = duetime("observe", "report")
    assert "2 pending orders are not observed" in said.out
    assert "3 orders observed" in said.out


def test_doctor_expects_no_sweep_where_nothing_is_closed(duetime: CommandLine) -> None:
    duetime.add_orders(1, late=timedelta(hours=1))
    duetime.more["DUETIME_CLOSING__MODE"] = "observe"
    said = duetime("doctor")
    assert "orders are watched and not closed" in said.out
    assert "no sweep has ended here yet" not in said.out
    assert "1 order should have been closed" in said.out
    assert "`duetime observe report` tells what your own closer does" in said.out


@pytest.mark.parametrize("words", [["order", "close", "o-00000"], ["order", "extend", "o-00000", "--add", "5m"],
                                   ["quarantine", "retry", "--all"]])  # fmt: skip
def test_what_a_person_would_write_is_refused(on_sqlite: CommandLine, words: list[str]) -> None:
    on_sqlite.add_orders(1, late=timedelta(hours=1))
    on_sqlite.more["DUETIME_CLOSING__MODE"] = "observe"
    said = on_sqlite(*words)
    assert said.code == 2
    assert 'closing.mode is "observe"' in said.err
    assert on_sqlite.statuses() == {"o-00000": "pending"}
