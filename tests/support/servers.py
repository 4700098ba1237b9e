"""The database servers of the tests, as one who may create and drop databases sees them.

The methods are synchronous on purpose: fixtures and command line tests have no event loop, and tests that have one
may block it for the few milliseconds that a database takes.
"""

import asyncio
import os
import re
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

DATABASE_PREFIX = "duetime_test"
CONNECT_SECONDS_MAX = 5
STATEMENT_SECONDS_MAX = 60

Row = tuple[Any, ...]
Result = TypeVar("Result")


class DatabaseServer(Protocol):
    """A running server that gives every test a database of its own."""

    @property
    def url(self) -> str:
        """The address of one who may create databases."""

    def check(self) -> None:
        """Raise when the server does not serve us."""

    def names(self) -> list[str]:
        """Return the names of all databases."""

    def create(self, name: str, *, template: str | None = None) -> str:
        """Create a database, as a copy of another one where the server can do that, and return its URL."""

    def drop(self, name: str) -> None:
        """Drop a database, whoever is still connected to it."""


def url_of(server_url: str, database: str) -> str:
    """Return the URL of another database on the same server."""
    return urlsplit(server_url)._replace(path=f"/{database}").geturl()


def drop_leftovers(server: DatabaseServer) -> None:
    """Drop the databases of test runs that were killed before they could."""
    for name in server.names():
        match = re.fullmatch(rf"{DATABASE_PREFIX}_(\d+)_\w+", name)
        if match and not process_lives(int(match[1])):
            server.drop(name)


def process_lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@dataclass(frozen=True)
class PostgreSQLServer:
    url: str

    def check(self) -> None:
        self._run("SELECT 1")

    def names(self) -> list[str]:
        return [row[0] for row in self._run("SELECT datname FROM pg_database")]

    def create(self, name: str, *, template: str | None = None) -> str:
        self._run(f'CREATE DATABASE "{name}" TEMPLATE "{template or "template1"}"')
        return url_of(self.url, name)

    def drop(self, name: str) -> None:
        self._run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _run(self, statement: str) -> list[Row]:
        import psycopg  # noqa: PLC0415 -- an extra: without it these tests are skipped, the others run

        with psycopg.connect(self.url, autocommit=True, connect_timeout=CONNECT_SECONDS_MAX) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@dataclass(frozen=True)
class MariaDBServer:
    url: str

    def check(self) -> None:
        self._run("SELECT 1")

    def names(self) -> list[str]:
        return [row[0] for row in self._run("SELECT schema_name FROM information_schema.schemata")]

    def create(self, name: str, *, template: str | None = None) -> str:
        if template is not None:
            raise NotImplementedError("MariaDB and MySQL have no templates: fill the database after creating it")
        self._run(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        return url_of(self.url, name)

    def drop(self, name: str) -> None:
        # DROP DATABASE would wait for the transactions of sessions that a test left behind.
        sessions = self._run(f"SELECT id FROM information_schema.processlist WHERE db = '{name}'")
        for (session,) in sessions:
            self._run(f"KILL {session}", forgive=1094)  # 1094: it went away by itself
        self._run(f"DROP DATABASE IF EXISTS `{name}`")

    def _run(self, statement: str, *, forgive: int | None = None) -> list[Row]:
        return run_apart(self._run_async(statement, forgive))

    async def _run_async(self, statement: str, forgive: int | None) -> list[Row]:
        import asyncmy  # noqa: PLC0415 -- an extra: without it these tests are skipped, the others run
        from asyncmy.errors import Error  # noqa: PLC0415 -- the same

        address = urlsplit(self.url)
        connection = await asyncmy.connect(
            host=address.hostname,
            port=address.port or 3306,
            user=unquote(address.username or ""),
            password=unquote(address.password or ""),
            autocommit=True,
            connect_timeout=CONNECT_SECONDS_MAX,
        )
        try:
            async with connection.cursor() as cursor:
                await cursor.execute(statement)
                return list(await cursor.fetchall())
        except Error as error:
            if forgive is None or error.args[0] != forgive:
                raise
            return []
        finally:
            await connection.ensure_closed()


def run_apart(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in an event loop of its own, also while this thread's loop is running."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result(timeout=STATEMENT_SECONDS_MAX)
