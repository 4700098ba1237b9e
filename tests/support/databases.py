"""Fixtures that give each test a database of its own, and take it away afterwards."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.support.absence import without
from tests.support.servers import DATABASE_PREFIX, DatabaseServer, MariaDBServer, PostgreSQLServer, drop_leftovers
from tests.support.template import fill_template

DatabaseKind = Literal["sqlite", "postgresql", "mariadb"]
FreshDatabase = Callable[[DatabaseKind], str]

_numbers = itertools.count(1)


def fresh_name() -> str:
    """Return a database name that tells which process made it, so that the next run can clean up after a killed one."""
    return f"{DATABASE_PREFIX}_{os.getpid()}_{next(_numbers)}"


@pytest.fixture(scope="session")
def postgresql_server() -> PostgreSQLServer:
    """The PostgreSQL server named by DUETIME_TEST_POSTGRESQL_URL."""
    server = PostgreSQLServer(server_url("PostgreSQL"))
    prepare(server, "PostgreSQL")
    return server


@pytest.fixture(scope="session")
def mariadb_server() -> MariaDBServer:
    """The MariaDB or MySQL server named by DUETIME_TEST_MARIADB_URL."""
    server = MariaDBServer(server_url("MariaDB"))
    prepare(server, "MariaDB")
    return server


@pytest.fixture(scope="session")
def postgresql_template(postgresql_server: PostgreSQLServer) -> Iterator[str]:
    """The name of the database that each PostgreSQL test gets a copy of; see tests/support/template.py."""
    name = fresh_name()
    fill_template(postgresql_server.create(name))
    yield name
    postgresql_server.drop(name)


@pytest.fixture
def fresh_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FreshDatabase]:
    """A function from a kind to the URL of a new, empty database of that kind; all are dropped after the test."""
    made: list[tuple[DatabaseServer, str]] = []

    def make(kind: DatabaseKind) -> str:
        name = fresh_name()
        if kind == "sqlite":
            return f"sqlite:///{tmp_path / name}.db"
        template = request.getfixturevalue("postgresql_template") if kind == "postgresql" else None
        server: DatabaseServer = request.getfixturevalue(f"{kind}_server")
        made.append((server, name))
        return server.create(name, template=template)

    yield make
    for server, name in made:
        server.drop(name)


@pytest.fixture
def sqlite_url(fresh_database: FreshDatabase) -> str:
    """The URL of a SQLite file that does not exist yet."""
    return fresh_database("sqlite")


@pytest.fixture
def postgresql_url(postgresql_server: PostgreSQLServer, fresh_database: FreshDatabase) -> str:
    """The URL of a new PostgreSQL database."""
    del postgresql_server  # asked for so that a test that needs the server says so when it is collected
    return fresh_database("postgresql")


@pytest.fixture
def mariadb_url(mariadb_server: MariaDBServer, fresh_database: FreshDatabase) -> str:
    """The URL of a new MariaDB database."""
    del mariadb_server  # asked for so that a test that needs the server says so when it is collected
    return fresh_database("mariadb")


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.services),
        pytest.param("mariadb", marks=pytest.mark.services),
    ]
)
def database_url(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> str:
    """The URL of a new database; the test runs once on each kind."""
    return fresh_database(request.param)


def server_url(name: str) -> str:
    """Return the URL of a server, or end the test when nobody said where the server is."""
    variable = f"DUETIME_TEST_{name.upper()}_URL"
    return os.environ.get(variable) or without(name, f"{variable} is not set")


def prepare(server: DatabaseServer, name: str) -> None:
    """Make sure that the server serves us, and clean up after runs that were killed."""
    try:
        server.check()
    except Exception as error:  # noqa: BLE001 -- every driver has errors of its own; the sentence carries what it said
        without(name, f"{type(error).__name__}: {error}")
    drop_leftovers(server)
