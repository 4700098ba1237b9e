"""The sample shop, filled inside the database: orders by the hundred thousand take seconds, not minutes.

SKUs are drawn by a linear congruence of the order's number, so that every run and every database gets the same shop.
"""

from dataclasses import dataclass
from typing import Any

from duetime.config.database_url import async_url
from duetime.shop import OrdersTable
from duetime.stores.sql.migrate import Migrator

from .databases import plain_engine

AVAILABLE = 1000
"""Units of every SKU that nobody holds when a run begins."""

_NUMBERED = {
    "postgresql": "(SELECT n FROM generate_series(CAST({first} AS bigint), {last}) AS g (n)) AS g",
    "mariadb": "(SELECT seq AS n FROM seq_{first}_to_{last}) AS g",
    "sqlite": "(WITH RECURSIVE g (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM g WHERE n < {last})"
    " SELECT n FROM g) AS g",
}
_PADDED = {
    "postgresql": "'{prefix}' || lpad(CAST({number} AS text), {digits}, '0')",
    "mariadb": "concat('{prefix}', lpad({number}, {digits}, '0'))",
    "sqlite": "printf('{prefix}%0{digits}d', {number})",
}
_MOMENT = {
    "postgresql": "now() + interval '1 second' * {seconds} + interval '1 microsecond' * ({micros})",
    "mariadb": "UTC_TIMESTAMP(6) + INTERVAL {seconds} SECOND + INTERVAL ({micros}) MICROSECOND",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%S', strftime('%s', 'now') + {seconds} + ({micros}) / 1000000, 'unixepoch')"
    " || printf('.%06d', ({micros}) % 1000000)",
}
_SKU_OF_OURS = "CAST(sku_id AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_bin"
"""A key of the shop's as our columns hold it: compared to them as it is, MariaDB would use no index."""

_TABLES = ("orders", "stock", "coupon", "duetime_hold", "duetime_outbox", "duetime_sweep_run", "duetime_quarantine")


@dataclass(frozen=True, slots=True)
class Rows:
    """A set of orders: those numbered ``first`` to ``last``, with deadlines spread over ``spread_seconds``.

    The first deadline lies ``from_seconds`` from now (negative: in the past).
    """

    first: int
    last: int
    status: str = "pending"
    from_seconds: int = -60
    spread_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind, as anybody would read it from outside."""

    pending: int
    closed_rightly: int
    holds_open: int
    held_units: int
    missing_units: int
    facts: int
    orders_with_facts: int
    payload_characters: float

    def problems(self, orders: int, skus: int) -> list[str]:
        """Say what is not as it must be after ``orders`` orders have been closed."""
        expected = {
            "pending": (self.pending, 0),
            "closed with reason, source and time": (self.closed_rightly, orders),
            "holds not released": (self.holds_open, 0),
            "units still held": (self.held_units, 0),
            f"units missing on {skus} SKUs": (self.missing_units, 0),
            "facts": (self.facts, orders),
            "orders with a fact": (self.orders_with_facts, orders),
        }
        return [f"{what}: {found}, expected {right}" for what, (found, right) in expected.items() if found != right]


class Shop:
    """The sample shop's tables and duetime's own in one database."""

    def __init__(self, kind: str, url: str) -> None:
        """Work on the database at ``url``; nothing is connected yet."""
        self.kind = kind
        self.url = url

    async def create(self) -> None:
        """Create all tables and the deadline index, as ``duetime migrate --sample-shop`` does."""
        await Migrator(async_url(self.url), OrdersTable()).run(sample_shop=True)

    async def execute(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        engine = plain_engine(self.url)
        async with engine.connect() as connection:
            for statement in statements:
                await connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
        await engine.dispose()

    async def row(self, query: str) -> tuple[Any, ...]:
        """Read one row."""
        engine = plain_engine(self.url)
        async with engine.connect() as connection:
            found = (await connection.exec_driver_sql(query, execution_options={"no_parameters": True})).one()
        await engine.dispose()
        return tuple(found)

    async def empty(self) -> None:
        """Empty the tables, giving their space back."""
        if self.kind == "postgresql":
            await self.execute(f"TRUNCATE {', '.join(_TABLES)} RESTART IDENTITY")
        elif self.kind == "mariadb":
            await self.execute(*(f"TRUNCATE {table}" for table in _TABLES))
        else:
            await self.execute(*(f"DELETE FROM {table}" for table in _TABLES), "VACUUM")

    async def add_orders(self, rows: Rows) -> None:
        """Insert orders."""
        micros = f"(n - {rows.first}) * {max(1, int(rows.spread_seconds * 1_000_000 / (rows.last - rows.first + 1)))}"
        moment = _MOMENT[self.kind].format(seconds=rows.from_seconds, micros=micros)
        await self.execute(
            "INSERT INTO orders (order_no, status, expire_at, category, amount_minor, currency, channel) "
            f"SELECT {self.padded('so-', 'n')}, '{rows.status}', {moment}, 'usual', n % 10000, 'CNY', 'web' "
            f"FROM {self.numbered(rows.first, rows.last)}"
        )

    def numbered(self, first: int, last: int) -> str:
        """Write a table expression with one column ``n`` that counts."""
        return _NUMBERED[self.kind].format(first=first, last=last)

    async def add_holds(self, orders: int, skus: int) -> None:
        """Give the orders 1 to ``orders`` two holds each, of 1 to 3 units on different SKUs, and SKUs their rows."""
        numbered = self.numbered(1, orders)
        one = f"(n * 1103515245 + 12345) % 2147483648 % {skus}"
        other = f"({one} + 1 + (n * 22695477 + 1) % 2147483648 % {skus - 1}) % {skus}"
        insert = "INSERT INTO duetime_hold (order_no, kind, ref, quantity) SELECT"
        await self.execute(
            *(
                f"{insert} {self.padded('so-', 'n')}, 'stock', {self.padded('sku-', sku)}, 1 + {quantity} "
                f"FROM {numbered}"
                for sku, quantity in ((one, "n % 3"), (other, "(n + 1) % 3"))
            )
        )
        numbered = self.numbered(0, skus - 1)
        await self.execute(
            f"INSERT INTO stock (sku_id, available, held) SELECT {self.padded('sku-', 'n')}, {AVAILABLE}, 0 "
            f"FROM {numbered}",
            self._take_units(),
        )

    def _take_units(self) -> str:
        units = "(SELECT ref, sum(quantity) AS units FROM duetime_hold GROUP BY ref) AS h"
        if self.kind == "mariadb":
            return f"UPDATE stock JOIN {units} ON ref = {_SKU_OF_OURS} SET held = units"
        return f"UPDATE stock SET held = units FROM {units} WHERE ref = sku_id"

    def padded(self, prefix: str, number: str) -> str:
        """Write a name: a prefix and a number of nine digits."""
        return _PADDED[self.kind].format(prefix=prefix, number=f"({number})", digits=9)

    async def settle_down(self) -> None:
        """Let the database finish what filling it left: statistics, hint bits, dirty pages."""
        if self.kind == "postgresql":
            await self.execute("VACUUM (ANALYZE)", "CHECKPOINT")
        elif self.kind == "mariadb":
            await self.execute("ANALYZE TABLE orders, stock, duetime_hold, duetime_outbox")
        else:
            await self.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    async def outcome(self) -> Outcome:
        """Look at what a run left behind."""
        pending, rightly = await self.row(
            "SELECT count(CASE WHEN status = 'pending' THEN 1 END), count(CASE WHEN status = 'closed' AND closed_at > "
            "expire_at AND close_reason = 'timeout' AND close_source IN ('sweep', 'database') THEN 1 END) FROM orders"
        )
        (holds,) = await self.row("SELECT count(*) FROM duetime_hold WHERE state <> 'released' OR released_at IS NULL")
        # All units that were ever held are available again: the sum over a SKU is what it was.
        held, missing = await self.row(
            f"SELECT sum(held), sum(abs(available - {AVAILABLE} - COALESCE(units, 0))) FROM stock LEFT JOIN "
            "(SELECT ref, sum(quantity) AS units FROM duetime_hold GROUP BY ref) AS h ON ref = "
            + (_SKU_OF_OURS if self.kind == "mariadb" else "sku_id")
        )
        payload = "CAST(payload AS text)" if self.kind == "postgresql" else "payload"
        facts, orders, characters = await self.row(
            f"SELECT count(*), count(DISTINCT order_no), avg(length({payload})) FROM duetime_outbox"
        )
        return Outcome(
            pending, rightly, holds, int(held), int(missing), facts, orders, round(float(characters or 0), 1)
        )  # fmt: skip

    async def unreleased(self) -> int:
        """Count holds that wait for the releaser."""
        (count,) = await self.row("SELECT count(*) FROM duetime_hold WHERE state = 'releasing'")
        return int(count)

    async def unfinished(self) -> int:
        """Count orders that are pending and holds that are not released."""
        (count,) = await self.row(
            "SELECT (SELECT count(*) FROM orders WHERE status = 'pending') + "
            "(SELECT count(*) FROM duetime_hold WHERE state <> 'released')"
        )
        return int(count)
