"""A shop that is not written in Python, as far as a database can tell: statements that are sent as they stand."""

from typing import Any

from sqlalchemy.ext.asyncio import create_async_engine

from duetime.config.database_url import async_url
from duetime.settings import load_settings
from duetime.wiring import migrator
from tests.support.servers import run_apart


def prepare(url: str) -> None:
    """Make the tables of duetime and of the sample shop."""
    run_apart(migrator(load_settings(environ={}, store={"url": url})).run(sample_shop=True))


def run_sql(url: str, text: str) -> list[tuple[Any, ...]]:
    """Send statements to a database, one after the other on one connection; answer the last one's rows."""
    return run_apart(_run(url, [one.strip() for one in f"{text}\n".split(";\n") if one.strip()]))


async def _run(url: str, statements: list[str]) -> list[tuple[Any, ...]]:
    engine = create_async_engine(async_url(url), isolation_level="AUTOCOMMIT")
    rows: list[tuple[Any, ...]] = []
    try:
        async with engine.connect() as connection:
            for statement in statements:
                result = await connection.exec_driver_sql(statement)
                rows = [tuple(row) for row in result.all()] if result.returns_rows else []
    finally:
        await engine.dispose()
    return rows
