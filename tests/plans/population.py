"""Shops with a great many orders that are none of our business now, and a few that are due.

``closed``: years of closed orders lie among the due ones. ``waiting``: a great many are pending and not due yet.

The statistics that the planner goes by:

=========  =====================================================================================================
fresh      gathered when all was there
empty      gathered when the tables were empty, and not since
young      gathered when there were a few closed orders and nothing was pending, and not since
never      never gathered
=========  =====================================================================================================
"""

from dataclasses import dataclass
from typing import Literal

from benchmarks.benching.shop import Rows, Shop
from duetime.config.database_url import async_url
from duetime.shop import OrdersTable
from duetime.stores.sql.migrate import Migrator
from tests.support.databases import DatabaseKind

Population = Literal["closed", "waiting"]
Statistics = Literal["fresh", "empty", "young", "never"]

DUE = 3_000
"""Orders that are due, each with two holds."""

SKUS = 5_000
UNFINISHED = 300
"""Holds that wait for the releaser, all on one SKU."""

COPIED = 50_000
"""Orders that stand in the other order table too."""

WAITED_FOR = "sku-000000007"
YOUNG = 200

# Fresh ones come last: they are gathered in the shop that was filled for the ones before.
# On MariaDB statistics that were never gathered are those of the empty table; on SQLite an empty table leaves none.
STATISTICS: dict[DatabaseKind, tuple[Statistics, ...]] = {
    "postgresql": ("never", "empty", "fresh"),
    "mariadb": ("empty", "fresh"),
    "sqlite": ("never", "young", "fresh"),
}
LONG_STATISTICS: dict[DatabaseKind, tuple[Statistics, ...]] = {
    "postgresql": ("never", "empty", "young", "fresh"),
    "mariadb": ("empty", "young", "fresh"),
    "sqlite": ("never", "young", "fresh"),
}

NUMBERED = OrdersTable.model_validate(
    {
        "table": "t_order", "order_no": "sn", "status": "state", "expire_at": "pay_deadline",
        "closed_at": "", "close_reason": "", "close_source": "", "category": "", "amount": "", "currency": "=CNY",
        "states": {"pending": [0, 7], "paid": 1, "closed": 4},
    }
)  # fmt: skip
"""An order table of the shop's own, with numbers for states, two of which are pending."""

CONDITIONED = NUMBERED.model_copy(update={"only": "sn <> 'so-kept'"})
"""The same, of which only some rows may be closed."""

_NUMBERED_TABLE = {
    "postgresql": "CREATE TABLE t_order (id bigint PRIMARY KEY, sn varchar(64) NOT NULL, state smallint NOT NULL,"
    " pay_deadline timestamptz, UNIQUE (sn))",
    "mariadb": "CREATE TABLE t_order (id bigint PRIMARY KEY, sn varchar(64) NOT NULL, state smallint NOT NULL,"
    " pay_deadline datetime(6), UNIQUE (sn))",
    "sqlite": "CREATE TABLE t_order (id integer PRIMARY KEY, sn varchar(64) NOT NULL, state smallint NOT NULL,"
    " pay_deadline datetime, UNIQUE (sn))",
}
_GROWING = ("orders", "t_order", "duetime_hold", "stock")


@dataclass(frozen=True)
class Shape:
    """One shop to look at."""

    kind: DatabaseKind
    population: Population
    statistics: Statistics
    rows: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.rows // 1000}k-{self.population}-{self.statistics}"


async def populate(url: str, shape: Shape) -> None:
    """Fill the database at ``url``."""
    shop = Shop(shape.kind, url)
    await shop.create()
    await shop.execute(_NUMBERED_TABLE[shape.kind])
    await Migrator(async_url(url), NUMBERED).run()
    await _freeze_statistics(shop)
    if shape.statistics == "empty":
        await gather_statistics(shop)
    first = DUE + 1
    if shape.statistics == "young":
        first += YOUNG
        await shop.add_orders(Rows(DUE + 1, DUE + YOUNG, "closed", from_seconds=-7200))
        await gather_statistics(shop)
    await shop.add_orders(_many(shape, first))
    await shop.add_orders(Rows(1, DUE, from_seconds=-3600, spread_seconds=3000))
    await shop.add_holds(DUE, SKUS)
    await _add_other_holds(shop, shape)
    await _copy_orders(shop)
    if shape.statistics == "fresh":
        await gather_statistics(shop)


def _many(shape: Shape, first: int) -> Rows:
    last = DUE + shape.rows
    if shape.population == "closed":
        return Rows(first, last, "closed", from_seconds=-3600, spread_seconds=3000)
    return Rows(first, last, "pending", from_seconds=3600, spread_seconds=3000)


async def _add_other_holds(shop: Shop, shape: Shape) -> None:
    """Give one in four of the many orders a hold, and those that wait for the releaser."""
    state = "'released'" if shape.population == "closed" else "'held'"
    first = shop.padded("so-", str(DUE + 1))
    usual = shop.padded("sku-", f"id % {SKUS}")
    waits = f"order_no < {shop.padded('so-', str(DUE + 1 + UNFINISHED))}"
    await shop.execute(
        "INSERT INTO duetime_hold (order_no, kind, ref, quantity, state) "
        f"SELECT order_no, 'stock', CASE WHEN {waits} THEN '{WAITED_FOR}' ELSE {usual} END, "
        f"1, CASE WHEN {waits} THEN 'releasing' ELSE {state} END FROM orders "
        f"WHERE order_no >= {first} AND (id % 4 = 0 OR {waits})"
    )


async def _copy_orders(shop: Shop) -> None:
    await shop.execute(
        "INSERT INTO t_order (id, sn, state, pay_deadline) "
        "SELECT id, order_no, CASE status WHEN 'pending' THEN 7 * (id % 2) ELSE 4 END, expire_at FROM orders "
        f"WHERE order_no < {shop.padded('so-', str(COPIED))}"
    )


async def _freeze_statistics(shop: Shop) -> None:
    """Keep the database from gathering statistics by itself in the middle of a test."""
    if shop.kind == "postgresql":
        await shop.execute(*(f"ALTER TABLE {table} SET (autovacuum_enabled = false)" for table in _GROWING))
    elif shop.kind == "mariadb":
        await shop.execute(*(f"ALTER TABLE {table} STATS_AUTO_RECALC = 0" for table in _GROWING))


async def gather_statistics(shop: Shop, *of: str) -> None:
    """Do what the database does from time to time."""
    tables = ", ".join(of or _GROWING)
    ways = {"postgresql": f"ANALYZE {tables}", "mariadb": f"ANALYZE TABLE {tables}", "sqlite": "ANALYZE"}
    await shop.execute(ways[shop.kind])
