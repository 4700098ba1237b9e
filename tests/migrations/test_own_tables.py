"""The migrations lead to exactly the tables that the code describes, from wherever a run was cut off."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from duetime.errors import ConfigError
from duetime.shop import OrdersTable
from duetime.stores.sql.migrate import Migrator
from duetime.stores.sql.migrating.own_tables import newest
from duetime.stores.sql.schema import OwnTables
from tests.migrations.catalog import own_catalog
from tests.migrations.database import Database

REPOSITORY = Path(__file__).resolve().parents[2]
ODD_SCHEMA = 'Own "%:x`'


async def create_all(database: Database) -> None:
    own = OwnTables(partial_indexes=database.kind != "mariadb")
    engine = create_async_engine(database.url)
    async with engine.begin() as connection:
        await connection.run_sync(own.metadata.create_all)
    await engine.dispose()


async def test_migrations_lead_to_the_tables_that_the_code_describes(
    database: Database, other_database: Database
) -> None:
    await database.migrator().run(shop_ddl=False)
    await create_all(other_database)
    migrated, described = await own_catalog(database), await own_catalog(other_database)
    assert all(described.values())
    assert migrated == described


async def test_catalogs_differ_when_one_default_does(database: Database) -> None:
    await database.migrator().run(shop_ddl=False)
    before = await own_catalog(database)
    await database.execute("DROP TABLE duetime_lease")
    name = {
        "postgresql": 'VARCHAR(190) COLLATE "C"',
        "mariadb": "VARCHAR(190) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "sqlite": "VARCHAR(190)",
    }[database.kind]
    instant = {"postgresql": "timestamptz", "mariadb": "DATETIME(6)", "sqlite": "DATETIME"}[database.kind]
    await database.execute(
        f"CREATE TABLE duetime_lease (name {name} NOT NULL, holder {name}, expires_at {instant}, "
        "token BIGINT DEFAULT '1' NOT NULL, PRIMARY KEY (name))"
    )
    assert await own_catalog(database) != before


async def test_a_second_run_does_nothing(database: Database) -> None:
    first = await database.migrator().run(shop_ddl=False)
    before = await own_catalog(database)
    said: list[str] = []
    second = await database.migrator().run(shop_ddl=False, progress=said.append)
    assert (first.applied, second.applied, second.revision) == (("0001",), (), newest())
    assert await own_catalog(database) == before
    assert said == ["own tables: nothing to do, they are at revision 0001"]


@pytest.mark.parametrize("statements", [1, 12])
async def test_a_run_killed_between_two_statements_is_completed(
    database: Database, other_database: Database, statements: int
) -> None:
    run_until_killed(database, statements)
    await database.migrator().run(shop_ddl=False)
    await create_all(other_database)
    assert await own_catalog(database) == await own_catalog(other_database)
    assert await database.migrator().revision() == newest()


def run_until_killed(database: Database, statements: int) -> None:
    """Migrate in a process that kills itself before it sends one more defining statement."""
    command = [sys.executable, "-m", "tests.migrations.killed", database.text_url, str(statements)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


async def test_printed_statements_lead_to_the_same_database(database: Database, other_database: Database) -> None:
    printed = database.migrator().sql(sample_shop=True)
    await run_by_hand(database, printed)
    await other_database.migrator().run(sample_shop=True)
    assert await own_catalog(database) == await own_catalog(other_database)
    assert await database.index_names() == {"duetime_due_orders"}
    report = await database.migrator().run()
    assert (report.applied, report.index, report.index_built) == ((), "duetime_due_orders", False)


async def run_by_hand(database: Database, script: str) -> None:
    async with database.session() as connection:
        for statement in re.split(r";\n", script):
            lines = [line for line in statement.splitlines() if not line.startswith("--")]
            if any(line.strip() for line in lines):
                await connection.exec_driver_sql("\n".join(lines), execution_options={"no_parameters": True})


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "mysql+asyncmy", "mariadb+asyncmy"])
def test_statements_are_printed_without_a_server(scheme: str) -> None:
    printed = Migrator(f"{scheme}://user:secret@nowhere.invalid/shop", OrdersTable()).sql()
    assert "CREATE TABLE IF NOT EXISTS duetime_hold" in printed
    assert "duetime_due_orders" in printed
    assert "secret" not in printed


async def test_only_what_is_missing_is_printed_for_a_database_that_has_the_tables(database: Database) -> None:
    await database.migrator().run(shop_ddl=False)
    printed = database.migrator().sql(since=await database.migrator().revision(), shop_ddl=False)
    assert "CREATE" not in printed


async def test_tables_of_a_newer_release_are_left_alone(database: Database) -> None:
    await database.migrator().run(shop_ddl=False)
    await database.execute("UPDATE duetime_version SET version_num = '0999'")
    with pytest.raises(ConfigError, match=r"revision 0999.*newer duetime"):
        await database.migrator().run(shop_ddl=False)


@pytest.mark.services
async def test_own_tables_live_in_a_schema_of_any_name(postgresql: Database) -> None:
    migrator = postgresql.migrator(schema=ODD_SCHEMA)
    await migrator.run(shop_ddl=False)
    await migrator.run(shop_ddl=False)
    assert await migrator.revision() == newest()
    assert not (await own_catalog(postgresql))["columns"]
    assert (await own_catalog(postgresql, ODD_SCHEMA))["columns"]


@pytest.mark.services
async def test_printed_statements_name_a_schema_as_it_is(postgresql: Database) -> None:
    await run_by_hand(postgresql, postgresql.migrator(schema=ODD_SCHEMA).sql(shop_ddl=False))
    assert await postgresql.migrator(schema=ODD_SCHEMA).revision() == newest()
    assert (await postgresql.migrator(schema=ODD_SCHEMA).run(shop_ddl=False)).applied == ()


@pytest.mark.services
async def test_a_schema_is_a_database_on_mariadb(mariadb: Database) -> None:
    schema = f"duetime_test_{os.getpid()}_own %:x"
    try:
        report = await mariadb.migrator(schema=schema).run(shop_ddl=False)
        assert report.applied == (newest(),)
        count = f"SELECT count(*) FROM information_schema.tables WHERE table_schema = '{schema}'"
        assert (await mariadb.rows(count))[0][0] == len(OwnTables().metadata.tables) + 1
    finally:
        await mariadb.execute(f"DROP DATABASE IF EXISTS {mariadb.quote(schema)}")


async def test_sqlite_has_no_schemas(sqlite: Database) -> None:
    with pytest.raises(ConfigError, match=r"store\.schema: SQLite has no schemas"):
        await sqlite.migrator(schema="own").run()
