"""A shop's own tables, not ours: with its names, its integer states, and without the columns it never had.

The shop writes rows of ``duetime_hold`` by plain SQL; nothing of it calls duetime. Everything is done by the commands.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duetime import Hold, Placed, Placement
from tests.support.command_line import CommandLine
from tests.support.judge import read_facts
from tests.support.shop_database import Section, ShopDatabase, config_text
from tests.support.waiting import eventually

NONE: Mapping[str, str] = dict.fromkeys(
    ("closed_at", "close_reason", "close_source", "category", "amount", "currency"), ""
)
"""The shop has no such columns."""

PENDING, PAID, CLOSED = 0, 1, 4
POINTS = 'Punkte "neu"'
STATES = {"pending": PENDING, "paid": PAID, "closed": CLOSED}


@dataclass(frozen=True)
class Table:
    """A table by the names that people read; ``quoted`` for its server, ``named`` for the config."""

    shop: ShopDatabase
    parts: tuple[str, ...]
    columns: Mapping[str, str]

    @property
    def quoted(self) -> str:
        return self.shop.quote(*self.parts)

    @property
    def named(self) -> str:
        return ".".join('"' + part.replace('"', '""') + '"' for part in self.parts)

    def __getitem__(self, role: str) -> str:
        return self.shop.quote(self.columns[role])


@dataclass(frozen=True)
class OwnTables:
    """The tables of one shop, and the description that its operator writes."""

    orders: Table
    stock: Table
    release: str = "with"
    more_assets: Sequence[Mapping[str, object]] = ()

    @property
    def ddl(self) -> Sequence[str]:
        orders, stock, instant = self.orders, self.stock, self.orders.shop.words.instant_type
        number, state = f"{orders['order_no']} varchar(64) NOT NULL UNIQUE", f"{orders['status']} smallint NOT NULL"
        keys = f"{orders['id']} bigint PRIMARY KEY", f"{stock['key']} bigint PRIMARY KEY"
        counts = f"{stock['available']} integer NOT NULL, {stock['held']} integer NOT NULL"
        return (
            f"CREATE TABLE {orders.quoted} ({keys[0]}, {number}, {state}, {orders['expire_at']} {instant})",
            f"CREATE TABLE {stock.quoted} ({keys[1]}, {counts})",
        )

    @property
    def sections(self) -> dict[str, Section]:
        stock = {"kind": "stock", "storage": "counter", "table": self.stock.named, "release": self.release}
        return {
            "orders": {"table": self.orders.named, "states": STATES, **self.orders.columns, **NONE},
            "assets": [{**stock, **self.stock.columns}, *self.more_assets],
        }


def plain(shop: ShopDatabase) -> OwnTables:
    """As in thousands of shops."""
    columns = {"id": "id", "order_no": "sn", "status": "state", "expire_at": "pay_deadline"}
    counter = {"key": "id", "available": "stock", "held": "lock_stock"}
    return OwnTables(Table(shop, ("t_order",), columns), Table(shop, ("t_sku",), counter))


async def odd(shop: ShopDatabase) -> OwnTables:
    """Names with spaces, quotes, upper case and other alphabets, in a schema of its own, and a remote asset."""
    schema = await shop.schema('Shop "Ж" 1')
    columns = {"id": "ID", "order_no": "Order No.", "status": "Status %", "expire_at": "zahlbar bis: ende"}
    counter = {"key": "SKU", "available": "frei", "held": "where"}
    return OwnTables(
        Table(shop, (schema, 'Bestellungen "2024": Überblick'), columns),
        Table(shop, (schema, "select"), counter),
        release="after",
        more_assets=[{"kind": POINTS, "storage": "remote"}],
    )


async def fill(shop: ShopDatabase, own: OwnTables, kinds: Mapping[str, int]) -> None:
    """Thirty due orders, ten paid ones, ten whose deadline lies ahead, and what they hold, by the shop's own SQL."""
    now = datetime.now(UTC)
    orders, stock = own.orders, own.stock
    columns = f"({orders['id']}, {orders['order_no']}, {orders['status']}, {orders['expire_at']})"
    async with shop.engine.begin() as connection:
        for n in range(50):
            state = PAID if 30 <= n < 40 else PENDING
            deadline = now + timedelta(hours=1 if n >= 40 else -1)
            insert = f"INSERT INTO {orders.quoted} {columns} VALUES (:id, :number, :state, :deadline)"
            await shop.run(connection, insert, id=1000 + n, number=number(n), state=state, deadline=deadline)
            for kind, units in kinds.items():
                hold = "INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES (:number, :kind, :ref, :units)"
                await shop.run(connection, hold, number=number(n), kind=kind, ref=str(n % 5), units=units)
        for key in range(5):
            columns = ", ".join(stock[role] for role in ("key", "available", "held"))
            await shop.run(connection, f"INSERT INTO {stock.quoted} ({columns}) VALUES (:key, 80, 20)", key=key)


def number(n: int) -> str:
    return f"SO-{n:04d}"


async def states(shop: ShopDatabase, own: OwnTables) -> list[int]:
    key, status = own.orders["id"], own.orders["status"]
    rows = await shop.rows(f"SELECT {status} FROM {own.orders.quoted} WHERE {key} >= 1000 ORDER BY {key}")
    return [row[0] for row in rows]


async def units(shop: ShopDatabase, own: OwnTables) -> set[tuple[int, int]]:
    return {
        tuple(row)
        for row in await shop.rows(f"SELECT {own.stock['available']}, {own.stock['held']} FROM {own.stock.quoted}")
    }


async def holds(shop: ShopDatabase) -> dict[tuple[str, str], int]:
    query = "SELECT kind, state, count(*) FROM duetime_hold GROUP BY kind, state"
    return {(kind, state): count for kind, state, count in await shop.rows(query)}


async def facts(shop: ShopDatabase) -> dict[str, int]:
    query = "SELECT type, count(*), count(DISTINCT order_no) FROM duetime_outbox GROUP BY type"
    found = await shop.rows(query)
    assert all(count == orders for _, count, orders in found), "a fact was written twice"
    return {kind: count for kind, count, _ in found}


def commands(shop: ShopDatabase, folder: Path, own: OwnTables) -> CommandLine:
    sections: dict[str, Section] = shop.sections() | own.sections
    (folder / "duetime.toml").write_text(config_text(sections), encoding="utf-8")
    return CommandLine(shop.url, folder)


BEFORE = [PENDING] * 30 + [PAID] * 10 + [PENDING] * 10
AFTER = [CLOSED] * 30 + [PAID] * 10 + [PENDING] * 10


async def test_tables_of_a_thousand_shops_are_migrated_and_served(empty_shop: ShopDatabase, tmp_path: Path) -> None:
    shop, own = empty_shop, plain(empty_shop)
    await shop.execute(*own.ddl)
    command = commands(shop, tmp_path, own)
    assert command.alone("migrate").code == 0
    await fill(shop, own, {"stock": 2})
    before = (await states(shop, own), await units(shop, own), await holds(shop), await facts(shop))
    assert before == (BEFORE, {(80, 20)}, {("stock", "held"): 50}, {})

    beforehand = json.loads(command.alone("sweep", "--dry-run", "--json").out)
    assert beforehand["orders"] == 30
    assert {(one["ref"], one["quantity"]) for one in beforehand["would_give_back"]} == {(str(n), 12) for n in range(5)}
    now = (await states(shop, own), await units(shop, own), await holds(shop), await facts(shop))
    assert now == before, "a dry run changed something"

    await run_until_closed(shop, own, command)
    assert await states(shop, own) == AFTER
    assert await units(shop, own) == {(92, 8)}
    assert await holds(shop) == {("stock", "released"): 30, ("stock", "held"): 10, ("stock", "consumed"): 10}
    assert await facts(shop) == {"order.closed": 30}
    notes = await shop.rows("SELECT DISTINCT close_reason, close_source FROM duetime_order WHERE closed_at IS NOT NULL")
    assert [tuple(row) for row in notes] == [("timeout", "sweep")], "what the shop has no column for is kept"
    await the_shop_sends_what_was_paid(shop, own)
    await nothing_to_find(command)


@pytest.mark.timeout(120)
async def test_odd_names_a_schema_and_remote_assets(empty_shop: ShopDatabase, tmp_path: Path) -> None:
    shop = empty_shop
    own = await odd(shop)
    await shop.execute(*own.ddl)
    command = commands(shop, tmp_path, own)
    assert command.alone("migrate").code == 0
    assert command.alone("migrate").code == 0, "it may be run twice"
    await fill(shop, own, {"stock": 2, POINTS: 7})
    await run_until_closed(shop, own, command)
    assert await states(shop, own) == AFTER
    assert await units(shop, own) == {(92, 8)}
    assert await holds(shop) == {
        ("stock", "released"): 30, ("stock", "held"): 10, ("stock", "consumed"): 10,
        (POINTS, "releasing"): 30, (POINTS, "held"): 10, (POINTS, "consumed"): 10,
    }, "what another service keeps waits for its word"  # fmt: skip
    assert await facts(shop) == {"order.closed": 30, "hold.release": 30}
    assert await by_hand(shop, own) == ["Extended", "Paid", "Closed"]
    release = [one.payload for one in await read_facts(shop.rows) if one.type == "hold.release"]
    assert {(one["kind"], one["quantity"]) for one in release} == {(POINTS, 7)}
    await the_shop_sends_what_was_paid(shop, own)
    await nothing_to_find(command)


async def the_shop_sends_what_was_paid(shop: ShopDatabase, own: OwnTables) -> None:
    """Ten orders were paid by the shop's own code, which owns the units: two of each SKU, twice."""
    held = own.stock["held"]
    await shop.execute(f"UPDATE {own.stock.quoted} SET {held} = {held} - 4")


async def nothing_to_find(command: CommandLine) -> None:
    """The doctor is content, and verify finds nothing."""
    examined = await asyncio.to_thread(command, "doctor")
    assert (examined.code, "FAILED" in examined.out) == (0, False), examined.out
    said = await asyncio.to_thread(command, "verify", "--patience", "0s", "--json")
    assert said.data["findings"] == []
    assert said.data["checked"]["orders"] >= 50


async def by_hand(shop: ShopDatabase, own: OwnTables) -> list[str]:
    """Everything else that duetime writes to an order table, on this one."""
    later = datetime.now(UTC) + timedelta(minutes=90)
    async with shop.duetime(**own.sections) as duetime:
        placed = await duetime.place_many(
            [
                Placement(f"SO-new-{key}", [Hold("stock", "3", 2)], columns={own.orders.columns["id"]: key})
                for key in (1, 2)
            ]
        )
        assert [type(one) for one in placed] == [Placed, Placed]
        outcomes = [
            await duetime.extend("SO-new-1", later),
            await duetime.pay("SO-new-1", payment_id="p", amount_minor=1, currency="EUR"),
            await duetime.close("SO-new-2"),
        ]
        await duetime.wired.releasing.run_once()
    return [type(outcome).__name__ for outcome in outcomes]


async def run_until_closed(shop: ShopDatabase, own: OwnTables, command: CommandLine) -> None:
    with command.running:
        worker = command.start("run")
        await eventually("all due orders are closed", lambda: closed(shop, own), seconds_max=30)
        assert worker.stop() == 0


async def closed(shop: ShopDatabase, own: OwnTables) -> bool:
    """All that is due is closed and given back, and what the shop paid by itself is used up."""
    waiting = "SELECT count(*) FROM duetime_hold WHERE state = 'releasing' AND kind = 'stock'"
    held = "SELECT count(*) FROM duetime_hold WHERE state = 'held' AND kind = 'stock'"
    return await states(shop, own) == AFTER and await shop.number(waiting) == 0 and await shop.number(held) == 10
