"""Fixtures of every suite: fresh databases on real servers, no task left behind, time budgets."""

import pytest

from tests.support.budgets import BudgetReport, read_budgets
from tests.support.databases import (
    database_url,
    fresh_database,
    mariadb_server,
    mariadb_url,
    postgresql_server,
    postgresql_template,
    postgresql_url,
    sqlite_url,
)
from tests.support.figures import figures, pytest_runtest_logreport, pytest_terminal_summary
from tests.support.tasks import no_task_left, task_watch

__all__ = [
    "database_url",
    "figures",
    "fresh_database",
    "mariadb_server",
    "mariadb_url",
    "no_task_left",
    "postgresql_server",
    "postgresql_template",
    "postgresql_url",
    "pytest_runtest_logreport",
    "pytest_terminal_summary",
    "sqlite_url",
    "task_watch",
]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(BudgetReport(read_budgets()), "duetime-budgets")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a server, so that `-m "not services"` runs everything else."""
    for item in items:
        if {"postgresql_server", "mariadb_server"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("services")
