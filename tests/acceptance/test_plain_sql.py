"""`duetime sql place | pay | cancel`: what they write is what duetime writes, row by row and payload by payload."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from duetime import Duetime, Hold
from duetime.cli.recipes import recipe_text
from duetime.config.database_url import async_url
from duetime.event import FactType
from duetime.order import NeedsReview, Paid
from duetime.settings import load_settings
from tests.docs.by_hand import prepare, run_sql
from tests.support.command_line import CommandLine
from tests.support.databases import FreshDatabase
from tests.support.plain_sql import PlainSql, RolledBack, connected
from tests.support.shop_database import Section

SAMPLE_ASSETS: list[Mapping[str, object]] = [
    {"kind": "stock", "storage": "counter", "table": "stock", "key": "sku_id", "available": "available"},
    {
        "kind": "coupon",
        "storage": "instance",
        "table": "coupon",
        "key": "coupon_id",
        "state": "state",
        "held_value": "locked",
        "free_value": "unused",
        "used_value": "used",
    },
    {"kind": "points", "storage": "remote"},
]
OWN_ORDERS: Mapping[str, object] = {
    "table": "T_order",
    "id": "id",
    "order_no": "select",
    "status": "zustand: neu",
    "expire_at": "ablauf",
    "closed_at": "",
    "close_reason": "grund",
    "close_source": "",
    "category": "",
    "amount": "betrag",
    "amount_form": "decimal",
    "currency": "=JPY",
    "states": {"pending": 0, "paid": 1, "closed": 4},
}
INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{6}Z?")


@dataclass(frozen=True)
class Words:
    """Names of one shop's tables, for its own statements."""

    sections: Mapping[str, Section]
    ddl: str = ""
    table: str = "orders"
    number: str = "order_no"
    columns: str = "order_no, status, expire_at, amount_minor, currency"
    status: str = "status"
    values: str = "'{no}', '{state}', '2099-01-01 00:00:00.5', 1990, 'CNY'"
    states: Mapping[str, str] = field(
        default_factory=lambda: {"pending": "pending", "paid": "paid", "closed": "closed"}
    )
    currency: str = "CNY"
    numbers: tuple[str, ...] = ("A", "B")


SAMPLE = Words({"assets": SAMPLE_ASSETS})


def own(quote: str, instant: str, kind: str) -> Words:
    """A shop with integer states, whole numbers as order numbers, decimal amounts, and few columns."""
    q = f"{quote}{{}}{quote}".format
    columns = f"{q('select')}, {q('zustand: neu')}, ablauf, betrag"
    ddl = (
        f"CREATE TABLE {q('T_order')} (id {kind} PRIMARY KEY, {q('select')} bigint NOT NULL UNIQUE, "
        f"{q('zustand: neu')} smallint NOT NULL, ablauf {instant}, betrag decimal(12, 2), grund varchar(20), "
        f"version integer NOT NULL DEFAULT 1)"
    )
    return Words(
        {"assets": SAMPLE_ASSETS, "orders": OWN_ORDERS},
        ddl=ddl,
        table=q("T_order"),
        number=q("select"),
        columns=columns,
        status=q("zustand: neu"),
        values="{no}, {state}, '2099-01-01 00:00:00', 1990.00",
        states={"pending": "0", "paid": "1", "closed": "4", "shipped": "7"},
        currency="JPY",
        numbers=("1", "2"),
    )


@dataclass
class Bench:
    """One shop, worked on by duetime and by plain SQL beside each other."""

    url: str
    words: Words
    duetime: Duetime
    plain: PlainSql
    engine: Any
    orders: int = 0

    async def order(self, by: str, state: str = "pending", reason: str = "") -> str:
        """Insert an order that holds something of each kind; answer its number."""
        self.orders += 1
        no = f"{by}{self.orders:04}"
        words = self.words
        columns, values = words.columns, words.values.format(no=no, state=words.states.get(state, state))
        if reason:
            column = "close_reason" if words is SAMPLE else "grund"
            columns, values = f"{columns}, {column}", f"{values}, '{reason}'"
        hold = "held" if state == "pending" else "released"
        await self.execute(
            f"INSERT INTO {words.table} ({columns}) VALUES ({values})",
            f"INSERT INTO coupon (coupon_id, state) VALUES ('c-{no}', 'locked')",
            f"INSERT INTO duetime_hold (order_no, kind, ref, quantity, state) VALUES ('{no}', 'stock', 'sku-1', 2, "
            f"'{hold}'), ('{no}', 'stock', 'sku-0', 1, '{hold}'), ('{no}', 'coupon', 'c-{no}', 1, '{hold}'), "
            f"('{no}', 'points', 'p-9', 30, '{hold}')",
            "UPDATE stock SET held = held + 3",
        )
        return no

    async def execute(self, *statements: str) -> None:
        async with self.engine.begin() as connection:
            for statement in statements:
                await connection.exec_driver_sql(
                    statement.replace("%", "%%") if "sqlite" not in self.url else statement
                )

    async def rows(self, query: str, **values: object) -> list[dict[str, Any]]:
        async with self.engine.connect() as connection:
            return [dict(row) for row in (await connection.execute(text(query), values)).mappings()]

    async def pay(self, by: str, no: str, **notice: Any) -> tuple[str, bool]:  # noqa: ANN401 -- what a notice has
        given = {"payment_id": f"pay-{no}", "amount_minor": 1990, "currency": self.words.currency, **notice}
        if by == self.words.numbers[0]:
            found = await self.duetime.pay(no, provider="alipay", **given)
            assert isinstance(found, Paid | NeedsReview)
            return "paid" if isinstance(found, Paid) else "manual", found.repeat
        values = {"order_no": no, "provider": "alipay", "event_id": str(uuid4()), **given}
        answer: tuple[str, bool] = self._by_hand("pay", lambda cursor: self.plain.pay(cursor, values))
        return answer

    async def cancel(self, by: str, no: str) -> bool:
        if by == self.words.numbers[0]:
            return type(await self.duetime.close(no)).__name__ == "Closed"
        values = {"order_no": no, "reason": "customer", "source": "customer", "event_id": str(uuid4())}
        try:
            self._by_hand("cancel", lambda cursor: self.plain.cancel(cursor, values))
        except RolledBack:
            return False
        return True

    def _by_hand(self, name: str, work: Any) -> Any:  # noqa: ANN401 -- one of the printed transactions
        with closing(connected(self.url)) as connection:
            cursor = connection.cursor()
            cursor.execute(self.plain.opening(name))
            try:
                found = work(cursor)
            except BaseException:
                cursor.execute("ROLLBACK")
                raise
            cursor.execute("COMMIT")
            return found

    async def told(self, no: str) -> dict[str, Any]:
        """Answer everything that is written about an order, without what must differ: numbers, keys and instants."""
        await self.duetime.wired.releasing.run_once()
        words = self.words
        shop = await self.rows(f"SELECT * FROM {words.table} WHERE {words.number} = '{no}'".replace(":", "\\:"))
        found = {"order": [{name: value for name, value in row.items() if name != "id"} for row in shop]}
        for table, order in (
            ("duetime_hold", "kind, ref"),
            ("duetime_payment", "payment_id"),
            ("duetime_order", "order_no"),
            ("duetime_outbox", "seq"),
        ):
            found[table] = await self.rows(f"SELECT * FROM {table} WHERE order_no = :no ORDER BY {order}", no=no)
        found["deliveries"] = await self.rows(
            "SELECT d.consumer, d.state, d.attempts, d.next_try_at, f.type, CASE WHEN f.type = 'hold.release' THEN '' "
            "ELSE d.order_key END AS order_key FROM duetime_delivery d JOIN duetime_outbox f ON f.seq = d.seq "
            "WHERE f.order_no = :no ORDER BY d.consumer, d.seq",
            no=no,
        )
        found["coupon"] = await self.rows("SELECT state FROM coupon WHERE coupon_id = :no", no=f"c-{no}")
        return {name: [_comparable(row, no) for row in rows] for name, rows in found.items()}


def _comparable(row: Mapping[str, Any], no: str) -> dict[str, Any]:
    compared: dict[str, Any] = {}
    for name, value in row.items():
        if name == "seq":
            continue
        known = json.loads(value) if name == "payload" and isinstance(value, str) else value
        if isinstance(known, dict):
            assert known["event_id"] == row["event_id"]
            assert all(INSTANT.fullmatch(known[key]) for key in known if key.endswith("_at") and known[key])
            known = {key: "" if key in {"event_id", "received_at", "closed_at"} else one for key, one in known.items()}
        elif name == "event_id" or (name in {"received_at", "closed_at", "created_at"} and known is not None):
            known = ""
        elif name == "released_at":
            known = known is not None
        compared[name] = _without(no, known)
    return compared


def _without(no: str, value: Any) -> Any:  # noqa: ANN401 -- what a column or a payload holds
    if isinstance(value, dict):
        return {key: _without(no, one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without(no, one) for one in value]
    return value if value is None or isinstance(value, bool) else str(value).replace(no, "<no>")


SHOPS = ["sample", "own"]
KINDS = [
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.services),
    pytest.param("mariadb", marks=pytest.mark.services),
]
OWN = {
    "sqlite": own('"', "datetime", "integer"),
    "postgresql": own('"', "timestamptz", "bigint GENERATED BY DEFAULT AS IDENTITY"),
    "mariadb": own("`", "datetime", "bigint AUTO_INCREMENT"),
}


@pytest.fixture(params=[(kind, shop) for kind in ("sqlite", "postgresql", "mariadb") for shop in SHOPS], ids="-".join)
async def bench(request: pytest.FixtureRequest, fresh_database: FreshDatabase, tmp_path: Path) -> AsyncIterator[Bench]:
    """The sample shop and one of another kind, on each database."""
    kind, shop = request.param
    url = fresh_database(kind)
    prepare(url)
    words = SAMPLE if shop == "sample" else OWN[kind]
    if words.ddl:
        run_sql(url, words.ddl.replace("%", "%%"))
    run_sql(url, "INSERT INTO stock (sku_id, available, held) VALUES ('sku-0', 100, 0), ('sku-1', 100, 0)")
    wanted = [[fact.value for fact in FactType], ["order.paid"], []]
    for n, events in enumerate(wanted):
        run_sql(url, f"INSERT INTO duetime_consumer (name, events) VALUES ('c{n}', '{json.dumps(events)}')")
    settings = load_settings(None, environ={}, store={"url": url}, timeouts={"grace": "0s"}, **words.sections)
    engine = create_async_engine(async_url(url))
    try:
        async with Duetime(settings) as duetime:
            recipes = {name: await duetime.wired.store.recipe(name) for name in ("place", "pay", "cancel")}
            printed = tmp_path / "recipes.json"
            printed.write_text(json.dumps(recipes, default=vars_of))
            plain = PlainSql.read(printed, native=kind == "sqlite")
            yield Bench(url, words, duetime, plain, engine)
    finally:
        await engine.dispose()


def vars_of(value: Any) -> Any:  # noqa: ANN401 -- a dataclass of ours
    return {name: getattr(value, name) for name in value.__slots__}


async def both(bench: Bench, state: str = "pending", reason: str = "", **notice: object) -> list[dict[str, Any]]:
    """Pay two orders with the same history, one by duetime and one by plain SQL."""
    told, answers = [], []
    for by in bench.words.numbers:
        no = await bench.order(by, state, reason)
        answers.append(await bench.pay(by, no, **notice))
        told.append(await bench.told(no))
    assert answers[0] == answers[1]
    return told


@pytest.mark.services
async def test_plain_sql_writes_what_duetime_writes(bench: Bench) -> None:
    """All histories on one database: to make one takes longer than all of them."""
    await _paid(bench)
    for history in HISTORIES:
        await _does_not_fit(bench, history)
    await _for_nobody_and_twice(bench)
    await _cancelled(bench)


async def _paid(bench: Bench) -> None:
    first, second = await both(bench)
    assert first == second
    assert second["duetime_payment"][0]["resolution"] == "paid"
    assert {hold["state"] for hold in second["duetime_hold"]} == {"consumed"}
    assert [fact["type"] for fact in second["duetime_outbox"]] == ["order.paid"]
    assert [one["consumer"] for one in second["deliveries"]] == ["c0", "c1"]


HISTORIES: list[dict[str, Any]] = [
    {"state": "closed", "reason": "customer"},
    {"state": "closed"},
    {"state": "paid"},
    {"state": "7"},
    {"amount_minor": 5},
    {"currency": "USD"},
    {"amount_minor": 5, "currency": "EUR"},
]


async def _does_not_fit(bench: Bench, history: dict[str, Any]) -> None:
    first, second = await both(bench, **history)
    assert first == second, history
    assert second["duetime_payment"][0]["resolution"] == "manual"
    assert [fact["type"] for fact in second["duetime_outbox"]] == ["payment.late"]


async def _for_nobody_and_twice(bench: Bench) -> None:
    told = []
    for by in bench.words.numbers:
        unknown, known = f"{by}999", await bench.order(by)
        assert await bench.pay(by, unknown) == ("manual", False)
        assert await bench.pay(by, known) == ("paid", False)
        assert await bench.pay(by, known) == ("paid", True)
        assert await bench.pay(by, unknown) == ("manual", True)
        told.append((await bench.told(unknown), await bench.told(known)))
    assert told[0] == told[1]


async def _cancelled(bench: Bench) -> None:
    told = []
    for by in bench.words.numbers:
        no, paid = await bench.order(by), await bench.order(by, "paid")
        assert await bench.cancel(by, no)
        assert not await bench.cancel(by, no)
        assert not await bench.cancel(by, paid)
        told.append((await bench.told(no), await bench.told(paid)))
    assert told[0] == told[1]
    (fact, release) = told[1][0]["duetime_outbox"]
    assert len(fact["payload"]["released"]) == 4
    assert (fact["type"], release["type"]) == ("order.closed", "hold.release")
    (stock,) = await bench.rows("SELECT available, held FROM stock WHERE sku_id = 'sku-1'")
    assert stock["available"] == 104


@pytest.mark.services
async def test_an_order_that_was_placed_by_plain_sql_is_as_one_that_place_placed(bench: Bench) -> None:
    if bench.words is not SAMPLE:
        pytest.skip("the shop makes numbers and columns of its own; what differs is in the order's row alone")
    told = []
    await bench.execute("INSERT INTO coupon (coupon_id, state) VALUES ('c-A9', 'unused'), ('c-B9', 'unused')")
    taken = [("stock", "sku-0", 1), ("stock", "sku-1", 2), ("coupon", "c-{}", 1), ("points", "p", 5)]
    for by in bench.words.numbers:
        no = f"{by}9"
        mine = [(kind, ref.format(no), quantity) for kind, ref, quantity in taken]
        before = datetime.now(UTC)
        if by == "A":
            await bench.duetime.place(no, [Hold(*one) for one in mine], amount_minor=1990, currency="CNY")
        else:
            values = {"order_no": no, "category": None, "amount": 1990, "currency": "CNY", "timeout_seconds": 1800}
            values["event_id"] = str(uuid4())
            bench._by_hand("place", lambda cursor: bench.plain.place(cursor, values, mine))  # noqa: B023 -- run at once
        found = await bench.told(no)
        (fact,) = found["duetime_outbox"]
        expire_at = datetime.fromisoformat(fact["payload"].pop("expire_at"))
        assert timedelta(minutes=29) < expire_at - before < timedelta(minutes=31)
        assert fact["payload"].pop("policy")
        for row in (*found["duetime_hold"], *found["order"]):
            row.pop("held_at", None)
            row.pop("expire_at", None)
        told.append({name: rows for name, rows in found.items() if name != "duetime_order"})
    assert told[0] == told[1]


@pytest.mark.services
async def test_a_cart_that_finds_too_little_takes_nothing(bench: Bench) -> None:
    number = "B7" if bench.words is SAMPLE else "7"
    values = {
        "order_no": number,
        "category": None,
        "amount": 1990,
        "currency": "CNY",
        "timeout_seconds": 60,
        "event_id": "e",
    }
    with pytest.raises(RolledBack, match="take_stock"):
        bench._by_hand("place", lambda cursor: bench.plain.place(cursor, values, [("stock", "sku-0", 101)]))
    assert await bench.rows("SELECT 1 FROM duetime_hold") == []
    assert (await bench.rows("SELECT available FROM stock WHERE sku_id = 'sku-0'"))[0]["available"] == 100


def test_the_command_prints_what_the_store_makes(duetime: CommandLine) -> None:
    for name in ("place", "pay", "cancel"):
        as_json = duetime("sql", name, "--json").data
        said = duetime("sql", name)
        assert said.code == 0, said.err
        for step in as_json["steps"]:
            assert f"\n{step['sql']};" in said.out
        for parameter in as_json["parameters"]:
            assert f"\n-- :{parameter}  " in said.out
        assert "%" not in "".join(step["sql"] for step in as_json["steps"]) or duetime.url.startswith("sqlite")
    assert recipe_text.__doc__
