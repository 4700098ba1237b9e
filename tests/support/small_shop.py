"""A sample shop without rows on any database, whose rows are written by plain SQL."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from duetime.app import Duetime
from duetime.config.database_url import async_url
from duetime.observer import Observer
from duetime.settings import load_settings
from duetime.wiring import migrator
from tests.support.shop_database import Section


@asynccontextmanager
async def a_shop(
    url: str, *observers: Observer, tables: Sequence[str] = (), **sections: Section
) -> AsyncIterator[tuple[Duetime, AsyncEngine]]:
    """Make the sample shop, and ``tables`` by further statements, and open a duetime on it."""
    full = async_url(url).render_as_string(hide_password=False)
    usual: dict[str, Section] = {
        "store": {"url": full},
        "timeouts": {"grace": "0s"},
        "sweep": {"pause": "0s", "page_size": 3},
    }
    settings = load_settings(None, environ={}, **(usual | sections))
    await migrator(settings).run(sample_shop=True, progress=lambda _: None)
    engine = create_async_engine(full)
    try:
        await run(engine, *tables)
        async with Duetime(settings, observers=observers) as duetime:
            yield duetime, engine
    finally:
        await engine.dispose()


async def run(engine: AsyncEngine, *statements: str) -> None:
    async with engine.begin() as connection:
        for statement in statements:
            await connection.execute(text(statement))


async def orders(engine: AsyncEngine, *numbers: str, expire_at: str = "2020-01-01 10:00:00") -> None:
    rows = ", ".join(f"('{number}', 'pending', '{expire_at}')" for number in numbers)
    await run(engine, f"INSERT INTO orders (order_no, status, expire_at) VALUES {rows}")


async def states(engine: AsyncEngine) -> dict[str, str]:
    async with engine.connect() as connection:
        rows = await connection.execute(text("SELECT order_no, status FROM orders"))
        return {row[0]: row[1] for row in rows}
