"""Whatever is typed or configured wrongly is a sentence and exit code 2, and nothing is half done."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

CONFIGS = {
    "a key that does not exist": ("[store]\nurll = 'sqlite:///shop.db'", "store.urll: no such key; did you mean url?"),
    "a section that does not exist": ("[shop]\nname = 'x'", "shop: no such key"),
    "a number without its unit": ("[timeouts]\ndefault = 30", "timeouts.default: found 30; a duration needs a unit"),
    "a unit that does not exist": ("[timeouts]\ndefault = '30 min'", "a duration needs a unit"),
    "a negative duration": ("[timeouts]\ngrace = '-5s'", "timeouts.grace"),
    "a value out of bounds": ("[closing]\nbatch_size = 0", "closing.batch_size: found 0"),
    "a word that is not allowed": ("[closing]\nmode = 'kill'", 'closing.mode: found "kill"; allowed: "close"'),
    "what cannot stand together": ("[closing]\nconcurrency = 9", "closing.concurrency: found 9 with store.pool_size"),
    "what this version cannot do": ("[arming]\nmode = 'outbox'", "not supported by this version yet"),
    "two assets of one kind": (
        "[[assets]]\nkind = 'a'\nstorage = 'remote'\n[[assets]]\nkind = 'a'\nstorage = 'remote'",
        'assets[1].kind: found "a" again',
    ),
    "an asset without its table": ("[[assets]]\nkind = 'a'\nstorage = 'counter'", "assets[0].table: is missing"),
    "states that are one": ("[orders]\nstates = { paid = 'x', closed = 'x' }", "orders.states"),
    "no TOML at all": ("[store", "not valid TOML"),
    "a table that is not there": ("[orders]\ntable = 'elsewhere'", "orders.table: there is no table elsewhere"),
    "a schema that is not there": ("[orders]\ntable = 'nowhere.orders'", "orders.table"),
    "a column that is not there": ("[orders]\nexpire_at = 'deadline'", "orders.expire_at: table orders has no column"),
    "an optional column that is not there": ("[orders]\ncategory = 'kind'", '"" where the shop has none'),
    "an asset's table that is not there": (
        "[[assets]]\nkind = 'a'\nstorage = 'counter'\ntable = 'sku'\nkey = 'id'\navailable = 'n'",
        "assets[0].table: there is no table sku",
    ),
    "an order number that is not unique": ("[orders]\norder_no = 'category'", "orders.order_no: column category"),
    "numbers for a column of text": (
        "[orders]\nstates = { pending = 0, paid = 1, closed = 2 }",
        "column status holds text",
    ),
    "SQL in a table's name": ('[orders]\ntable = "orders; DROP TABLE stock"', "there is no table orders; DROP TABLE"),
    "SQL in a column's name": ('[orders]\nstatus = "status\' OR 1=1 --"', "has no column status' OR 1=1 --"),
    "a quote in a table's name": ("[orders]\ntable = 'or\"ders'", "orders.table"),
    "a NUL in a name": ('[orders]\ntable = "or\\u0000ders"', "orders.table"),
}
URLS = {
    "oracle://shop": "allowed are postgresql://, mysql://, mariadb:// and sqlite:///",
    "shop.db": "a URL is needed",
    "": "a URL is needed",
    "postgresql://me:secret@host:port/shop": "store.url",
    "postgresql+nonsense://me:secret@host/shop": "this driver is not known",
    "postgresql://me:secret@host": "the database's name is missing",
    "sqlite://": "the database's name is missing",
    "sqlite:///:memory:": "a file is needed",
    "sqlite:///nowhere.db": "there is no file nowhere.db",
    "sqlite:////nowhere/shop.db": "there is no file",
}
ORDERS: dict[str, tuple[tuple[str, ...], str]] = {
    "unknown order": (("order", "show", "nobody"), "there is no order nobody"),
    "unknown order, to close": (("order", "close", "nobody"), "there is no order nobody"),
    "unknown order, to extend": (("order", "extend", "nobody", "--add", "5m"), "there is no order nobody"),
    "too long a number": (("order", "show", "x" * 200), "1 to 190 characters, found 200"),
    "too long a number, to close": (("order", "close", "x" * 200), "1 to 190 characters, found 200"),
    "empty number": (("order", "close", ""), "1 to 190 characters, found 0"),
    "half a surrogate pair": (("order", "close", "o-\udc80"), "surrogate"),
    "NUL byte": (("order", "close", "o-1\0"), "NUL"),
    "NUL byte in a name": (("order", "close", "o-00000", "--by", "x\0"), "NUL"),
    "SQL in a number": (("order", "close", "o-00000' OR '1'='1"), "there is no order o-00000' OR"),
    "wrong reason": (("order", "close", "o-00000", "--reason", "boredom"), "'boredom' is not one of"),
    "timeout as a reason": (("order", "close", "o-00000", "--reason", "timeout"), "'timeout' is not one of"),
    "past extension": (("order", "extend", "o-00000", "--until", "2001-01-01T00:00:00Z"), "has passed already"),
    "extension without a zone": (("order", "extend", "o-00000", "--until", "2099-01-01T00:00:00"), "and a zone"),
    "extension that is no time": (("order", "extend", "o-00000", "--until", "tomorrow"), "an instant needs"),
    "extension without its unit": (("order", "extend", "o-00000", "--add", "30"), "a duration needs a unit"),
    "extension in both ways": (
        ("order", "extend", "o-00000", "--add", "5m", "--until", "2099-01-01T00:00:00Z"),
        "either --until or --add",
    ),
    "extension in neither way": (("order", "extend", "o-00000"), "either --until or --add"),
    "extension beyond all time": (("order", "extend", "o-00000", "--add", "36500d"), ""),
    "no list named": (("orders", "list"), "say one of --due"),
    "two lists named": (("orders", "list", "--due", "--overdue"), "say one of --due"),
    "no limit": (("orders", "list", "--due", "--limit", "0"), "--limit"),
    "nobody to retry": (("quarantine", "retry"), "name orders, or say --all"),
    "retry of everybody and somebody": (("quarantine", "retry", "--all", "o-1"), "name orders, or say --all"),
    "no reason to resolve": (("quarantine", "resolve", "o-1", "--why", " "), "how it was settled"),
    "NUL in a list": (("quarantine", "retry", "o\0"), "NUL"),
    "unknown statement": (("sql", "due_pages"), "did you mean due_page?"),
    "unknown command": (("close", "o-00000"), "No such command 'close'"),
    "unknown option": (("run", "--fast"), "No such option"),
    "config that is not there": (("orders", "list", "--due", "--config", "nowhere.toml"), "cannot be read"),
    "demo without a unit": (("demo", "--timeout", "5"), "a duration needs a unit"),
    "demo beyond its limits": (("demo", "--timeout", "1ms"), "--timeout: from 500ms to 10m is allowed"),
    "demo at no rate": (("demo", "--rate", "0"), "--rate"),
    "JSON of what never ends": (("sweep", "--json"), "--json goes with"),
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """A shop that all cases share: none of them may change it."""
    folder = tmp_path_factory.mktemp("shop")
    command = CommandLine(f"sqlite:///{folder / 'shop.db'}", folder)
    assert command("migrate", "--sample-shop").code == 0
    command.add_orders(2, late=-timedelta(hours=1))
    before = _everything(folder / "shop.db")
    yield command
    assert _everything(folder / "shop.db") == before
    assert sorted(one.name for one in folder.glob("*.db")) == ["shop.db"]


def _everything(file: Path) -> list[str]:
    database = sqlite3.connect(file)
    try:
        return list(database.iterdump())
    finally:
        database.close()


@pytest.mark.parametrize("case", sorted(CONFIGS))
def test_wrong_config_is_refused_with_a_sentence(shop: CommandLine, case: str) -> None:
    text, expected = CONFIGS[case]
    Path(shop.folder, "wrong.toml").write_text(text)
    for arguments in (("sweep", "--once"), ("run",)):
        said = shop(*arguments, "--config", "wrong.toml")
        assert said.code == 2
        assert expected in said.err
        assert said.out == ""


@pytest.mark.parametrize("url", sorted(URLS))
def test_wrong_url_is_refused_with_a_sentence_and_no_secret(shop: CommandLine, url: str) -> None:
    wrong = CommandLine(url, shop.folder)
    said = wrong("orders", "list", "--due")
    assert said.code == 2
    assert URLS[url] in said.err
    assert "secret" not in said.err


@pytest.mark.parametrize("case", sorted(ORDERS))
def test_wrong_words_are_refused_with_a_sentence(shop: CommandLine, case: str) -> None:
    arguments, expected = ORDERS[case]
    said = shop(*arguments)
    assert said.code == (1 if case == "extension beyond all time" else 2)
    assert expected in said.err
    assert said.out == ""


def test_deadline_beyond_the_calendar_is_refused_with_a_sentence(on_sqlite: CommandLine) -> None:
    on_sqlite.add_orders(1, late=datetime.now(UTC) - datetime(9999, 12, 1, tzinfo=UTC))
    said = on_sqlite("order", "extend", "o-00000", "--add", "36500d")
    assert said.code == 2
    assert "beyond the year 9999" in said.err


def test_server_that_does_not_answer_is_a_sentence_and_exit_code_1(shop: CommandLine) -> None:
    away = CommandLine("postgresql://me:secret@127.0.0.1:1/shop", shop.folder)
    for arguments in (("sweep", "--once"), ("orders", "list", "--due"), ("migrate",)):
        said = away(*arguments)
        assert said.code == 1
        assert "database" in said.err
        assert "secret" not in said.err


def test_file_that_is_no_database_is_a_sentence(shop: CommandLine) -> None:
    Path(shop.folder, "text.txt").write_text("this is no database\n" * 100)
    said = CommandLine("sqlite:///text.txt", shop.folder)("orders", "list", "--due")
    assert said.code == 1
    assert "not a database" in said.err


def test_process_of_its_own_says_the_same(shop: CommandLine) -> None:
    said = shop.alone("order", "show", "nobody")
    assert (said.code, said.out, said.err) == (2, "", "duetime: there is no order nobody\n")
