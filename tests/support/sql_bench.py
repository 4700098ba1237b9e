"""A SQL store with the shop's hand beside it, as the contract suite and the histories want them."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from duetime.clock import SystemClock
from duetime.config.database_url import async_url
from duetime.shop import OrdersTable
from duetime.stores.sql.store import SqlOptions, SqlStore
from duetime.testing.sql_hand import SqlShopHand
from duetime.testing.suites import StoreBench, suite_assets
from tests.support.databases import fresh_name
from tests.support.servers import DatabaseServer, run_apart


@contextmanager
def filled_database(server: DatabaseServer) -> Iterator[str]:
    """Give a database with all tables for as long as the block lasts."""
    name = fresh_name()
    url = server.create(name)
    try:
        run_apart(create_tables(url))
        yield url
    finally:
        server.drop(name)


async def create_tables(url: str) -> None:
    hand = SqlShopHand(async_url(url))
    await hand.create_tables()
    await hand.aclose()


@asynccontextmanager
async def sql_bench(url: str, *, locks_rows: bool = True, store_url: str | None = None) -> AsyncIterator[StoreBench]:
    """Open a store and a hand on a database whose tables exist.

    ``store_url`` is another way to the same database, for a store that goes through a proxy.
    """
    hand = SqlShopHand(async_url(url), locks_rows=locks_rows)
    driver_url = async_url(store_url or url).render_as_string(hide_password=False)
    store = SqlStore(SqlOptions(driver_url, OrdersTable(), suite_assets()), clock=SystemClock())
    try:
        yield StoreBench(store, hand)
    finally:
        await store.aclose()
        await hand.aclose()


async def cleared(bench: StoreBench) -> StoreBench:
    """Empty all tables, for the next test on the same connections."""
    assert isinstance(bench.hand, SqlShopHand)
    await bench.hand.clear()
    return bench
