"""The printed rights are enough, and none too many: everything works with all of them, something fails without any."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit

import pytest

from duetime import Duetime, Hold
from duetime.errors import DuetimeError
from duetime.order import Closed, Extended, Paid, Placed
from duetime.removing import Removing, RemovingOptions
from tests.docs.by_hand import run_sql
from tests.support.command_line import CommandLine
from tests.support.shop_database import ShopDatabase

HOUR = timedelta(hours=1)
GRANT = re.compile(r"GRANT (?P<rights>.+) ON (?P<what>.+) TO (?P<role>.+)")


@dataclass(frozen=True)
class Right:
    """One right on one thing: of several columns, each is one."""

    right: str
    what: str

    def statement(self, verb: str, role: str) -> str:
        return f"{verb} {self.right} ON {self.what} {'TO' if verb == 'GRANT' else 'FROM'} {role}"

    @property
    def only_looks(self) -> bool:
        """SELECT on a table of our own, which ``verify`` and ``doctor`` read."""
        return self.right == "SELECT" and "duetime_" in self.what


def rights_of(printed: list[str]) -> Iterator[Right]:
    for statement in printed:
        match = GRANT.fullmatch(statement)
        assert match, statement
        columns = re.fullmatch(r"(\w+) \((.*)\)", match["rights"])
        rights = [f"{columns[1]} ({one})" for one in columns[2].split(", ")] if columns else match["rights"].split(", ")
        yield from (Right(right, match["what"]) for right in rights)


@dataclass
class Account:
    """The account that duetime runs as, with nothing but what it was given."""

    shop: ShopDatabase
    name: str
    password: str
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(10_000)))

    @property
    def role(self) -> str:
        return f'"{self.name}"' if self.shop.words.zoned else f"'{self.name}'@'%'"

    @property
    def url(self) -> str:
        at = urlsplit(self.shop.url)
        return at._replace(netloc=f"{self.name}:{self.password}@{at.netloc.rpartition('@')[2]}").geturl()

    async def everything(self) -> None:
        """Do everything that a worker and its callers do: also give back, follow, remove what is old, keep books."""
        sections = self.shop.sections() | {"store": {"url": self.url}, "closing": {"max_extension": "9h"}}
        async with Duetime(self.shop.settings(**sections)) as duetime:
            await self._through_the_door(duetime, next(self.numbers))
            for rate in (5.0, 6.0, None):
                await duetime.set_rate(rate)
            await self._by_itself(duetime, next(self.numbers))

    async def _through_the_door(self, duetime: Duetime, n: int) -> None:
        await self.shop.execute(f"INSERT INTO coupon (coupon_id, state) VALUES ('c{n}', 'unused')")
        paid, cancelled, holds = f"paid-{n}", f"cancelled-{n}", [Hold("stock", "sku-0000")]
        money = {"amount_minor": 1990, "currency": "CNY"}
        placed = await duetime.place(paid, [*holds, Hold("coupon", f"c{n}")], **money)  # type: ignore[arg-type]  # its keys
        assert isinstance(placed, Placed)
        assert isinstance(await duetime.place(cancelled, holds), Placed)
        assert isinstance(await duetime.extend(paid, datetime.now(UTC) + 2 * HOUR), Extended)
        assert isinstance(await duetime.pay(paid, payment_id=f"p-{n}", amount_minor=1990, currency="CNY"), Paid)
        assert isinstance(await duetime.close(cancelled), Closed)

    async def _by_itself(self, duetime: Duetime, n: int) -> None:
        past = datetime.now(UTC) - HOUR
        insert = "INSERT INTO orders (order_no, status, expire_at) VALUES (:order_no, :status, :at)"
        hold = "INSERT INTO duetime_hold (order_no, kind, ref, quantity, state) VALUES (:no, 'stock', :ref, 1, :state)"
        for name, status, ref, state in (
            ("due", "pending", "sku-0000", "held"),
            ("blocked", "pending", "gone", "held"),
            ("left", "closed", "sku-0000", "releasing"),
            ("foreign", "paid", "sku-0000", "held"),
        ):
            await self.shop.execute(insert, order_no=f"{name}-{n}", status=status, at=past)
            await self.shop.execute(hold, no=f"{name}-{n}", ref=ref, state=state)
        await self.shop.execute("UPDATE stock SET held = held + 3, available = available - 3")
        wired = duetime.wired
        assert (await wired.sweep.run_once()).closed >= 1
        assert (await wired.releasing.run_once())[0] >= 1
        assert any(failure.order_no == f"blocked-{n}" for failure in await duetime.failures())
        await duetime.story(f"due-{n}")
        await wired.following.run_once()
        await wired.sweep.run_once()
        observed = "INSERT INTO duetime_observed (order_no, expire_at, first_seen_at, seen, followed)"
        await self.shop.execute(f"{observed} VALUES (:no, :at, :at, 'closed', 0)", no=f"due-{n}", at=past)
        await self.shop.execute("UPDATE duetime_delivery SET state = 'delivered'")
        nothing = timedelta(0)
        removed = await Removing(wired.store, RemovingOptions(nothing, nothing, nothing, nothing)).run_once()
        assert min(removed.facts, removed.holds, removed.sweep_runs, removed.observed) > 0


@asynccontextmanager
async def account(shop: ShopDatabase) -> AsyncIterator[Account]:
    """Create an account with no rights at all, not even those that everybody has."""
    new = Account(shop, f"grants_{token_hex(4)}", token_hex(8))
    zoned = shop.words.zoned
    password = f"PASSWORD '{new.password}'" if zoned else f"IDENTIFIED BY '{new.password}'"
    await shop.execute(f"CREATE {'ROLE' if zoned else 'USER'} {new.role} {'LOGIN' if zoned else ''} {password}")
    if zoned:
        database = urlsplit(shop.url).path.strip("/")
        await shop.execute(
            f'REVOKE ALL ON DATABASE "{database}" FROM PUBLIC', "REVOKE ALL ON SCHEMA public FROM PUBLIC"
        )
    try:
        yield new
    finally:
        if zoned:
            await shop.execute(f"DROP OWNED BY {new.role}", f"DROP ROLE {new.role}")
        else:
            await shop.execute(f"DROP USER {new.role}")


async def printed(shop: ShopDatabase, role: str) -> list[str]:
    async with shop.duetime() as owner:
        return [grant.sql for grant in await owner.wired.store.grants(role)]


def _only_looking(command: CommandLine) -> None:
    """Commands that only look work with the same rights: whatever they find, they could read all of it."""
    for arguments in (
        ["verify", "--patience", "0s"],
        ["doctor"],
        ["sweep", "--dry-run"],
        ["orders", "list", "--due"],
        ["sql"],
    ):
        said = command(*arguments, "--json")
        assert said.data is not None, said
        assert not re.search("denied|not allowed|may not", said.out + said.err, re.IGNORECASE), said


async def test_the_printed_rights_are_enough_and_each_is_needed(shop: ShopDatabase, tmp_path: Path) -> None:
    await shop.add_skus(1)
    await shop.execute("INSERT INTO duetime_consumer (name, events) VALUES ('mail', '[\"order.closed\"]')")
    async with account(shop) as of:
        rights = list(rights_of(await printed(shop, of.name)))
        await shop.execute(*(right.statement("GRANT", of.role) for right in rights))
        await of.everything()
        await asyncio.to_thread(_only_looking, CommandLine(of.url, tmp_path))
        needless = []
        for right in rights:
            await shop.execute(right.statement("REVOKE", of.role))
            try:
                await of.everything()
            except (DuetimeError, AssertionError, OSError):
                pass
            else:
                needless.append(right)
            await shop.execute(right.statement("GRANT", of.role))
        await of.everything()
    assert [right for right in needless if not right.only_looks] == []


async def test_a_right_that_is_missing_is_called_that(shop: ShopDatabase, tmp_path: Path) -> None:
    await shop.add_skus(1)
    async with account(shop) as of:
        lacking = re.compile("INSERT.*duetime_sweep_run")
        granted = [right.statement("GRANT", of.role) for right in rights_of(await printed(shop, of.name))]
        await shop.execute(*(statement for statement in granted if not lacking.search(statement)))
        said = await asyncio.to_thread(CommandLine(of.url, tmp_path), "sweep", "--once")
    assert said.code == 1
    assert said.err.startswith("duetime: access denied (the account is the one of store.url"), said.err
    assert "`duetime sql grants`" in said.err
    assert "duetime_sweep_run" in said.err
    assert shop.words.zoned or of.name in said.err


async def test_a_table_that_the_account_may_not_see_is_perhaps_there(shop: ShopDatabase, tmp_path: Path) -> None:
    """MariaDB hides tables on which an account has no right at all."""
    if shop.words.zoned:
        return
    async with account(shop) as of:
        granted = [right.statement("GRANT", of.role) for right in rights_of(await printed(shop, of.name))]
        await shop.execute(*(statement for statement in granted if "duetime_sweep_run" not in statement))
        command = CommandLine(of.url, tmp_path)
        said = [await asyncio.to_thread(command, *words) for words in (["sweep", "--once"], ["doctor"])]
    assert all("or this account has no right on them: see `duetime sql grants`" in one.err + one.out for one in said)


async def test_an_account_that_may_not_enter_is_told_so(shop: ShopDatabase, tmp_path: Path) -> None:
    """Only MariaDB tells by a number: to PostgreSQL's driver this is one failed connection among others."""
    if shop.words.zoned:
        return
    async with account(shop) as of:
        command = CommandLine(of.url, tmp_path)
        said = await asyncio.to_thread(command, "sweep", "--once")
        looked = await asyncio.to_thread(command, "doctor")
    assert said.err.startswith("duetime: access denied (the account is the one of store.url"), said.err
    assert f"refuses this account: for user '{of.name}'" in looked.out
    assert "does not answer" not in looked.out


async def test_tables_in_other_schemas_and_columns_of_the_shop_are_named_in_full(shop: ShopDatabase) -> None:
    """Odd names are quoted, and a counter without ``held`` gets no right on such a column."""
    schema = await shop.schema('Shop "Ж"')
    table, column = shop.quote(schema, "Bestand"), shop.quote("frei; verfügbar")
    await shop.execute(f"CREATE TABLE {table} (sku varchar(40) PRIMARY KEY, {column} int)")
    parts = '"' + schema.replace('"', '""') + '".Bestand'
    asset = {"kind": "stock", "storage": "counter", "table": parts, "key": "sku", "available": "frei; verfügbar"}
    async with shop.duetime(assets=[{**asset, "held": ""}]) as owner:
        found = [grant.sql for grant in await owner.wired.store.grants("du'e\"time")]
    (update,) = (one for one in found if "UPDATE (" in one and "Bestand" in one)
    to = shop.quote("du'e\"time") if shop.words.zoned else "'du''e\"time'@'%'"
    quoted = table if shop.words.zoned else shop.quote(schema, "Bestand")
    assert update == f"GRANT UPDATE ({column}) ON {quoted} TO {to}"


async def test_a_table_that_has_two_parts_is_granted_once(shop: ShopDatabase) -> None:
    """Coupons name their order, so they are pieces and lines at once."""
    await shop.execute("CREATE TABLE voucher (id varchar(40) PRIMARY KEY, state varchar(9), order_no varchar(64))")
    await shop.execute("CREATE INDEX voucher_order ON voucher (order_no)")
    lines = {"table": "voucher", "order_no": "order_no", "ref": "id"}
    asset = {"kind": "voucher", "storage": "instance", "table": "voucher", "key": "id", "state": "state"}
    async with shop.duetime(assets=[{**asset, "held_value": "h", "free_value": "f", "from": lines}]) as owner:
        found = [grant.sql for grant in await owner.wired.store.grants("duetime")]
    assert len([one for one in found if "voucher" in one]) == 2, "SELECT and UPDATE"
    assert len(set(found)) == len(found)


def test_the_command_prints_them(duetime: CommandLine) -> None:
    said = duetime("sql", "grants", "--role", "shop_worker")
    assert said.code == 0, said.err
    if duetime.url.startswith("sqlite"):
        assert said.out.startswith("-- SQLite knows no rights")
        return
    lines = [line for line in said.out.splitlines() if line and not line.startswith("-- ")]
    as_json = duetime("sql", "grants", "--role", "shop_worker", "--json").data
    assert [line.partition(";  -- ")[0] for line in lines] == [one["sql"] for one in as_json]
    assert all(one["why"] and "shop_worker" in one["sql"] for one in as_json)


def test_a_serial_key_needs_its_sequence(postgresql_url: str, tmp_path: Path) -> None:
    """An identity column needs no right of its own, the older ``serial`` does, but only from who inserts."""
    command = CommandLine(postgresql_url, tmp_path)
    assert command("migrate", "--sample-shop").code == 0
    make = (
        "CREATE TABLE t_order (id serial PRIMARY KEY, order_no text UNIQUE, status text, expire_at timestamptz, "
        "closed_at timestamptz, close_reason text, close_source text, category text, amount_minor int, currency text)"
    )
    run_sql(postgresql_url, make)
    command.more["DUETIME_ORDERS__TABLE"] = "t_order"
    found = command("sql", "grants", "--json").data
    assert 'GRANT USAGE ON SEQUENCE "public"."t_order_id_seq" TO "duetime"' in [one["sql"] for one in found]


@pytest.mark.parametrize("name", ["grant", "places"])
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(on_sqlite: CommandLine, name: str) -> None:
    said = on_sqlite("sql", name)
    assert said.code == 2
    assert "there is no statement" in said.err
