"""`duetime` on a database with all tables, for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.patient import patients
from tests.support.shops import clean_shop, empty_shop, new_shop, shared_shop, shop, shop_url

__all__ = ["clean_shop", "empty_shop", "new_shop", "patients", "shared_shop", "shop", "shop_url"]


@pytest.fixture
def empty(database_url: str, tmp_path: Path) -> Iterator[CommandLine]:
    """The command on a new database, without any table; the test runs once on each kind."""
    command = CommandLine(database_url, tmp_path)
    with command.running:
        yield command


@pytest.fixture
def duetime(empty: CommandLine) -> CommandLine:
    """The command on a migrated sample shop; the test runs once on each kind of database."""
    return _migrated(empty)


@pytest.fixture
def on_sqlite(sqlite_url: str, tmp_path: Path) -> Iterator[CommandLine]:
    """The command on a migrated sample shop on SQLite, for what does not depend on the database."""
    command = CommandLine(sqlite_url, tmp_path)
    with command.running:
        yield _migrated(command)


def _migrated(command: CommandLine) -> CommandLine:
    said = command("migrate", "--sample-shop", "--json")
    assert said.code == 0, said.err
    command.more |= {"DUETIME_TIMEOUTS__GRACE": "0s", "DUETIME_SWEEP__INTERVAL": "100ms"}
    return command
