"""Rights that are missing, servers that are too old or away: a sentence that says what to do."""

import os
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from duetime.errors import ConfigError, StoreMisfit, StoreUnavailable
from duetime.shop import OrdersTable
from duetime.stores.sql.migrate import Migrator
from duetime.stores.sql.migrating.ground import Ground, Job
from duetime.stores.sql.migrating.mysql import MySQLGround
from duetime.stores.sql.migrating.postgresql import PostgreSQLGround
from duetime.stores.sql.migrating.sqlite import SQLiteGround
from tests.migrations.database import Database
from tests.support.databases import FreshDatabase

JOB = Job(OrdersTable(), None, 1, print)
CLERK = f"duetime_test_clerk_{os.getpid()}"
PASSWORD = "test"
MARIADB = 10


@pytest.mark.parametrize(
    "ground, version, sentence",
    [
        (PostgreSQLGround(JOB), (11, 22), "this is PostgreSQL 11.22; 12 is the oldest"),
        (PostgreSQLGround(JOB), (12, 0), None),
        (MySQLGround(JOB), (5, 7, 44), "this is MySQL 5.7.44; 8.0.1 is the oldest"),
        (MySQLGround(JOB), (8, 0, 0), "this is MySQL 8.0.0; 8.0.1 is the oldest"),
        (MySQLGround(JOB), (8, 0, 1), None),
        (MySQLGround(JOB), (10, 5, 27), "this is MariaDB 10.5.27; 10.6 is the oldest"),
        (MySQLGround(JOB), (10, 6, 0), None),
        (SQLiteGround(JOB), (3, 34, 1), "this is SQLite 3.34.1; 3.35 is the oldest"),
        (SQLiteGround(JOB), (3, 35, 0), None),
    ],
)
def test_old_versions_are_refused(ground: Ground, version: tuple[int, ...], sentence: str | None) -> None:
    dialect = SimpleNamespace(server_version_info=version, is_mariadb=version[0] == MARIADB)
    connection = SimpleNamespace(dialect=dialect)
    if sentence is None:
        ground.check_version(connection)  # type: ignore[arg-type]  # all that is looked at is the dialect
        return
    with pytest.raises(ConfigError, match=sentence):
        ground.check_version(connection)  # type: ignore[arg-type]  # the same


async def test_the_version_is_looked_at_before_anything_is_written(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.stores.sql.sqlite.SQLite.oldest", (99,))
    with pytest.raises(ConfigError, match="99 is the oldest"):
        await sqlite.migrator().run(sample_shop=True)
    assert list(await sqlite.rows("SELECT 1 FROM sqlite_master")) == []


def account_on(database: Database) -> str:
    return f"'{CLERK}'@'127.0.0.1'" if database.kind == "mariadb" else CLERK


@pytest.fixture
async def clerk(database: Database) -> AsyncIterator[Migrator]:
    """A user who may read the order table and nothing else."""
    await database.execute("CREATE TABLE orders (id int primary key, status varchar(9), expire_at timestamp)")
    account = account_on(database)
    made = {
        "mariadb": [f"CREATE USER {account} IDENTIFIED BY '{PASSWORD}'", f"GRANT SELECT ON orders TO {account}"],
        "postgresql": [
            f"CREATE ROLE {CLERK} LOGIN PASSWORD '{PASSWORD}'",
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
            f"GRANT SELECT ON orders TO {CLERK}",
        ],
    }[database.kind]
    await database.execute(*made)
    url = database.url.set(username=CLERK, password=PASSWORD)
    yield Migrator(url, OrdersTable())
    await database.execute(
        *([f"DROP USER {account}"] if database.kind == "mariadb" else [f"DROP OWNED BY {CLERK}", f"DROP ROLE {CLERK}"])
    )


SERVERS = [pytest.param(kind, marks=pytest.mark.services) for kind in ("postgresql", "mariadb")]


@pytest.mark.parametrize("kind", SERVERS, indirect=True)
async def test_missing_rights_are_named_with_two_ways_out(clerk: Migrator, database: Database) -> None:
    tables = r"creating duetime's own tables: [^\n]*denied[^\n]*; grant the right to create tables, or let `duetime"
    with pytest.raises(StoreMisfit, match=tables):
        await clerk.run()
    await database.migrator().run(shop_ddl=False)
    await grant_reading(database)
    index = "building the deadline index on orders: .*grant the right to create an index on orders, or let"
    with pytest.raises(StoreMisfit, match=index):
        await clerk.run()


@pytest.mark.parametrize("kind", SERVERS, indirect=True)
async def test_a_run_that_has_nothing_to_do_needs_no_right_to_define(clerk: Migrator, database: Database) -> None:
    await database.migrator().run()
    await grant_reading(database)
    report = await clerk.run()
    assert (report.applied, report.index, report.index_built) == ((), "duetime_due_orders", False)


async def grant_reading(database: Database) -> None:
    await database.execute(f"GRANT SELECT ON duetime_version TO {account_on(database)}")


async def test_a_server_that_is_away_is_unavailable(fresh_database: FreshDatabase) -> None:
    del fresh_database
    for url in ("postgresql+psycopg://u:secret@127.0.0.1:1/x", "mysql+asyncmy://u:secret@127.0.0.1:1/x"):
        with pytest.raises(StoreUnavailable) as caught:
            await Migrator(url, OrdersTable()).run()
        assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"store\.url: the folder /nowhere"):
        await Migrator("sqlite+aiosqlite:////nowhere/shop.db", OrdersTable()).run()
