"""`duetime init` from outside: what it finds where a database is unlike what it hopes for, and what it leaves alone."""

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import pytest

from duetime.settings import Settings, load_settings
from tests.acceptance.test_grants import account, printed, rights_of
from tests.docs.by_hand import run_sql
from tests.support.command_line import CommandLine, Said
from tests.support.shop_database import ShopDatabase

ORDERS = """
CREATE TABLE {name} (
    id bigint PRIMARY KEY, order_no varchar(40) NOT NULL UNIQUE, status varchar(20) NOT NULL, expire_at timestamp NULL,
    amount bigint
);
INSERT INTO {name} (id, order_no, status) VALUES (1, '{name}-1', 'unpaid'), (2, '{name}-2', 'paid'),
    (3, '{name}-3', 'cancelled');
"""


@pytest.fixture
def rivals(empty: CommandLine) -> CommandLine:
    """The command on a database with two tables that look like orders, and no other."""
    for name in ("retail_orders", "trade_orders"):
        run_sql(empty.url, ORDERS.format(name=name))
    return empty


def init(command: CommandLine, *more: str, url: str = "") -> Said:
    return command("init", "--from-url", url or command.url, *more)


def proposed(command: CommandLine, *more: str) -> tuple[dict[str, Any], list[str]]:
    """Answer what is proposed without a mark, and the sentences on what is marked."""
    said = init(command, "--output", "-", "--json", *more)
    assert said.code == 0, said.err
    return tomllib.loads(said.data["config"]), said.data["unsure"]


def test_of_two_rivals_neither_is_taken_for_sure_and_both_are_named(rivals: CommandLine) -> None:
    config, unsure = proposed(rivals)
    assert "table" not in config["orders"]
    (line,) = (one for one in unsure if one.startswith("orders.table: "))
    assert "trade_orders" in line
    assert line.endswith("begin again with --table")
    assert '# FILL IN: table = "retail_orders"' in init(rivals, "--output", "-").out


def test_the_named_table_is_taken(rivals: CommandLine) -> None:
    config, unsure = proposed(rivals, "--table", "trade_orders")
    orders = config["orders"]
    assert (orders["table"], orders["order_no"]) == ("trade_orders", "order_no")
    assert orders["states"] == {"pending": "unpaid", "paid": "paid", "closed": "cancelled"}
    assert not [one for one in unsure if one.startswith("orders.table")]


@pytest.mark.parametrize(
    "named, sentence",
    [
        ("nothing", "there is no table nothing; there are retail_orders, trade_orders"),
        ("other.trade_orders", "there is no table other.trade_orders; there are"),
        ("", """found ''; "table" or "schema.table" is allowed"""),
        ("shop.", """found 'shop.'; "table" or "schema.table" is allowed"""),
    ],
)
def test_a_name_that_is_no_table_is_a_sentence(rivals: CommandLine, named: str, sentence: str) -> None:
    said = init(rivals, "--table", named)
    assert (said.code, said.out) == (2, "")
    assert f"duetime: --table: {sentence}" in said.err
    assert not (rivals.folder / "duetime.toml").exists()


def test_the_schema_may_be_named_and_must_be_where_it_is_needed(postgresql_url: str, tmp_path: Path) -> None:
    command = CommandLine(postgresql_url, tmp_path)
    for schema in ("public", "east", "west"):
        run_sql(postgresql_url, f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for name in ("trade_orders", "east.bookings", "west.bookings"):
        run_sql(postgresql_url, ORDERS.format(name=name))
    assert proposed(command, "--table", "public.trade_orders")[0]["orders"]["table"] == "trade_orders"
    assert proposed(command, "--table", "west.bookings")[0]["orders"]["table"] == "west.bookings"
    said = init(command, "--table", "bookings")
    assert (said.code, "could be any of east.bookings, west.bookings" in said.err) == (2, True), said.err


def test_where_nothing_looks_like_stock_it_asks(rivals: CommandLine) -> None:
    config, unsure = proposed(rivals, "--table", "trade_orders")
    assert "assets" not in config
    assert unsure[0].startswith("assets: no table was found that counts what orders hold")


@pytest.mark.parametrize("column, written", [("lock_version", "lock_version + 1"), ("Version", '"Version" + 1')])
def test_a_version_column_is_proposed_as_sql_names_it(
    postgresql_url: str, tmp_path: Path, column: str, written: str
) -> None:
    command = CommandLine(postgresql_url, tmp_path)
    run_sql(command.url, ORDERS.format(name="trade_orders") + f'ALTER TABLE trade_orders ADD "{column}" integer')
    (line,) = [one for one in init(command, "--output", "-").out.splitlines() if "set = " in one]
    assert tomllib.loads(line.removeprefix("# FILL IN: ")) == {"set": {column: written}}


WAREHOUSES = """
CREATE TABLE warehouse_stock (
    warehouse_id bigint NOT NULL, sku_id bigint NOT NULL, available integer NOT NULL, reserved integer NOT NULL,
    PRIMARY KEY (warehouse_id, sku_id)
);
CREATE TABLE trade_order_item (
    item_id bigint PRIMARY KEY, order_no varchar(40) NOT NULL, sku_id bigint NOT NULL, warehouse_id bigint NOT NULL,
    quantity integer NOT NULL{declared}
);
"""
DECLARED = ", FOREIGN KEY (sku_id, warehouse_id) REFERENCES warehouse_stock (sku_id, warehouse_id)"


@pytest.mark.parametrize("declared", [True, False])
def test_lines_name_all_of_a_key_in_its_order(rivals: CommandLine, *, declared: bool) -> None:
    unique = ";\nCREATE UNIQUE INDEX by_sku ON warehouse_stock (sku_id, warehouse_id)" if declared else ""
    tables, _, lines = WAREHOUSES.format(declared=DECLARED if declared else "").partition(";")
    run_sql(rivals.url, f"{tables}{unique};{lines}")
    said = init(rivals, "--output", "-", "--table", "trade_orders")
    mark = "" if declared else "# FILL IN: "
    line = '"trade_order_item", order_no = "order_no", ref = ["warehouse_id", "sku_id"], quantity = "quantity" }'
    assert f"\n{mark}from = {{ table = {line}" in said.out


# What the account may not see


async def test_who_may_not_read_rows_is_told_that_they_could_not_be_read(shop: ShopDatabase, tmp_path: Path) -> None:
    """It sees the columns, as far as the database shows them, and marks what only rows would tell."""
    await shop.execute("INSERT INTO orders (order_no, status, expire_at) VALUES ('o-1', 'pending', CURRENT_TIMESTAMP)")
    async with account(shop) as of:
        rights = [right for right in rights_of(await printed(shop, of.name)) if not right.right.startswith("SELECT")]
        await shop.execute(*(right.statement("GRANT", of.role) for right in rights))
        command = CommandLine(of.url, tmp_path)
        said = await asyncio.to_thread(init, command, "--output", "-", "--json")
    assert said.code == 0, said.err
    config, unsure, unseen = tomllib.loads(said.data["config"]), said.data["unsure"], said.data["unseen"]
    assert config["orders"]["table"] == "orders"
    assert "states" not in config["orders"]
    (line,) = (one for one in unsure if one.startswith("orders.states: "))
    assert line.startswith("orders.states: the rows could not be read (")
    assert "denied" in line
    assert {"stock", "coupon"} <= {asset["table"] for asset in config.get("assets", ())} | {*unseen}, (
        "one was passed over"
    )


async def test_who_has_no_right_at_all_is_refused_with_what_the_database_said(
    shop: ShopDatabase, tmp_path: Path
) -> None:
    async with account(shop) as of:
        command = CommandLine(of.url, tmp_path)
        said = await asyncio.to_thread(init, command)
    assert (said.code, said.out) == (1, "")
    assert "denied" in said.err
    assert of.password not in said.err
    assert not (tmp_path / "duetime.toml").exists()


# What is left alone


def test_a_file_that_is_there_is_kept_unless_asked(rivals: CommandLine) -> None:
    file = rivals.folder / "duetime.toml"
    file.write_text("# ours\n", encoding="utf-8")
    for arguments in (
        ["init"],
        ["init", "--from-url", rivals.url],
        ["init", "--from-url", "postgresql://x@127.0.0.1:1/x"],
    ):
        said = rivals(*arguments)
        assert (said.code, said.out) == (2, "")
        assert "there is a file duetime.toml already; --force overwrites it" in said.err
    assert init(rivals, "--output", "-").code == 0
    assert file.read_text(encoding="utf-8") == "# ours\n"
    assert init(rivals, "--force").code == 0
    assert "[orders]" in file.read_text(encoding="utf-8")


def test_what_fails_leaves_the_file_as_it_was(rivals: CommandLine) -> None:
    file = rivals.folder / "duetime.toml"
    file.write_text("# ours\n", encoding="utf-8")
    assert init(rivals, "--force", "--table", "nothing").code == 2
    assert file.read_text(encoding="utf-8") == "# ours\n"


def test_a_plain_init_writes_every_key_with_its_default(sqlite_url: str, tmp_path: Path) -> None:
    command = CommandLine(sqlite_url, tmp_path)
    assert command("init").code == 0
    assert load_settings(tmp_path / "duetime.toml", environ={}) == Settings()
    again = command("init")
    assert (again.code, "--force" in again.err) == (2, True), "it overwrote what somebody had written"
    assert command("init", "--force").code == 0
    printed = command("init", "--output", "-").out
    assert printed.strip() == (tmp_path / "duetime.toml").read_text(encoding="utf-8").strip()


def test_the_sample_shop_is_recognised(sqlite_url: str, tmp_path: Path) -> None:
    command = CommandLine(sqlite_url, tmp_path)
    assert command("migrate", "--sample-shop").code == 0
    said = command("init", "--from-url", sqlite_url, "--output", "-")
    assert said.code == 0, said.err
    orders = tomllib.loads(said.out)["orders"]
    assert (orders["table"], orders["order_no"], orders["expire_at"]) == ("orders", "order_no", "expire_at")


@pytest.mark.parametrize("url", ["nonsense", "sqlite:///absent.db", "oracle://user:secret@host/shop"])
def test_a_bad_url_is_a_sentence(url: str, tmp_path: Path) -> None:
    said = CommandLine("sqlite:///shop.db", tmp_path)("init", "--from-url", url)
    assert said.code == 2
    assert said.err.startswith("duetime: --from-url: ")
    assert "secret" not in said.err
    assert not list(tmp_path.iterdir()), "a file was made"


def test_an_empty_database_has_nothing_to_adopt(database_url: str, tmp_path: Path) -> None:
    if database_url.startswith("sqlite"):
        Path(database_url.removeprefix("sqlite:///")).touch()
    said = CommandLine(database_url, tmp_path)("init", "--from-url", database_url)
    assert (said.code, "there is no table to adopt" in said.err) == (2, True), said.err


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_database_that_is_away_is_a_sentence(kind: str, tmp_path: Path) -> None:
    said = CommandLine("sqlite:///shop.db", tmp_path)("init", "--from-url", f"{kind}://me:secret@127.0.0.1:1/shop")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("duetime: the database is away: ")
    assert "secret" not in said.err
    assert not list(tmp_path.iterdir()), "a file was made"


@pytest.mark.parametrize("more", [[], ["--from-url", "sqlite:///shop.db"]], ids=["every key", "proposed"])
def test_a_written_config_names_the_commands_that_follow(on_sqlite: CommandLine, more: list[str]) -> None:
    words = [one.replace("sqlite:///shop.db", on_sqlite.url) for one in more]
    assert on_sqlite("init", "--force", *words).code == 0
    head = (on_sqlite.folder / "duetime.toml").read_text(encoding="utf-8").partition("[store]")[0]
    steps = ["`duetime migrate`", "`duetime doctor`", "`duetime sweep --dry-run`", "`duetime run`"]
    assert sorted(steps, key=head.find) == steps, head
    assert all(step in head for step in steps), head
