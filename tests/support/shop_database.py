"""A database with the sample shop and duetime's tables, worked on from outside: by the shop's own hand, in plain SQL.

What differs between servers is declared in ``Words``; no test asks which one it runs on.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import CursorResult, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from duetime import Duetime
from duetime.config.database_url import async_url
from duetime.observer import Observer
from duetime.settings import Settings, load_settings, store_url
from duetime.stores.sql.migrate import Migrator
from duetime.stores.sql.schema import OwnTables
from duetime.wiring import migrator
from tests.support.judge import Books, misfits, read_books

Section = Mapping[str, object] | list[Mapping[str, object]]

UNITS: Final = 1_000_000
"""Units of each SKU in all: what can be sold, what is held, and what was sold."""

_DIGIT: Final = "(" + " UNION ALL ".join(f"SELECT {digit} AS n" for digit in range(10)) + ")"


@dataclass(frozen=True)
class Words:
    """How one server says what the others say differently."""

    session_id: str
    deadlock: frozenset[str]
    lock_timeout: frozenset[str]
    deadlock_report: str | None
    """Asks for the latest deadlock; None where the victim's own error names the sessions."""
    sessions_in_deadlock: str
    """Finds the number of each session in such a report."""
    patience: str
    """Makes a session of the shop give up on a lock."""
    instant_type: str
    zoned: bool
    sync_driver: str
    """SQLAlchemy's name of a driver without an event loop."""
    analyse: str
    """Refreshes the planner's statistics of the sample shop."""
    schemas: bool = True
    """A schema is something inside a database, not another name for one."""
    sets_at_once: bool = True
    """Every expression of an UPDATE sees the row as it was, also the columns that stand before it."""


POSTGRESQL: Final = Words(
    session_id="SELECT pg_backend_pid()",
    deadlock=frozenset({"40P01"}),
    lock_timeout=frozenset({"55P03"}),
    deadlock_report=None,
    sessions_in_deadlock=r"Process (\d+) waits",
    patience="SET lock_timeout = '10s'",
    instant_type="timestamptz",
    zoned=True,
    sync_driver="postgresql+psycopg",
    analyse="ANALYZE",
)
MARIADB: Final = Words(
    session_id="SELECT connection_id()",
    deadlock=frozenset({"1213"}),
    lock_timeout=frozenset({"1205"}),
    deadlock_report="SHOW ENGINE INNODB STATUS",
    sessions_in_deadlock=r"(?:MariaDB|MySQL) thread id (\d+)",
    patience="SET SESSION innodb_lock_wait_timeout = 10",
    instant_type="datetime(6)",
    zoned=False,
    sync_driver="mysql+pymysql",
    analyse="ANALYZE TABLE orders, duetime_hold",
    schemas=False,
    sets_at_once=False,
)
WORDS: Final[Mapping[str, Words]] = {"postgresql": POSTGRESQL, "mariadb": MARIADB}


@dataclass(frozen=True, kw_only=True)
class Filling:
    """Pending orders to add: each holds one or two units of ``holds`` different SKUs, some a coupon too."""

    orders: int
    skus: int = 20
    holds: int = 2
    prefix: str = "o"
    first: int = 0
    late_by: timedelta = timedelta(seconds=10)
    coupons: bool = False


@dataclass
class ShopDatabase:
    """One test's database."""

    url: str
    words: Words
    units: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.engine: AsyncEngine = create_async_engine(async_url(self.url), pool_size=5, pool_pre_ping=True)

    async def aclose(self) -> None:
        await self.engine.dispose()

    # Tables and rows

    async def create(self) -> None:
        """Make the sample shop, duetime's tables and the index, as ``duetime migrate --sample-shop`` does."""
        await self.migrator().run(sample_shop=True)

    def quote(self, *parts: str) -> str:
        """Quote a name for this server, whatever it is made of; for a statement that is read for ``:parameters``."""
        quote = self.engine.dialect.identifier_preparer.quote_identifier
        return ".".join(quote(part).replace(":", "\\:").replace("%%", "%") for part in parts)

    async def schema(self, name: str) -> str:
        """Make a schema and answer its name: where databases have none, the database is the only one."""
        if not self.words.schemas:
            return str((await self.rows("SELECT database()"))[0][0])
        await self.execute(f"CREATE SCHEMA {self.quote(name)}")
        return name

    async def clear(self) -> None:
        """Empty all tables."""
        own = OwnTables().metadata.sorted_tables
        await self.execute(*(f"DELETE FROM {table}" for table in (*own, "orders", "stock", "coupon")))

    def migrator(self, **sections: Section) -> Migrator:
        return migrator(self.settings(**sections))

    async def execute(self, *statements: str, **values: object) -> None:
        async with self.engine.begin() as connection:
            for statement in statements:
                await self.run(connection, statement, **values)

    async def run(self, connection: AsyncConnection, statement: str, **values: object) -> CursorResult[Any]:
        return await connection.execute(text(statement), {name: self.bound(value) for name, value in values.items()})

    async def rows(self, query: str, **values: object) -> Sequence[Any]:
        async with self.engine.connect() as connection:
            found: Sequence[Any] = (await self.run(connection, query, **values)).all()
            return found

    async def number(self, query: str, **values: object) -> int:
        return int((await self.rows(query, **values))[0][0])

    def bound(self, value: object) -> object:
        """Write an instant as the column holds it: with its zone where the server keeps one, else as UTC."""
        if not isinstance(value, datetime) or self.words.zoned:
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    async def add_skus(self, count: int, units: int = UNITS) -> None:
        async with self.engine.begin() as connection:
            for n in range(count):
                self.units[sku(n)] = units
                insert = "INSERT INTO stock (sku_id, available, held) VALUES (:sku, :units, 0)"
                await self.run(connection, insert, sku=sku(n), units=units)

    async def fill(self, filling: Filling) -> None:
        """Add SKUs where there are none, and orders with what they hold; then look after the planner's statistics."""
        if not self.units:
            await self.add_skus(filling.skus)
        await self.add_orders(filling)
        await self._analyse()

    async def add_orders(self, filling: Filling) -> None:
        """Add orders, and take what they hold, as one transaction of the shop."""
        of = f"FROM {numbers(filling.first, filling.orders)}"
        number = f"concat('{filling.prefix}', n)"
        async with self.engine.begin() as connection:
            await self.run(
                connection,
                "INSERT INTO orders (order_no, status, expire_at, amount_minor, currency) "
                f"SELECT {number}, 'pending', :due, 1990, 'CNY' {of}",
                due=datetime.now(UTC) - filling.late_by,
            )
            for k in range(filling.holds):
                ref = f"concat('sku-', lpad(concat('', mod(n * {filling.holds} + {k}, {filling.skus})), 4, '0'))"
                await self.run(connection, f"{_HOLD} SELECT {number}, 'stock', {ref}, 1 + mod(n, 2), 'held' {of}")
            if filling.coupons:
                coupon = "concat('c-', n)"
                await self.run(connection, f"INSERT INTO coupon (coupon_id, state) SELECT {coupon}, 'locked' {of}")
                await self.run(connection, f"{_HOLD} SELECT {number}, 'coupon', {coupon}, 1, 'held' {of}")
            await self._take(connection, filling)

    async def _take(self, connection: AsyncConnection, filling: Filling) -> None:
        taken: Counter[str] = Counter()
        for n in range(filling.first, filling.first + filling.orders):
            for k in range(filling.holds):
                taken[sku((n * filling.holds + k) % filling.skus)] += 1 + n % 2
        statement = "UPDATE stock SET held = held + :units, available = available - :units WHERE sku_id = :ref"
        for ref, units in sorted(taken.items()):
            await self.run(connection, statement, units=units, ref=ref)

    async def _analyse(self) -> None:
        """Refresh the planner's statistics, which a shop's server does by itself in the course of hours."""
        async with self.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            await connection.execute(text(self.words.analyse))

    async def count(self, status: str) -> int:
        return await self.number("SELECT count(*) FROM orders WHERE status = :status", status=status)

    async def unfinished(self) -> int:
        query = "SELECT count(*) FROM duetime_hold WHERE state IN ('releasing', 'consuming')"
        return await self.number(query)

    async def settled(self) -> bool:
        """Nothing is pending and nothing waits for the releaser."""
        return await self.count("pending") == 0 and await self.unfinished() == 0

    # duetime on it

    def settings(self, **sections: Section) -> Settings:
        """Settings for this database; no grace and a quick sweep, unless a section says otherwise."""
        return load_settings(None, environ={}, **(self.sections() | sections))

    def sections(self) -> dict[str, Section]:
        return {"store": {"url": self.url}, "timeouts": {"grace": "0s"}, "sweep": {"interval": "300ms"}}

    def config(self, **sections: Section) -> str:
        """The same as a file, for a process of its own."""
        return config_text(self.sections() | sections)

    @asynccontextmanager
    async def duetime(self, *observers: Observer, **sections: Section) -> AsyncIterator[Duetime]:
        """Open a duetime of its own: other connections than everybody else's."""
        app = Duetime(self.settings(**sections), observers=observers)
        try:
            yield app
        finally:
            await app.aclose()

    # What became of it

    async def books(self) -> Books:
        return await read_books(self.rows)

    async def judge(self, *, settled: bool = True, grace: timedelta = timedelta(0)) -> Books:
        """Fail with everything that does not add up; answer what was read."""
        books = await self.books()
        found = misfits(books, units=self.units, settled=settled, grace=grace)
        assert not found, "\n".join(found)
        return books

    @property
    def driver_url(self) -> str:
        return store_url(self.settings()).render_as_string(hide_password=False)


_HOLD: Final = "INSERT INTO duetime_hold (order_no, kind, ref, quantity, state)"


def config_text(sections: Mapping[str, Section]) -> str:
    """Write sections as TOML."""
    return "\n".join(_toml(name, section) for name, section in sections.items())


def _toml(name: str, section: Section) -> str:
    if not isinstance(section, Mapping):
        return "\n".join(f"[[{name}]]\n{_lines(one)}" for one in section)
    return f"[{name}]\n{_lines(section)}"


def _lines(section: Mapping[str, object]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in section.items())


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)  # strings and numbers are written alike


def error_code(error: BaseException | None) -> str:
    """What a driver's error is known by: the server's number where there is one, else SQLSTATE."""
    first = error.args[0] if error is not None and error.args else None
    return str(first if isinstance(first, int) else getattr(error, "sqlstate", None) or type(error).__name__)


def sku(n: int) -> str:
    return f"sku-{n:04d}"


def numbers(first: int, count: int) -> str:
    """A table of ``count`` numbers, ``n``, made where it is needed: servers have different functions for this."""
    places = range(max(1, len(str(count - 1))))
    tables = " CROSS JOIN ".join(f"{_DIGIT} d{place}" for place in places)
    n = " + ".join(f"{10**place} * d{place}.n" for place in places)
    return f"(SELECT {first} + {n} AS n FROM {tables} WHERE {n} < {count}) numbers"
