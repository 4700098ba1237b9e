"""Pending orders that are never due: whatever the shop writes for *never* stops nobody else, and is counted."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from duetime.app import Duetime
from duetime.settings import load_settings
from duetime.wiring import migrator, verifying
from tests.docs.by_hand import run_sql
from tests.support.command_line import CommandLine
from tests.support.databases import DatabaseKind, FreshDatabase

NEVER: Mapping[DatabaseKind, Mapping[str, tuple[str, str, list[str]]]] = {
    "sqlite": {
        "text": ("datetime", "Asia/Shanghai", ["NULL"]),
        "epoch": ("integer", "epoch_ms", ["NULL", "0", "-1"]),
    },
    "postgresql": {
        "instant": (
            "timestamptz",
            "instant",
            ["NULL", "'infinity'", "'-infinity'", "'0044-03-15 BC'", "'12026-01-01'"],
        ),
        "local-not-null": ("timestamp(0) NOT NULL", "Asia/Shanghai", ["'infinity'", "'-infinity'"]),
        "epoch": ("bigint NOT NULL", "epoch_s", ["0", "-1"]),
    },
    "mariadb": {
        "datetime": ("datetime", "Asia/Shanghai", ["NULL", "'0000-00-00'"]),
        "datetime-not-null": ("datetime NOT NULL", "instant", ["'0000-00-00'"]),
        "timestamp": ("timestamp(3) NULL", "instant", ["NULL", "'0000-00-00'"]),
        "timestamp-not-null": ("timestamp NOT NULL DEFAULT 0", "instant", ["0"]),
        "epoch": ("int", "epoch_s", ["NULL", "0"]),
    },
}
"""What a column holds, how it is described, and what stands for *never*."""

PAST = {"epoch_s": "1600000000", "epoch_ms": "1600000000000"}
PAGE = 5


@pytest.mark.parametrize(
    "kind, name",
    [
        pytest.param(kind, name, marks=[] if kind == "sqlite" else [pytest.mark.services], id=f"{kind}-{name}")
        for kind, columns in NEVER.items()
        for name in columns
    ],
)
async def test_what_stands_for_never_is_passed_over_and_counted(
    kind: DatabaseKind, name: str, fresh_database: FreshDatabase
) -> None:
    column, form, never = NEVER[kind][name]
    url = fresh_database(kind)
    number = "id integer PRIMARY KEY, order_no varchar(40) NOT NULL UNIQUE, status varchar(10) NOT NULL"
    values = [*never * 2 * PAGE, *[PAST.get(form, "'2020-01-01 10:00:00'")] * (2 * PAGE + 1)]
    rows = ", ".join(f"({n}, 'so-{n}', 'pending', {value})" for n, value in enumerate(values))
    run_sql(url, f"CREATE TABLE orders ({number}, at_ {column})")
    run_sql(url, f"INSERT INTO orders (id, order_no, status, at_) VALUES {rows}")
    absent = dict.fromkeys(("closed_at", "close_reason", "close_source", "category", "amount", "currency"), "")
    settings = load_settings(
        environ={},
        store={"url": url},
        orders={"expire_at": "at_", "time_form": form, **absent},
        assets=[],
        timeouts={"grace": "0s"},
        sweep={"page_size": PAGE, "pause": "0s"},
    )
    await migrator(settings).run()
    async with Duetime(settings) as duetime:
        found = await duetime.wired.sweep.dry_run()
        assert (found.orders, found.without_deadline) == (2 * PAGE + 1, 2 * PAGE * len(never))
        run = await duetime.wired.sweep.run_once()
        story = await duetime.story("so-0")
        assert story is not None
        assert story.order.expire_at is None
        assert not (await verifying(duetime.wired, patience=timedelta(0)).run()).findings
    assert (run.due_found, run.closed, run.pending_seen) == (2 * PAGE + 1, 2 * PAGE + 1, True)


@pytest.fixture
def never_due(on_sqlite: CommandLine) -> CommandLine:
    """A shop where one order is due, one is paid, and two have no deadline."""
    on_sqlite.more["DUETIME_ORDERS__TABLE"] = "t_order"
    texts = "closed_at datetime, close_reason text, close_source text, category text, currency text"
    columns = f"id integer PRIMARY KEY, order_no text NOT NULL UNIQUE, status text, expire_at datetime, {texts}"
    run_sql(on_sqlite.url, f"CREATE TABLE t_order ({columns}, amount_minor integer)")
    rows = "('a', 'pending', NULL), ('b', 'pending', NULL), ('c', 'paid', NULL), ('d', 'pending', '2026-01-01 10:00')"
    run_sql(on_sqlite.url, f"INSERT INTO t_order (order_no, status, expire_at) VALUES {rows}")
    assert on_sqlite("migrate").code == 0
    return on_sqlite


SENTENCE = "2 pending orders have no deadline, and are never closed by it"


@pytest.mark.parametrize(
    "words", [["sweep", "--dry-run"], ["orders", "list", "--due"], ["orders", "list", "--overdue"]]
)
def test_commands_that_look_for_due_orders_say_how_many_can_never_be(never_due: CommandLine, words: list[str]) -> None:
    said = never_due(*words)
    assert (said.code, SENTENCE in said.out.splitlines()) == (0, True), said.out + said.err


def test_nothing_is_said_where_every_order_has_a_deadline(on_sqlite: CommandLine) -> None:
    for words in (["sweep", "--dry-run"], ["orders", "list", "--due"]):
        assert "no deadline" not in on_sqlite(*words).out


def test_dry_run_tells_other_programs_too(never_due: CommandLine) -> None:
    found = never_due("sweep", "--dry-run", "--json").data
    assert (found["orders"], found["without_deadline"], found["without_deadline_more"]) == (1, 2, False)
