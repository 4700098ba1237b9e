"""Databases that live as long as a block; `make bench` starts the servers and says where they are."""

import itertools
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from duetime.config.database_url import async_url

KINDS = ("postgresql", "mariadb", "sqlite")

_VARIABLES = {"postgresql": "DUETIME_TEST_POSTGRESQL_URL", "mariadb": "DUETIME_TEST_MARIADB_URL"}
_numbers = itertools.count(1)


class NoServer(Exception):
    """A benchmark was asked for a server that nobody started."""


def plain_engine(url: str | URL) -> AsyncEngine:
    """Make an engine in autocommit that keeps no connections."""
    made = async_url(url) if isinstance(url, str) else url
    options: dict[str, Any] = {"connect_args": {"timeout": 60}} if made.get_backend_name() == "sqlite" else {}
    return create_async_engine(made, poolclass=NullPool, isolation_level="AUTOCOMMIT", **options)


@asynccontextmanager
async def fresh_database(kind: str) -> AsyncIterator[str]:
    """Give the URL of a new, empty database of this kind; it is dropped at the end of the block.

    Raises:
        NoServer: the server's address is not in the environment.
    """
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="duetime_bench_") as folder:
            yield f"sqlite:///{Path(folder) / 'shop.db'}"
        return
    variable = _VARIABLES[kind]
    if not os.environ.get(variable):
        raise NoServer(f'{variable} is not set: run `make bench`, or eval "$(scripts/services env)" first')
    server = async_url(os.environ[variable])
    # Named like a database of the tests, so that what a killed benchmark left is dropped by the next test run.
    name = f"duetime_test_{os.getpid()}_bench{next(_numbers)}"
    await _execute(server, f"CREATE DATABASE {name}{'' if kind == 'postgresql' else ' CHARACTER SET utf8mb4'}")
    try:
        yield os.environ[variable].rpartition("/")[0] + f"/{name}"
    finally:
        await _execute(server, f"DROP DATABASE IF EXISTS {name}{' WITH (FORCE)' if kind == 'postgresql' else ''}")


async def _execute(server: URL, statement: str) -> None:
    engine = plain_engine(server)
    async with engine.connect() as connection:
        await connection.exec_driver_sql(statement)
    await engine.dispose()
