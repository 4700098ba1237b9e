"""`duetime order`, `orders`, `migrate`, `sql`, `version` and what holds for every command."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from duetime import __version__
from duetime.stores.sql.statements import Statements
from tests.support.command_line import CommandLine

HOUR = timedelta(hours=1)


def test_order_show_tells_the_whole_story(duetime: CommandLine) -> None:
    (number,) = duetime.add_orders(1, late=-HOUR)
    story = duetime("order", "show", number, "--json").data
    assert story["order"]["order_no"] == number
    assert story["order"]["state"] == "pending"
    assert story["payable"] is True
    assert 3500 < story["seconds_left"] <= 3600
    assert story["holds"] == [
        {"order_no": number, "hold": {"kind": "stock", "ref": "sku-1", "quantity": 1}, "state": "held"}
    ]
    told = duetime("order", "show", number).out
    assert f"order {number}: pending" in told
    assert "1 of stock sku-1: held" in told


def test_order_close_gives_back_and_is_told_by_whom(duetime: CommandLine) -> None:
    (number,) = duetime.add_orders(1, late=-HOUR)
    said = duetime("order", "close", number, "--reason", "customer", "--by", "anna")
    assert (said.code, said.err) == (0, "")
    assert said.out == f"order {number} is closed (customer, by anna); it gives back 1 of stock sku-1\n"
    assert duetime.stock()["sku-1"] == (11, 0)
    row = duetime.shop(lambda hand: hand.orders())[number]
    assert (row.status, row.close_reason, row.close_source) == ("closed", "customer", "anna")
    assert "for customer, by anna" in duetime("order", "show", number).out

    again = duetime("order", "close", number, "--json")
    assert again.code == 1
    assert (again.data["outcome"], again.data["done"], again.data["source"]) == ("already closed", False, "anna")


def test_order_close_is_refused_where_the_order_was_paid(duetime: CommandLine) -> None:
    (number,) = duetime.add_orders(1, late=-HOUR)
    duetime.shop(lambda hand: hand.set_status(number, "paid"))
    said = duetime("order", "close", number)
    assert (said.code, said.out) == (1, "")
    assert said.err == f"duetime: order {number} is paid: it is no longer pending, nothing was changed\n"


def test_order_extend_moves_the_deadline(duetime: CommandLine) -> None:
    (number,) = duetime.add_orders(1, late=-HOUR)
    before = duetime.shop(lambda hand: hand.orders())[number].expire_at
    assert before is not None
    assert duetime("order", "extend", number, "--add", "30m").code == 0
    until = before + timedelta(minutes=45)
    said = duetime("order", "extend", number, "--until", until.isoformat(), "--by", "anna", "--json")
    assert (said.code, said.data["outcome"], said.data["extended"]) == (0, "extended", 45 * 60)
    assert duetime.shop(lambda hand: hand.orders())[number].expire_at == until
    assert "extended   2 times, by 45m" in duetime("order", "show", number).out

    refused = duetime("order", "extend", number, "--add", "3h")
    assert refused.code == 1
    assert "limited to 2:00:00 in all" in refused.err


def test_a_status_of_the_shop_s_own_stands_beside_our_word(on_sqlite: CommandLine) -> None:
    (other,) = on_sqlite.add_orders(1, late=HOUR, prefix="b", hold=False)
    on_sqlite.shop(lambda hand: hand.set_status(other, "weird"))
    on_sqlite.more["DUETIME_ORDERS__STATES__PAID"] = "weird"
    assert f"order {other}: paid (weird)" in on_sqlite("order", "show", other).out
    on_sqlite.more["DUETIME_ORDERS__STATES__PAID"] = "else"
    assert "in a state that orders.states does not name (weird)" in on_sqlite("order", "show", other).out


def test_orders_list_tells_due_from_overdue(duetime: CommandLine) -> None:
    duetime.more["DUETIME_SWEEP__INTERVAL"] = "60s"
    duetime.add_orders(1, late=timedelta(seconds=20), prefix="due")
    duetime.add_orders(1, late=HOUR, prefix="overdue")
    duetime.add_orders(1, late=-HOUR, prefix="later")
    due = duetime("orders", "list", "--due", "--json").data
    assert [order["order_no"] for order in due] == ["overdue-00000", "due-00000"]
    overdue = duetime("orders", "list", "--overdue", "--json").data
    assert [order["order_no"] for order in overdue] == ["overdue-00000"]
    assert overdue[0]["late_seconds"] == pytest.approx(3600, abs=60)
    table = duetime("orders", "list", "--due", "--limit", "1").out.splitlines()
    assert table[0].split("\t")[:2] == ["order_no", "expire_at"]
    assert len(table) == 2


def test_what_the_sweep_leaves_to_a_trigger_is_not_overdue_yet(duetime: CommandLine) -> None:
    """A margin of half an interval: it is closed 90 seconds after it was due, at the latest."""
    duetime.more |= {"DUETIME_SWEEP__INTERVAL": "60s", "DUETIME_TRIGGERS": '[{"type": "database", "ahead": "1m"}]'}
    for late in (65, 95):
        duetime.add_orders(1, late=timedelta(seconds=late), prefix=f"late-{late}")
    overdue = duetime("orders", "list", "--overdue", "--json").data
    assert [order["order_no"] for order in overdue] == ["late-95-00000"]


def test_migrate_twice_is_as_good_as_once(empty: CommandLine) -> None:
    first = empty("migrate", "--sample-shop", "--json").data
    assert sorted(first["sample_tables"]) == ["coupon", "orders", "stock"]
    assert first["applied"]
    again = empty("migrate")
    assert again.code == 0
    assert "up to date" in again.out


def test_migrate_prints_instead(empty: CommandLine) -> None:
    said = empty("migrate", "--sql", "--sample-shop")
    assert said.code == 0
    for table in ("duetime_hold", "duetime_outbox", "orders"):
        assert re.search(rf"CREATE TABLE.*{table}", said.out)
    assert empty("order", "show", "x").code == 2


def test_migrate_can_leave_the_shop_alone(empty: CommandLine) -> None:
    report = empty("migrate", "--no-shop-ddl", "--json").data
    assert report["index"] is None
    assert "there is no table orders" in empty("orders", "list", "--due").err


def test_every_statement_is_printed_for_the_tables_as_they_are(duetime: CommandLine) -> None:
    printed = duetime("sql", "--json").data
    names = {one["name"] for one in printed}
    built = {name for name in dir(Statements) if hasattr(getattr(Statements, name), "__wrapped__")}
    unused = {"put_close_notes", "read_lines"}  # by the sample shop
    forms = {"insert", "upsert"}  # printed under the names of what they write
    assert built - unused - forms <= names
    assert {"insert_holds", "move_holds", "add_facts", "record_payments", "put_failures"} <= names
    assert all(one["purpose"] and one["sql"] for one in printed)
    text = json.dumps(printed, ensure_ascii=False)
    assert not re.search(r"POSTCOMPILE|%s|%\(|REQUIRED|duetime_order_nos", text)
    (close,) = [one["sql"] for one in printed if (one["name"], one["case"]) == ("close_if_pending", "due")]
    assert "status='closed'" in close
    assert "'pending'" in close
    assert ":due_by" in close


def test_sql_prints_one_by_name_and_knows_the_shops_own_columns(duetime: CommandLine) -> None:
    duetime.more |= {"DUETIME_ORDERS__CLOSE_REASON": "", "DUETIME_ORDERS__CLOSED_AT": ""}
    said = duetime("sql", "close_if_pending")
    assert said.out.count("UPDATE orders SET") == 2
    assert "close_reason" not in said.out
    assert "close_source" in said.out
    (notes,) = duetime("sql", "put_close_notes", "--json").data
    assert "closed_at" in notes["sql"]
    assert "close_reason" in notes["sql"]


def test_version(on_sqlite: CommandLine) -> None:
    assert on_sqlite.alone("version").out == f"duetime {__version__}\n"
    assert on_sqlite("version", "--json").data["duetime"] == __version__


def test_config_is_taken_before_and_after_the_command(on_sqlite: CommandLine) -> None:
    Path(on_sqlite.folder, "other.toml").write_text('[orders]\ntable = "elsewhere"\n')
    for arguments in (
        ("--config", "other.toml", "orders", "list", "--due"),
        ("orders", "--config", "other.toml", "list", "--due"),
        ("orders", "list", "--due", "--config", "other.toml"),
    ):
        said = on_sqlite(*arguments)
        assert (said.code, "there is no table elsewhere" in said.err) == (2, True)
    on_sqlite.more["DUETIME_CONFIG"] = "other.toml"
    assert on_sqlite("orders", "list", "--due").code == 2


def test_config_after_the_command_comes_before_the_one_before_it(on_sqlite: CommandLine) -> None:
    Path(on_sqlite.folder, "wrong.toml").write_text("nonsense = 1\n")
    Path(on_sqlite.folder, "right.toml").write_text("")
    assert on_sqlite("--config", "wrong.toml", "orders", "list", "--due", "--config", "right.toml").code == 0


def test_errors_are_json_where_json_was_asked_for(on_sqlite: CommandLine) -> None:
    on_sqlite.more["DUETIME_ORDERS__TABLE"] = "elsewhere"
    error = json.loads(on_sqlite("orders", "list", "--due", "--json").err)["error"]
    assert error["kind"] == "ConfigError"
    assert error["problems"][0].startswith("orders.table: there is no table elsewhere")
    assert json.loads(on_sqlite("orders", "list", "--json", "--nonsense").err)["error"]["kind"] == "WrongUsage"


def test_help_is_there_for_every_command(on_sqlite: CommandLine) -> None:
    top = on_sqlite("--help")
    assert top.code == 0
    commands = [line.split()[0] for line in top.out.partition("Commands:")[2].splitlines() if line.strip()]
    work = {"demo", "migrate", "run", "sweep", "observe", "doctor", "verify", "pause", "resume", "rate"}
    assert work | {"order", "orders", "quarantine", "sql", "version", "init"} == set(commands)
    for command in commands:
        said = on_sqlite(command, "--help")
        assert said.code == 0
        assert said.out.startswith(f"Usage: duetime {command}")


def test_no_command_shows_the_help_and_counts_as_wrong_usage(on_sqlite: CommandLine) -> None:
    said = on_sqlite()
    assert said.code == 2
    assert "Commands:" in said.err


def test_mistake_of_ours_is_a_sentence_too(on_sqlite: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("duetime.cli.orders.settings_of", broken)
    said = on_sqlite("order", "show", "x")
    assert said.code == 1
    assert "please report it" in said.err
    assert "KeyError" in said.err
