"""`duetime run` and `duetime sweep` from outside."""

import asyncio
import os
import signal
from datetime import timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from duetime.cli.work import Report
from duetime.hold import HeldHold, Hold
from duetime.removing import Removed
from duetime.testing.proxy import TcpProxy
from duetime.testing.shop_hand import CouponRow, StockRow
from tests.support.command_line import CommandLine
from tests.support.waiting import eventually_sync, let_pass

HOUR = timedelta(hours=1)


def test_run_closes_what_is_due_and_leaves_the_rest(duetime: CommandLine) -> None:
    due = duetime.add_orders(20, late=HOUR)
    later = duetime.add_orders(3, late=-HOUR, prefix="later")
    worker = duetime.start("run")
    worker.until("started")
    eventually_sync("all due orders are closed", lambda: set(_of(duetime, due)) == {"closed"}, seconds_max=30)
    assert worker.stop() == 0
    assert set(_of(duetime, later)) == {"pending"}
    assert duetime.stock()["sku-1"] == (30, 3)
    assert worker.events()[-1] == "stopped"
    (started,) = [line for line in worker.lines() if line["event"] == "started"]
    assert (started["orders"], started["assets"], started["sweep_interval"]) == ("orders", ["stock", "coupon"], "100ms")
    password = duetime.url.partition("://")[2].partition("@")[0].partition(":")[2]
    assert not password or password not in worker.log.read_text()


def _of(duetime: CommandLine, numbers: list[str]) -> list[str]:
    statuses = duetime.statuses()
    return [statuses[number] for number in numbers]


def test_run_ends_in_order_in_the_middle_of_its_work(duetime: CommandLine) -> None:
    duetime.more |= {"DUETIME_SWEEP__PAGE_SIZE": "10", "DUETIME_CLOSING__BATCH_SIZE": "10"}
    duetime.add_orders(1000, late=HOUR)
    worker = duetime.start("run")
    eventually_sync("some are closed", lambda: "closed" in duetime.statuses().values(), seconds_max=30)
    assert worker.stop(signal.SIGTERM) == 0
    closed = sum(status == "closed" for status in duetime.statuses().values())
    released = [held for held in duetime.shop(lambda hand: hand.holds()) if held.state == "released"]
    assert len(released) == closed
    assert duetime.stock()["sku-1"] == (10 + closed, 1000 - closed)
    assert len(duetime.shop(lambda hand: hand.facts())) == closed


def test_run_says_what_may_surprise(on_sqlite: CommandLine) -> None:
    on_sqlite.more["DUETIME_TRIGGERS"] = '[{"type": "redis-zset"}, {"type": "wheel"}]'
    on_sqlite.more["DUETIME_CLOSING__NOT_BEFORE"] = "2026-01-01T00:00:00Z"
    worker = on_sqlite.start("run")
    worker.until("started")
    (started,) = [line for line in worker.lines() if line["event"] == "started"]
    assert (started["triggers"], started["not_before"]) == (["wheel"], "2026-01-01T00:00:00+00:00")
    eventually_sync("a notice", lambda: any("is not started" in event for event in worker.events()))
    assert worker.stop() == 0


def test_run_waits_for_a_database_that_is_away_and_can_be_stopped_meanwhile(on_sqlite: CommandLine) -> None:
    on_sqlite.url = "postgresql://nobody:secret@127.0.0.1:1/shop"
    worker = on_sqlite.start("run")
    worker.until("the database is away")
    assert worker.stop() == 0
    assert "secret" not in worker.log.read_text()


def test_run_on_a_database_without_tables_says_what_to_do(sqlite_url: str, tmp_path: Path) -> None:
    Path(sqlite_url.removeprefix("sqlite:///")).touch()
    said = CommandLine(sqlite_url, tmp_path)("run")
    assert said.code == 2
    assert "duetime migrate" in said.err


def test_second_signal_ends_a_stop_that_takes_too_long(on_sqlite: CommandLine) -> None:
    worker = on_sqlite.start("run")
    worker.until("started")
    os.kill(worker.process.pid, signal.SIGSTOP)
    worker.process.send_signal(signal.SIGTERM)
    worker.process.send_signal(signal.SIGINT)
    os.kill(worker.process.pid, signal.SIGCONT)
    assert worker.process.wait(timeout=10) in {0, 1}


def test_sweep_goes_on_until_it_is_stopped(on_sqlite: CommandLine) -> None:
    first = on_sqlite.add_orders(5, late=HOUR)
    worker = on_sqlite.start("sweep")
    eventually_sync("the first are closed", lambda: set(_of(on_sqlite, first)) == {"closed"}, seconds_max=30)
    second = on_sqlite.add_orders(5, late=HOUR, prefix="second")
    eventually_sync("the second are closed", lambda: set(_of(on_sqlite, second)) == {"closed"}, seconds_max=30)
    assert worker.stop(signal.SIGINT) == 0


def test_sweep_once_closes_all_and_says_how_many(duetime: CommandLine) -> None:
    duetime.add_orders(700, late=HOUR)
    said = duetime("sweep", "--once", "--json")
    assert said.code == 0, said.err
    assert (said.data["found"], said.data["closed"], said.data["blocked"]) == (700, 700, {})
    assert set(duetime.statuses().values()) == {"closed"}
    again = duetime("sweep", "--once")
    assert again.out.startswith("found 0 due orders, closed 0, blocked 0, busy 0")


def test_sweep_once_gives_back_what_goes_the_longer_way(duetime: CommandLine) -> None:
    duetime.more["DUETIME_ASSETS"] = (
        '[{"kind": "stock", "storage": "counter", "table": "stock", "key": "sku_id", '
        '"available": "available", "release": "after"}]'
    )
    duetime.add_orders(30, late=HOUR)
    said = duetime("sweep", "--once", "--json")
    assert said.data["given_back"] == 30
    assert duetime.stock()["sku-1"] == (40, 0)


def test_sweep_once_closes_all_but_the_one_that_cannot(duetime: CommandLine) -> None:
    duetime.add_orders(99, late=HOUR)
    bad = duetime.add_orders(1, late=HOUR, prefix="bad", hold=False)
    duetime.shop(lambda hand: hand.add_holds([_held(bad[0], "gone")]))
    said = duetime("sweep", "--once", "--json")
    assert said.code == 0
    assert said.data["closed"] == 99
    assert list(said.data["blocked"]) == bad
    assert "gone" in said.data["blocked"][bad[0]]


NOTHING_DONE: dict[str, Any] = {
    **dict.fromkeys(("held_nothing", "retried", "given_back", "still_locked", "quarantined"), 0),
    **{name: {} for name in ("shop_moved", "shop_moved_settled", "shop_moved_samples")},
    "removed": Removed(),
    "observed": None,
    "paused_by": None,
}


def test_a_pass_in_which_all_were_blocked_has_failed(on_sqlite: CommandLine) -> None:
    (bad,) = on_sqlite.add_orders(1, late=HOUR, hold=False)
    on_sqlite.shop(lambda hand: hand.add_holds([_held(bad, "gone")]))
    said = on_sqlite("sweep", "--once")
    assert (said.code, f"order {bad} is blocked: " in said.err) == (1, True)
    assert said.err.endswith("nothing was closed: all that is due is blocked; see `duetime quarantine list`\n")


@pytest.mark.parametrize(
    "changed, failed",
    [
        ({}, True),
        ({"closed": 1}, False),
        ({"busy": 1}, False),
        ({"blocked": {}}, False),
    ],
    ids=["all blocked", "one closed", "one held by others", "none blocked"],
)
def test_a_pass_has_failed_only_where_all_that_is_due_is_blocked(changed: dict[str, Any], failed: bool) -> None:  # noqa: FBT001 -- a case of the table
    """An order that somebody else holds is no failure: the next pass may close it."""
    values: dict[str, Any] = {"found": 2, "closed": 0, "busy": 0, "blocked": {"a": "no row"}}
    assert Report(**(NOTHING_DONE | values | changed)).all_blocked is failed


def test_sweep_once_counts_those_that_held_nothing(duetime: CommandLine) -> None:
    duetime.add_orders(3, late=HOUR)
    duetime.add_orders(2, late=HOUR, prefix="bare", hold=False)
    said = duetime("sweep", "--once")
    assert "2 closed without a hold: `duetime doctor` compares" in said.out
    duetime.add_orders(1, late=HOUR, prefix="later")
    assert duetime("sweep", "--once", "--json").data["held_nothing"] == 0


def _held(number: str, sku: str) -> HeldHold:
    return HeldHold(number, Hold("stock", sku, 1))


def test_dry_run_tells_what_would_close_and_changes_nothing(duetime: CommandLine) -> None:
    duetime.add_orders(3, late=timedelta(days=2))
    duetime.add_orders(4, late=HOUR, prefix="new")
    before = duetime.shop(lambda hand: hand.holds()), duetime.statuses(), duetime.stock()
    said = duetime("sweep", "--dry-run", "--json")
    assert said.code == 0
    assert said.data["orders"] == 7
    assert sorted(said.data["by_day"].values()) in ([3, 4], [1, 3, 3])
    assert said.data["would_give_back"] == [{"kind": "stock", "ref": "sku-1", "quantity": 7}]
    assert said.data["sample"][0]["order_no"].startswith("o-")
    assert (duetime.shop(lambda hand: hand.holds()), duetime.statuses(), duetime.stock()) == before
    assert duetime.shop(lambda hand: hand.facts()) == []
    assert "7 orders of orders would close now; nothing was changed" in duetime("sweep", "--dry-run").out


def test_dry_run_over_many_days_is_summed_up_by_month(on_sqlite: CommandLine) -> None:
    for n in range(61):
        on_sqlite.add_orders(1, late=timedelta(days=n, hours=1), prefix=f"day-{n}", hold=False)
    lines = on_sqlite("sweep", "--dry-run").out.splitlines()
    at = lines.index("month\torders")
    months = list(takewhile(bool, lines[at + 1 :]))
    assert 2 <= len(months) <= 4
    assert sum(int(line.split("\t")[1]) for line in months) == 61
    assert len(on_sqlite("sweep", "--dry-run", "--json").data["by_day"]) == 61


PRINTING = (["sql"], ["sweep", "--dry-run"], ["init", "--output", "-"], ["--help"], ["sweep", "--help"], ["doctor"])


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
@pytest.mark.parametrize("both", [False, True], ids=["|", "2>&1 |"])
def test_a_reader_that_goes_away_is_no_failure(on_sqlite: CommandLine, words: list[str], *, both: bool) -> None:
    (bad, *_) = on_sqlite.add_orders(3, late=HOUR, hold=False)
    on_sqlite.shop(lambda hand: hand.add_holds([HeldHold(bad, Hold("seat", "a-1", 1))]))
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as nobody:
        said = on_sqlite.alone(*words, stdout=nobody, stderr=nobody if both else None)
    blocked = f"order {bad} would be blocked: " if words[-1] == "--dry-run" and not both else ""
    assert (said.code, said.err.startswith(blocked), bool(said.err)) == (0, True, bool(blocked)), said.err


def test_dry_run_tells_what_would_be_blocked(duetime: CommandLine) -> None:
    (order_no,) = duetime.add_orders(1, late=HOUR, hold=False)
    duetime.shop(lambda hand: hand.add_holds([HeldHold(order_no, Hold("seat", "a-1", 1))]))
    words = f"order {order_no} would be blocked: it holds seat a-1, which no [[assets]] describes"
    said = duetime("sweep", "--dry-run")
    assert words in said.err
    assert "0 orders of orders would close now; nothing was changed\n1 more are due and would be blocked" in said.out
    assert list(duetime("sweep", "--dry-run", "--json").data["would_be_blocked"]) == [order_no]


def test_quarantine_from_the_failure_to_the_close(duetime: CommandLine) -> None:
    duetime.more["DUETIME_CLOSING__QUARANTINE_AFTER_FAILURES"] = "1"
    (bad,) = duetime.add_orders(1, late=HOUR, prefix="bad", hold=False)
    duetime.shop(lambda hand: hand.add_holds([_held(bad, "sku-9")]))
    assert duetime("sweep", "--once", "--json").data["quarantined"] == 1

    (listed,) = duetime("quarantine", "list", "--json").data
    assert (listed["order_no"], listed["state"], listed["stage"]) == (bad, "quarantined", "close")
    assert "sku-9" in listed["error"]
    assert bad in duetime("orders", "list", "--quarantined").out
    (due,) = duetime("orders", "list", "--due", "--json").data
    assert "sku-9" in due["failure"]["error"]

    said = duetime("quarantine", "retry", bad)
    assert said.code == 1
    assert "failed again" in said.out

    duetime.shop(lambda hand: hand.put_stock([StockRow("sku-9", 0, 1)]))
    said = duetime("quarantine", "retry", "--all", "--json")
    assert (said.code, said.data) == (0, {"resolved": 1, "failed_again": [], "not_waiting": []})
    assert duetime.statuses()[bad] == "closed"
    assert duetime.stock()["sku-9"] == (1, 0)
    assert duetime("quarantine", "list", "--json").data == []


def test_quarantine_of_what_could_not_be_given_back(on_sqlite: CommandLine) -> None:
    on_sqlite.more["DUETIME_CLOSING__QUARANTINE_AFTER_FAILURES"] = "1"
    on_sqlite.more["DUETIME_ASSETS"] = (
        '[{"kind": "stock", "storage": "counter", "table": "stock", "key": "sku_id", '
        '"available": "available", "release": "after"}]'
    )
    (bad,) = on_sqlite.add_orders(1, late=HOUR, prefix="bad", hold=False)
    on_sqlite.shop(lambda hand: hand.add_holds([_held(bad, "sku-9")]))
    assert on_sqlite("sweep", "--once", "--json").data["quarantined"] == 1
    assert on_sqlite.statuses()[bad] == "closed"
    (listed,) = on_sqlite("quarantine", "list", "--json").data
    assert (listed["stage"], listed["state"]) == ("release", "quarantined")

    on_sqlite.shop(lambda hand: hand.put_stock([StockRow("sku-9", 0, 1)]))
    assert on_sqlite("quarantine", "retry", bad).code == 0
    assert on_sqlite.stock()["sku-9"] == (1, 0)
    assert on_sqlite("quarantine", "list", "--json").data == []


def test_quarantine_resolve_asks_how_it_was_settled(duetime: CommandLine) -> None:
    duetime.more["DUETIME_CLOSING__QUARANTINE_AFTER_FAILURES"] = "1"
    (bad,) = duetime.add_orders(1, late=HOUR, prefix="bad", hold=False)
    duetime.shop(lambda hand: hand.put_coupons([CouponRow("c-1", "unused")]))
    duetime.shop(lambda hand: hand.add_holds([HeldHold(bad, Hold("coupon", "c-1"))]))
    duetime("sweep", "--once")
    said = duetime("quarantine", "resolve", bad, stdin="refunded by hand\n")
    assert said.code == 0, said.err
    assert duetime("quarantine", "resolve", bad, "--why", "again").code == 1
    story = duetime("order", "show", bad, "--json").data
    assert "refunded by hand" in story["failures"][0]["error"]


async def test_run_ends_in_time_though_the_database_is_frozen(postgresql_url: str, tmp_path: Path) -> None:
    server = make_url(postgresql_url)
    assert server.host is not None
    assert server.port is not None
    direct = CommandLine(postgresql_url, tmp_path)
    assert (await asyncio.to_thread(direct, "migrate", "--sample-shop")).code == 0
    async with TcpProxy(server.host, server.port) as proxy:
        through = server.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)
        duetime = CommandLine(through, tmp_path, {"DUETIME_SWEEP__INTERVAL": "100ms"})
        with duetime.running:
            worker = duetime.start("run")
            await asyncio.to_thread(worker.until, "started")
            proxy.pause()
            await asyncio.to_thread(direct.add_orders, 5, late=HOUR)
            await let_pass(1, because="the worker is to be in the middle of a transaction that gets no answer")
            assert await asyncio.to_thread(worker.stop) == 0
