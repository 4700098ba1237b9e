"""Columns of kinds that are rare, or that databases read in their own way: each is served, or refused with a sentence.

What is common is among the shops of ``tests/wild``: ENUM, smallint and tinyint, ``char(1)`` and ``char(2)``, UUID keys,
``utf8mb3_general_ci``.
"""

import tomllib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from tests.docs.by_hand import run_sql
from tests.support.command_line import CommandLine
from tests.support.databases import DatabaseKind, FreshDatabase
from tests.support.plain_sql import PlainSql, connected
from tests.support.shop_database import WORDS, config_text

NONE: Final = dict.fromkeys(("closed_at", "close_reason", "close_source", "category", "amount", "currency"), "")
UUIDS: Final = tuple(f"{str(n) * 8}-0000-4000-8000-000000000abc" for n in range(1, 5))
BYTES: Final = tuple("x'" + uuid.replace("-", "") + "'" for uuid in UUIDS)
UNSIGNED: Final = tuple(str(number) for number in (2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1))
NOW: Final = {"postgresql": "statement_timestamp()", "mariadb": "UTC_TIMESTAMP(6)"}
HOUR: Final = {"postgresql": "interval '1 hour'", "mariadb": "INTERVAL 1 HOUR"}


def quoted(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"'{value}'" for value in values)


def text(prefix: str) -> tuple[str, ...]:
    return quoted([f"{prefix}-{n}" for n in range(1, 5)])


@dataclass(frozen=True)
class Odd:
    """A shop that is plain but for what is given here: types as DDL, values as literals of four orders."""

    name: str
    kind: DatabaseKind
    first: str = ""
    id: str = "bigint"
    ids: Sequence[str] = ("1", "2", "3", "4")
    key: str = "id"
    more: str = ""
    line_ids: Sequence[str] | None = None
    line_id: str = ""
    number: str = "varchar(40)"
    numbers: Sequence[str] = text("a")
    coupon_number: str = ""
    coupon_numbers: Sequence[str] | None = None
    written: Sequence[str] | None = None
    """How the shop writes the numbers in ``duetime_hold``."""
    state: str = "varchar(20)"
    states: Sequence[str] = quoted(("pending", "paid", "closed"))
    named_states: Sequence[str | int] = ("pending", "paid", "closed")
    sku: str = "varchar(40)"
    skus: Sequence[str] = text("s")
    coupon_state: str = "smallint"
    coupon_states: Sequence[str] = ("1", "0")
    suffix: str = ""
    sentence: str = ""
    """With which it is refused."""

    @property
    def ddl(self) -> str:
        """The tables, with what orders hold already taken from them."""
        instant = WORDS[self.kind].instant_type
        named = f"id {self.id} PRIMARY KEY, sn {self.number} NOT NULL UNIQUE"
        coupon_number = self.coupon_number or self.number
        keys = ", FOREIGN KEY (sku) REFERENCES t_sku (sku)"
        if not self.line_id:
            keys += ", FOREIGN KEY (order_id) REFERENCES t_order (id)"
        tables = (
            f"t_order ({named}, state {self.state} NOT NULL, pay_by {instant}{self.more})",
            f"t_sku (sku {self.sku} PRIMARY KEY, free int NOT NULL, kept int NOT NULL)",
            f"t_line (order_id {self.line_id or self.id} NOT NULL, sku {self.sku} NOT NULL, num int NOT NULL{keys})",
            f"t_coupon (id int PRIMARY KEY, state {self.coupon_state} NOT NULL, sn {coupon_number})",
            "t_gift (id int PRIMARY KEY, free int NOT NULL, kept int NOT NULL)",
        )
        made = [f"CREATE TABLE {table} {self.suffix}" for table in tables]
        indexes = [f"CREATE INDEX {table}_order ON {table} ({column})" for table, column in
                   (("t_line", "order_id"), ("t_coupon", "sn"))]  # fmt: skip
        return ";\n".join([*([self.first] if self.first else []), *made, *indexes])

    @property
    def rows(self) -> str:
        """Two orders that are due, one that is paid, one whose deadline lies ahead."""
        pending, paid, _ = self.states
        now, hour = NOW[self.kind], HOUR[self.kind]
        said = ["INSERT INTO t_gift VALUES (7, 10, 2)"]
        said += [f"INSERT INTO t_sku VALUES ({sku}, 10, 10)" for sku in self.skus[:2]]
        for n in range(4):
            state, deadline = paid if n == 2 else pending, f"{now} {'+' if n == 3 else '-'} {hour}"
            values = f"{self.ids[n]}, {self.numbers[n]}, {state}, {deadline}"
            said.append(f"INSERT INTO t_order (id, sn, state, pay_by) VALUES ({values})")
            said.append(f"INSERT INTO t_line VALUES ({(self.line_ids or self.ids)[n]}, {self.skus[n % 2]}, {n + 1})")
            number = (self.coupon_numbers or self.numbers)[n]
            said.append(f"INSERT INTO t_coupon VALUES ({n}, {self.coupon_states[0]}, {number})")
        return ";\n".join(said)

    @property
    def holds(self) -> str:
        numbers = self.written or [number.strip("'") for number in self.numbers]
        rows = ", ".join(f"('{number}', 'gift', '7', 1)" for number in numbers[:2])
        return f"INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES {rows}"

    @property
    def config(self) -> str:
        pending, paid, closed = self.named_states
        order = {"table": "t_order", "id": self.key, "order_no": "sn", "status": "state", "expire_at": "pay_by", **NONE}
        counter = {"storage": "counter", "available": "free", "held": "kept"}
        lines = {"table": "t_line", "order_id": "order_id", "ref": "sku", "quantity": "num"}
        names = {"table": "t_coupon", "order_no": "sn", "ref": "id"}
        coupon = {"kind": "coupon", "storage": "instance", "table": "t_coupon", "key": "id", "state": "state"}
        return config_text(
            {
                "orders": {**order, "states": {"pending": pending, "paid": paid, "closed": closed}},
                "assets": [
                    {**counter, "kind": "stock", "table": "t_sku", "key": "sku", "from": lines},
                    {**counter, "kind": "gift", "table": "t_gift", "key": "id"},
                    {**coupon, "held_value": 1, "free_value": 0, "from": names},
                ],
                "timeouts": {"grace": "0s"},
            }
        )

    def seen(self, url: str) -> dict[str, list[Any]]:
        """Read what there is: how many orders have each state, what can be sold and what is kept."""
        count = "SELECT count(*) FROM t_order WHERE state = {}"
        return {
            "states": [run_sql(url, count.format(state))[0][0] for state in self.states],
            "stock": sorted(run_sql(url, "SELECT free, kept FROM t_sku")),
            "gifts": run_sql(url, "SELECT free, kept FROM t_gift"),
            "coupons": [int(row[0]) for row in run_sql(url, "SELECT state FROM t_coupon ORDER BY id")],
        }


BEFORE: Final = {"states": [3, 1, 0], "stock": [(10, 10), (10, 10)], "gifts": [(10, 2)], "coupons": [1, 1, 1, 1]}
AFTER: Final = {"states": [1, 1, 2], "stock": [(11, 9), (12, 8)], "gifts": [(12, 0)], "coupons": [0, 0, 1, 1]}

CASELESS: Final = "CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
GERMAN: Final = ("pending", "paid", "geschloßen")
SERVED: Final = [
    Odd(
        "uuid",
        "postgresql",
        id="uuid",
        ids=quoted(UUIDS),
        number="uuid",
        numbers=quoted(UUIDS),
        sku="uuid",
        skus=quoted(UUIDS),
    ),
    Odd(
        "uuid",
        "mariadb",
        id="uuid",
        ids=quoted(UUIDS),
        number="uuid",
        numbers=quoted(UUIDS),
        sku="uuid",
        skus=quoted(UUIDS),
    ),
    Odd(
        "uuid-in-capitals", "postgresql", number="uuid", numbers=quoted([uuid.upper() for uuid in UUIDS]), written=UUIDS
    ),
    Odd(
        "domain",
        "postgresql",
        first="CREATE DOMAIN state AS varchar(20) CHECK (value <> ''); CREATE DOMAIN no AS bigint",
        state="state",
        number="no",
        numbers=("10", "11", "12", "13"),
    ),
    Odd("filled-text", "postgresql", id="char(26)", ids=text("i"), number="char(20)", sku="char(20)", state="char(20)"),
    Odd("filled-text", "mariadb", id="char(26)", ids=text("i"), number="char(20)", sku="char(20)", state="char(20)"),
    Odd("one-byte", "postgresql", state='"char"', states=quoted("NPC"), named_states=tuple("NPC")),
    Odd("beyond-double", "postgresql", number="bigint", numbers=("9007199254740993", "2", "3", "4")),
    Odd("decimal", "postgresql", number="numeric(20, 0)", numbers=UNSIGNED, sku="numeric(20, 0)", skus=UNSIGNED),
    Odd("decimal", "mariadb", number="decimal(20, 0)", numbers=UNSIGNED, sku="decimal(20, 0)", skus=UNSIGNED),
    Odd(
        "unsigned",
        "mariadb",
        id="bigint unsigned",
        ids=UNSIGNED,
        number="bigint unsigned",
        numbers=UNSIGNED,
        sku="bigint unsigned",
        skus=UNSIGNED[1:3],
    ),
    Odd("caseless", "postgresql", first=CASELESS, number="varchar(40) COLLATE caseless", coupon_numbers=text("A")),
    Odd("boolean-piece", "mariadb", coupon_state="boolean"),
    Odd(
        "latin1",
        "mariadb",
        numbers=text("é"),
        skus=text("ß"),
        state="enum('pending', 'paid', 'geschloßen')",
        states=quoted(GERMAN),
        named_states=GERMAN,
        suffix="DEFAULT CHARSET=latin1",
    ),
    Odd(
        "mixed-collations",
        "mariadb",
        number="varchar(40) COLLATE utf8mb4_unicode_ci",
        sku="varchar(40) COLLATE utf8mb4_unicode_ci",
        coupon_numbers=text("A"),
        coupon_number="varchar(40) CHARACTER SET latin1 COLLATE latin1_german1_ci",
    ),
    Odd(
        "bytes-and-their-text",
        "mariadb",
        id="binary(16)",
        ids=BYTES,
        key="id_text",
        more=", id_text char(32) AS (HEX(id)) STORED UNIQUE",
        line_id="char(32)",
        line_ids=quoted([uuid.replace("-", "").upper() for uuid in UUIDS]),
    ),
    Odd("enum-in-other-capitals", "mariadb", state="enum('Pending', 'Paid', 'Closed')"),
]

NAME: Final = "and a name is written as an integer, as text or as a UUID"
ENUM: Final = "CREATE TYPE state AS ENUM ('pending', 'paid')"
REFUSED: Final = [
    Odd(
        "boolean",
        "postgresql",
        state="boolean",
        states=("false", "true", "true"),
        named_states=(0, 1, 2),
        sentence="orders.states: column state is BOOLEAN: a state is held as an integer, as text or as an ENUM",
    ),
    Odd(
        "boolean-piece",
        "postgresql",
        coupon_state="boolean",
        coupon_states=("true", "false"),
        sentence="assets[2]: column state is BOOLEAN: a state is held as an integer, as text or as an ENUM",
    ),
    Odd(
        "bits",
        "mariadb",
        state="bit(2)",
        states=("b'0'", "b'1'", "b'10'"),
        named_states=(0, 1, 2),
        sentence="orders.states: column state is BIT: a state is held as an integer, as text or as an ENUM",
    ),
    Odd("set", "mariadb", state="set('pending', 'paid', 'closed')", sentence="orders.states: column state is SET"),
    Odd(
        "enum-without-it",
        "postgresql",
        first=ENUM,
        state="state",
        states=quoted(("pending", "paid", "paid")),
        sentence="orders.states: column state allows pending, paid, and 'closed' is none of them",
    ),
    Odd(
        "enum-without-it",
        "mariadb",
        state="enum('pending', 'paid')",
        states=quoted(("pending", "paid", "paid")),
        sentence="orders.states: column state allows pending, paid, and 'closed' is none of them",
    ),
    Odd("bytes-id", "mariadb", id="binary(16)", ids=BYTES, sentence=f"orders.id: column id is BINARY(16), {NAME}"),
    Odd(
        "bytes-id",
        "postgresql",
        id="bytea",
        ids=[f"'\\{one[0]}{one[2:]}" for one in BYTES],
        sentence=f"orders.id: column id is BYTEA, {NAME}",
    ),
    Odd(
        "bytes-number",
        "mariadb",
        number="varbinary(40)",
        sentence=f"orders.order_no: column sn is VARBINARY(40), {NAME}",
    ),
    Odd(
        "bytes-sku",
        "mariadb",
        sku="binary(16)",
        skus=BYTES,
        sentence=f"assets[0].key: column sku is BINARY(16), {NAME}",
    ),
    Odd(
        "bytes-line",
        "mariadb",
        sku="binary(16)",
        skus=BYTES,
        sentence=f"assets[0].from.ref: column sku is BINARY(16), {NAME}",
    ),
    Odd(
        "decimal-id",
        "postgresql",
        id="numeric(20, 0)",
        sentence="orders.id: column id is NUMERIC(20, 0); use an integer",
    ),
]


def cases(odd: Sequence[Odd]) -> list[Any]:
    return [pytest.param(one, marks=pytest.mark.services, id=f"{one.name}-{one.kind}") for one in odd]


def folded(value: object) -> str:
    """The database takes capitals for the same, where a shop's words and ours differ in them."""
    return str(value).casefold()


def shop_of(odd: Odd, fresh_database: FreshDatabase, folder: Path) -> CommandLine:
    url = fresh_database(odd.kind)
    run_sql(url, f"{odd.ddl};\n{odd.rows}")
    (folder / "duetime.toml").write_text(odd.config, encoding="utf-8")
    return CommandLine(url, folder)


@pytest.mark.parametrize("odd", cases(SERVED))
def test_it_is_served_from_the_first_look_to_the_last(odd: Odd, fresh_database: FreshDatabase, tmp_path: Path) -> None:
    command = shop_of(odd, fresh_database, tmp_path)
    said = command("migrate")
    assert said.code == 0, said.err
    run_sql(command.url, odd.holds)
    assert odd.seen(command.url) == BEFORE
    examined = command("doctor", "--json")
    assert examined.code == 0, examined.out
    assert command("sweep", "--dry-run", "--json").data["orders"] == 2
    swept = command("sweep", "--once", "--json")
    assert odd.seen(command.url) == AFTER, swept
    numbers = odd.written or [number.strip("'") for number in odd.numbers]
    assert {row[0] for row in run_sql(command.url, "SELECT order_no FROM duetime_hold")} == {*numbers[:2]}
    assert command("order", "show", numbers[0]).code == 0
    assert command("order", "close", numbers[3], "--reason", "staff").code == 0
    assert odd.seen(command.url)["states"] == [0, 1, 3]
    assert command("verify", "--patience", "0s", "--json").data["findings"] == []


@pytest.mark.parametrize("odd", cases(REFUSED))
def test_it_is_refused_with_a_sentence_and_nothing_is_touched(
    odd: Odd, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    command = shop_of(odd, fresh_database, tmp_path)
    before = odd.seen(command.url)
    migrated = command("migrate")
    if migrated.code == 0:
        assert odd.sentence in command("doctor").out
        assert odd.sentence in command("sweep", "--once").err
    else:
        assert (migrated.code, odd.sentence in migrated.err) == (2, True), migrated.err
    assert command("sweep", "--once").code == 2
    assert odd.seen(command.url) == before


@pytest.mark.parametrize("odd", cases([*SERVED, *REFUSED]))
def test_init_proposes_it_only_where_it_is_served(odd: Odd, fresh_database: FreshDatabase, tmp_path: Path) -> None:
    """What stands there without a mark is what this shop is described by, and never what is refused."""
    command = shop_of(odd, fresh_database, tmp_path)
    said = command("init", "--from-url", command.url, "--output", "-", "--json")
    assert said.code == 0, said.err
    config, truth = tomllib.loads(said.data["config"]), tomllib.loads(odd.config)
    keys = ("id", "order_no", "status", "states")
    without_mark = {f"orders.{key}": value for key, value in config["orders"].items() if key in keys}
    described = {f"orders.{key}": truth["orders"][key] for key in keys}
    refused = odd.sentence.partition(": ")[0]
    by_table = {one["table"]: one for one in truth["assets"]}
    for asset in config.get("assets", ()):
        if asset.get("table") == "t_sku" and "key" in asset:
            without_mark["assets[0].key"], described["assets[0].key"] = asset["key"], "sku"
        if "from" in asset:
            assert asset["from"] == by_table[asset["table"]]["from"]
            assert not (asset["table"] == "t_sku" and refused in ("orders.id", "assets[0].from.ref"))
    assert refused not in without_mark
    assert not {key for key, value in without_mark.items() if folded(value) != folded(described[key])}
    assert "orders.order_no" in without_mark or refused == "orders.order_no"
    assert "orders.status" in without_mark or refused == "orders.states"


@pytest.mark.parametrize("odd", cases(SERVED))
def test_a_program_in_another_language_pays_and_cancels_by_printed_sql(
    odd: Odd, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    command = shop_of(odd, fresh_database, tmp_path)
    assert command("migrate").code == 0
    run_sql(command.url, odd.holds)
    recipes = {name: command("sql", name, "--json").data for name in ("pay", "cancel")}
    plain, numbers = PlainSql(recipes), odd.written or [number.strip("'") for number in odd.numbers]
    notice = {"provider": "bank", "payment_id": "p-1", "amount_minor": 1990, "currency": "EUR"}
    with closing(connected(command.url)) as connection:
        for name, number, values in (
            ("cancel", numbers[0], {"reason": "customer", "source": "customer"}),
            ("pay", numbers[1], notice),
        ):
            cursor = connection.cursor()
            cursor.execute(plain.opening(name))
            getattr(plain, name)(cursor, {"order_no": number, "event_id": str(uuid4()), **values})
            cursor.execute("COMMIT")
    assert odd.seen(command.url)["states"] == [1, 2, 1]
    assert command("sweep", "--once").code == 0
    after = odd.seen(command.url)
    assert (after["stock"], after["gifts"], after["coupons"]) == ([(10, 8), (11, 9)], [(11, 0)], [0, 1, 1, 1])
    refs = run_sql(command.url, "SELECT ref FROM duetime_hold WHERE kind = 'stock'")
    assert {row[0] for row in refs} == {sku.strip("'") for sku in odd.skus[:2]}
    assert {row[0] for row in run_sql(command.url, "SELECT order_no FROM duetime_hold")} == {*numbers[:2]}
    assert command("verify", "--patience", "0s", "--json").data["findings"] == []
