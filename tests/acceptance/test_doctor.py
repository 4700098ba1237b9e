"""`duetime doctor`: each line, with that one thing broken on a real database, and no other line with it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from duetime.doctor import Grade
from duetime.stores.sql import mysql, postgresql
from tests.acceptance.test_grants import account, printed, rights_of
from tests.support.command_line import CommandLine
from tests.support.patient import INDEX, KINDS, ORDER, Patient, not_well
from tests.support.servers import run_apart
from tests.support.shop_database import ShopDatabase

ALL = ("sqlite", "postgresql", "mariadb")


@dataclass(frozen=True)
class Break:
    """One thing broken by plain statements, the one line that says so, and how to mend it where rows are not all."""

    line: str
    grade: Grade
    found: str
    do: tuple[str, ...]
    undo: tuple[str, ...] = ()
    on: tuple[str, ...] = ALL


OUTBOX = (
    "INSERT INTO duetime_outbox (event_id, order_no, type, payload, created_at) "
    "VALUES ('e-%s', '%s', 'order.closed', '{}', :hour_ago)"
)
BREAKS = [
    Break(
        "own tables",
        Grade.FAILED,
        "duetime's own tables are missing: duetime_inbox",
        ("ALTER TABLE duetime_inbox RENAME TO elsewhere",),
        ("ALTER TABLE elsewhere RENAME TO duetime_inbox",),
    ),
    Break(
        "own tables",
        Grade.FAILED,
        "duetime's own tables are at revision 0000, this release works with 0001",
        ("UPDATE duetime_version SET version_num = '0000'",),
        ("UPDATE duetime_version SET version_num = '0001'",),
    ),
    Break(
        "tables",
        Grade.FAILED,
        "assets[0].table: there is no table stock",
        ("ALTER TABLE stock RENAME TO elsewhere",),
        ("ALTER TABLE elsewhere RENAME TO stock",),
    ),
    Break(
        "uniqueness",
        Grade.FAILED,
        "orders.order_no: column order_no of table orders is not unique",
        ("ALTER TABLE orders DROP CONSTRAINT orders_order_no_key",),
        ("ALTER TABLE orders ADD UNIQUE (order_no)",),
        on=("postgresql",),
    ),
    Break(
        "uniqueness",
        Grade.FAILED,
        "orders.order_no: column order_no of table orders is not unique",
        ("ALTER TABLE orders DROP INDEX order_no",),
        ("ALTER TABLE orders ADD UNIQUE order_no (order_no)",),
        on=("mariadb",),
    ),
    Break(
        "storage",
        Grade.WARNING,
        '"stock": UNLOGGED, emptied after a crash of the server',
        ("ALTER TABLE stock SET UNLOGGED",),
        ("ALTER TABLE stock SET LOGGED",),
        on=("postgresql",),
    ),
    Break(
        "storage",
        Grade.FAILED,
        "duetime_lease is MyISAM, which knows no transactions",
        ("ALTER TABLE duetime_lease ENGINE = MyISAM",),
        ("ALTER TABLE duetime_lease ENGINE = InnoDB",),
        on=("mariadb",),
    ),
    Break(
        "index",
        Grade.FAILED,
        "no index of orders serves the due query",
        (f"DROP INDEX {INDEX}",),
        ("migrate",),
        on=("sqlite", "postgresql"),
    ),
    Break(
        "index",
        Grade.FAILED,
        "no index of orders serves the due query",
        (f"DROP INDEX {INDEX} ON orders",),
        ("migrate",),
        on=("mariadb",),
    ),
    Break(
        "index",
        Grade.FAILED,
        f"serves the due query: {INDEX} was left half built",
        (f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{INDEX}'::regclass",),
        (f"UPDATE pg_index SET indisvalid = true WHERE indexrelid = '{INDEX}'::regclass",),
        on=("postgresql",),
    ),
    Break(
        "primary",
        Grade.FAILED,
        "nothing can be written here: default_transaction_read_only is on",
        ("ALTER DATABASE {database} SET default_transaction_read_only = on",),
        (
            "SET default_transaction_read_only = off",
            "ALTER DATABASE {database} RESET default_transaction_read_only",
        ),
        on=("postgresql",),
    ),
    Break(
        "zone",
        Grade.WARNING,
        "; no deadline lies within an hour of now, the next is 8.0 hours ahead",
        (
            *(ORDER % (f"x{n}", "pending", ":eight_hours_ahead") for n in range(15)),
            "UPDATE orders SET expire_at = :eight_hours_ahead WHERE status = 'pending'",
        ),
    ),
    Break(
        "deadlines",
        Grade.WARNING,
        "1 pending order without a deadline in orders.expire_at",
        (
            "ALTER TABLE orders ALTER COLUMN expire_at DROP NOT NULL",
            "INSERT INTO orders (order_no, status) VALUES ('none', 'pending')",
        ),
        ("DELETE FROM orders", "ALTER TABLE orders ALTER COLUMN expire_at SET NOT NULL"),
        on=("postgresql",),
    ),
    Break(
        "deadlines",
        Grade.WARNING,
        "1 pending order without a deadline in orders.expire_at",
        (
            "ALTER TABLE orders MODIFY expire_at datetime(6) NULL",
            "INSERT INTO orders (order_no, status) VALUES ('none', 'pending')",
        ),
        ("DELETE FROM orders", "ALTER TABLE orders MODIFY expire_at datetime(6) NOT NULL"),
        on=("mariadb",),
    ),
    Break(
        "states",
        Grade.WARNING,
        "orders.states names none of the values of status in the newest orders: open (6)",
        ("UPDATE orders SET status = 'open'",),
    ),
    Break(
        "holds",
        Grade.WARNING,
        "none of the newest 5 orders that duetime closed had any hold: nothing was given back",
        tuple(
            statement
            for n in range(5)
            for statement in (ORDER % (f"x{n}", "closed", ":hour_ago"), OUTBOX % (f"x{n}", f"x{n}"))
        ),
    ),
    Break(
        "unfinished",
        Grade.WARNING,
        "1 order should have given back or used up long ago, late among them",
        (
            ORDER % ("late", "closed", ":hour_ago"),
            OUTBOX % ("late", "late"),
            (
                "INSERT INTO duetime_hold (order_no, kind, ref, quantity, state) "
                "VALUES ('late', 'stock', 'sku-1', 1, 'releasing')"
            ),
        ),
    ),
    Break(
        "quarantine",
        Grade.WARNING,
        "1 order is in quarantine",
        (
            (
                "INSERT INTO duetime_quarantine VALUES "
                "('so-1', 'close', 5, :hour_ago, :hour_ago, :hour_ago, 'quarantined', 'no row')"
            ),
        ),
    ),
    Break("sweep", Grade.WARNING, "no sweep has ended here yet", ("DELETE FROM duetime_sweep_run",)),
    Break(
        "sweep",
        Grade.WARNING,
        "the last sweep ended 60 minutes ago, one is due every 60 seconds",
        ("UPDATE duetime_sweep_run SET started_at = :hour_ago, finished_at = :hour_ago",),
    ),
    Break(
        "backlog",
        Grade.WARNING,
        "1 order should have been closed, the oldest 60 minutes ago",
        (ORDER % ("late", "pending", ":hour_ago"),),
    ),
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_line_is_well_where_all_is_well(kind: str, patients: Callable[[str], Patient]) -> None:
    lines = run_apart(patients(kind).lines())
    assert [(line.check, line.grade) for line in lines if line.grade is not Grade.OK] == []
    assert len(lines) == 22
    found = {line.check: line.found for line in lines}
    assert found["index use"] == f"the due query uses {INDEX}"
    assert found["states"] == "orders.states names every value of the newest 6 orders"
    if kind == "mariadb":
        assert found["collation"].startswith("capitals do not count in order numbers (utf8mb4_")


CASES = [
    pytest.param(kind, one, id=f"{kind}-{one.line}-{n}", marks=pytest.mark.services if kind != "sqlite" else ())
    for n, one in enumerate(BREAKS)
    for kind in one.on
]


@pytest.mark.parametrize("kind, broken", CASES)
def test_one_broken_thing_is_one_sentence(kind: str, broken: Break, patients: Callable[[str], Patient]) -> None:
    patient = patients(kind)
    run_apart(patient.treat(broken.do))
    try:
        (line,) = not_well(run_apart(patient.lines()))
    finally:
        run_apart(patient.treat(broken.undo))
    assert (line.check, line.grade) == (broken.line, broken.grade)
    assert broken.found in line.found
    assert line.remedy


@pytest.mark.parametrize("words", ["the next is 8.0 hours ahead", "all within a day lie in the past"])
def test_a_wrong_zone_is_seen_beside_an_old_order(words: str, patients: Callable[[str], Patient]) -> None:
    patient = patients("sqlite")
    moved = ":eight_hours_ahead" if "ahead" in words else ":eight_hours_ago"
    orders = [ORDER % (f"x{n}", "pending", moved) for n in range(15)]
    all_moved = f"UPDATE orders SET expire_at = {moved} WHERE status = 'pending'"
    run_apart(patient.treat([*orders, all_moved, ORDER % ("old", "pending", ":ten_days_ago")]))
    (line,) = (one for one in run_apart(patient.lines()) if one.check == "zone")
    assert (line.grade, words in line.found) == (Grade.WARNING, True), line
    assert 'orders.time_form takes expire_at for "instant"' in line.remedy


@pytest.mark.parametrize("form", ["Asia/Shanghai", {"expire_at": "Asia/Shanghai"}])
def test_the_zone_that_may_be_wrong_is_named(form: str | dict[str, str], patients: Callable[[str], Patient]) -> None:
    """Deadlines in UTC that the config calls Shanghai's: each is taken for eight hours earlier."""
    patient = patients("sqlite")
    patient.time_form = form
    run_apart(patient.treat([ORDER % (f"x{n}", "pending", ":half_hour_ahead") for n in range(20)]))
    (line,) = (one for one in run_apart(patient.lines()) if one.check == "zone")
    assert line.grade is Grade.WARNING, line
    assert line.found.endswith("no deadline lies within an hour of now, and all within a day lie in the past")
    assert 'orders.time_form takes expire_at for "Asia/Shanghai"' in line.remedy


def test_a_first_run_that_will_be_refused_is_named_beside_its_backlog(patients: Callable[[str], Patient]) -> None:
    patient = patients("sqlite")
    run_apart(patient.treat([ORDER % ("old", "pending", ":ten_days_ago")]))
    (swept,) = not_well(run_apart(patient.lines()))
    run_apart(patient.treat(["DELETE FROM duetime_sweep_run"]))
    _, first = not_well(run_apart(patient.lines()))
    assert (swept.check, "--accept-backlog" in swept.remedy) == ("backlog", False)
    assert (first.check, "--accept-backlog" in first.remedy) == ("backlog", True)
    patient.not_before = datetime.now(UTC) - timedelta(days=9)
    (line,) = not_well(run_apart(patient.lines()))
    assert line.check == "sweep"


def test_states_of_the_shop_s_own_are_told_and_are_no_fault(patients: Callable[[str], Patient]) -> None:
    patient = patients("sqlite")
    run_apart(patient.treat(["UPDATE orders SET status = 'shipped' WHERE order_no = 'so-5'"]))
    lines = run_apart(patient.lines())
    assert not_well(lines) == []
    (states,) = (line.found for line in lines if line.check == "states")
    assert states == "of the newest 6 orders some have states of the shop's own: shipped (1)"


@pytest.mark.services
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_clocks_that_differ(kind: str, patients: Callable[[str], Patient]) -> None:
    (line,) = not_well(run_apart(patients(kind).lines(ahead=timedelta(seconds=5))))
    assert (line.check, line.grade) == ("clock", Grade.WARNING)
    assert " s behind this machine's" in line.found
    assert abs(float(line.found.split()[4]) - 5) < 0.5


@pytest.mark.services
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_servers_that_are_too_old(
    kind: str, patients: Callable[[str], Patient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql.PostgreSQL, "oldest", (99,))
    monkeypatch.setattr(mysql.MySQL, "oldest_mariadb", (99, 1))
    lines = run_apart(patients(kind).lines())
    assert (lines[1].check, lines[1].grade) == ("version", Grade.FAILED)
    assert "99" in lines[1].remedy


@pytest.mark.services
def test_another_isolation_than_read_committed(
    patients: Callable[[str], Patient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql, "_MARIADB_ISOLATION", "SET SESSION tx_isolation = 'REPEATABLE-READ'")
    (line,) = not_well(run_apart(patients("mariadb").lines()))
    assert (line.check, line.grade, line.found) == ("session", Grade.FAILED, "our transactions are repeatable read")


@pytest.mark.services
@pytest.mark.parametrize("kind, dialect", [("postgresql", postgresql), ("mariadb", mysql)])
def test_statements_that_commit_by_themselves(
    kind: str, dialect: ModuleType, patients: Callable[[str], Patient], monkeypatch: pytest.MonkeyPatch
) -> None:
    def autocommit(url: str, **options: Any) -> AsyncEngine:  # noqa: ANN401 -- SQLAlchemy's own
        return create_async_engine(url, **{**options, "isolation_level": "AUTOCOMMIT"})

    monkeypatch.setattr(dialect, "create_async_engine", autocommit)
    (line,) = not_well(run_apart(patients(kind).lines()))
    assert (line.check, line.grade) == ("session", Grade.FAILED)
    assert line.found == "each statement of a transaction of ours is one by itself"


@pytest.mark.services
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_idleness_that_nobody_bounds(
    kind: str, patients: Callable[[str], Patient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql, "_MARIADB_IDLE", "SET SESSION idle_transaction_timeout = 0")
    opening = str(postgresql._OPENING).replace("idle_in_transaction_session_timeout', '5s'", "lock_timeout', '3s'")
    monkeypatch.setattr(postgresql, "_OPENING", text(opening))
    (line,) = not_well(run_apart(patients(kind).lines()))
    assert (line.check, line.grade) == ("session", Grade.WARNING)
    assert line.found == "our transactions may stand still for as long as they like"


@pytest.mark.services
def test_an_index_that_the_planner_does_not_use(
    patients: Callable[[str], Patient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few rows say nothing; with many it is a warning."""
    patient = patients("postgresql")
    opening = str(postgresql._OPENING).replace("enable_seqscan', 'off'", "enable_indexscan', 'off'")
    monkeypatch.setattr(postgresql, "_OPENING", text(opening))
    run_apart(patient.treat(["VACUUM ANALYZE orders"]))
    lines = run_apart(patient.lines())
    assert not_well(lines) == []
    assert [line.found for line in lines if line.check == "index use"] == [
        "the due query reads the whole table: with so few rows that says nothing yet"
    ]
    more = (
        "INSERT INTO orders (order_no, status, expire_at) "
        "SELECT 'm-' || n, 'pending', :half_hour_ahead FROM generate_series(1, 3000) n"
    )
    run_apart(patient.treat([more, "VACUUM ANALYZE orders"]))
    (line,) = not_well(run_apart(patient.lines()))
    assert (line.check, line.grade) == ("index use", Grade.WARNING)
    assert line.found == f"the due query reads the whole table, not {INDEX}"


@pytest.mark.services
def test_orders_that_only_leaves_at_the_head_of_the_index(patients: Callable[[str], Patient]) -> None:
    patient = patients("mariadb")
    patient.only = "channel <> 'cod'"
    few = (
        "INSERT INTO orders (order_no, status, expire_at, channel) "
        "SELECT concat('a', seq), 'pending', :hour_ago, 'cod' FROM seq_1_to_10"
    )
    run_apart(patient.treat([few]))
    (line,) = (line for line in run_apart(patient.lines()) if line.check == "left out")
    assert (line.grade, line.found) == (Grade.OK, "orders.only leaves out 10 due orders")
    run_apart(patient.treat([few.replace("'a'", "'b'").replace("seq_1_to_10", "seq_1_to_1000")]))
    (line,) = (line for line in run_apart(patient.lines()) if line.check == "left out")
    assert line.grade is Grade.WARNING
    assert line.found == "orders.only leaves out 1010 due orders; every search for due orders reads past them"


@pytest.mark.parametrize("pointer", ["order_no", "order_id"])
@pytest.mark.parametrize("kind", KINDS)
def test_lines_of_orders_that_closed_without_a_hold(
    kind: str, pointer: str, patients: Callable[[str], Patient]
) -> None:
    patient = patients(kind)
    patient.from_lines = {"table": "line", pointer: "whose", "ref": "sku"}
    kept, whose = {"order_no": ("varchar(64)", "order_no"), "order_id": ("bigint", "id")}[pointer]
    closed = [
        f"CREATE TABLE line (whose {kept}, sku varchar(40))",
        "CREATE INDEX line_whose ON line (whose)",
        *(ORDER % (number, "closed", ":hour_ago") for number in ("x1", "x2")),
        *(OUTBOX % (number, number) for number in ("x1", "x2")),
    ]
    run_apart(patient.treat(closed))
    try:
        assert not_well(run_apart(patient.lines())) == []
        run_apart(patient.treat([f"INSERT INTO line SELECT {whose}, 'sku-1' FROM orders WHERE order_no = 'x1'"]))
        (line,) = not_well(run_apart(patient.lines()))
    finally:
        run_apart(patient.treat(["DROP TABLE line"]))
    assert (line.check, line.grade) == ("holds", Grade.WARNING)
    assert line.found == (
        "2 orders that duetime closed had no hold, yet the shop has 1 line for them: nothing was given back"
    )


async def test_each_missing_right_is_named_with_its_grant(shop: ShopDatabase) -> None:
    await shop.execute("INSERT INTO duetime_sweep_run (shard, worker, started_at, finished_at, due_found, closed) "
                       "VALUES (0, 'w', :now, :now, 0, 0)", now=datetime.now(UTC))  # fmt: skip
    async with account(shop) as of:
        rights = list(rights_of(await printed(shop, of.name)))
        taken = [right for right in rights if right.right.startswith("UPDATE (") or right.right == "INSERT"]
        await shop.execute(*(right.statement("GRANT", of.role) for right in rights))
        assert not_well(await Patient("", of.url).lines()) == []
        for right in (taken[0], taken[-2], taken[-1]):
            await shop.execute(right.statement("REVOKE", of.role))
            broken = not_well(await Patient("", of.url).lines())
            if right is taken[-1]:
                assert broken == [], "who places no orders needs no right to insert them"
            else:
                assert broken, f"{right} was taken away and nothing was said"
                (line,) = broken
                assert (line.check, line.grade) == ("rights", Grade.FAILED)
                assert right.right.split()[0] in line.found
                assert line.remedy.startswith("GRANT ")
                for statement in line.remedy.split("; "):
                    await shop.execute(statement)
            assert not_well(await Patient("", of.url).lines()) == [], "the remedy mends it"


def test_a_server_that_is_away_is_one_failure(tmp_path: Path) -> None:
    command = CommandLine("postgresql://nobody:secret@127.0.0.1:9/shop", tmp_path)
    said = command("doctor")
    assert said.code == 1
    assert "secret" not in said.out + said.err
    assert "FAILED  server: postgresql+psycopg://nobody:***@127.0.0.1:9/shop does not answer" in said.out
    assert said.out.count("FAILED") == 1
    assert "skipped version: not looked at: it needs the check 'server'" in said.out
    assert said.out.splitlines()[-1] == "24 checks: 1 failed, 21 not looked at, 2 well"


def test_a_file_that_is_not_there_is_no_config_error(tmp_path: Path) -> None:
    said = CommandLine(f"sqlite:///{tmp_path}/none.db", tmp_path)("doctor", "--json")
    assert said.code == 1
    assert [(line["check"], line["grade"]) for line in said.data["checks"]] == [("config", "ok"), ("driver", "failed")]
    assert "there is no file" in said.data["checks"][1]["found"]
    assert not Path(tmp_path, "none.db").exists()


def test_only_a_bad_config_ends_with_two(on_sqlite: CommandLine) -> None:
    said = on_sqlite("doctor")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("ok      config: ")
    on_sqlite.more["DUETIME_API__PORT"] = "1"
    said = on_sqlite("doctor")
    assert said.code == 0
    assert said.out.startswith("warning config: api.port has no effect in this version: there is no HTTP API yet\n")
    on_sqlite.more["DUETIME_SWEEP__INTERVAL"] = "soon"
    assert on_sqlite("doctor").code == 2
