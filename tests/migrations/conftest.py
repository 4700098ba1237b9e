"""A fresh database of each kind, as one who may do everything in it sees it."""

from typing import get_args

import pytest

from tests.migrations.database import Database
from tests.support.databases import DatabaseKind, FreshDatabase

KINDS = [pytest.param(kind, marks=[] if kind == "sqlite" else pytest.mark.services) for kind in get_args(DatabaseKind)]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> DatabaseKind:
    chosen: DatabaseKind = request.param
    return chosen


@pytest.fixture
def database(kind: DatabaseKind, fresh_database: FreshDatabase) -> Database:
    return Database(kind, fresh_database(kind))


@pytest.fixture
def other_database(kind: DatabaseKind, fresh_database: FreshDatabase) -> Database:
    return Database(kind, fresh_database(kind))


@pytest.fixture
def postgresql(postgresql_url: str) -> Database:
    return Database("postgresql", postgresql_url)


@pytest.fixture
def mariadb(mariadb_url: str) -> Database:
    return Database("mariadb", mariadb_url)


@pytest.fixture
def sqlite(sqlite_url: str) -> Database:
    return Database("sqlite", sqlite_url)
