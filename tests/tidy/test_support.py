"""The helpers of the tests do what they promise: each can fail, and says why."""

import asyncio
from pathlib import Path
from typing import Literal

import psycopg
import pytest

from tests.support import absence
from tests.support.budgets import BudgetReport
from tests.support.databases import FreshDatabase
from tests.support.servers import PostgreSQLServer, url_of
from tests.support.waiting import ExpectedInVainError, eventually, eventually_sync

pytest_plugins = ["pytester"]

CONFTEST = """
from tests.support.tasks import no_task_left, task_watch
"""
REPOSITORY = Path(__file__).resolve().parents[2]
OPTIONS = ("-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-o", f"pythonpath={REPOSITORY}")


def test_absent_server_skips_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="MariaDB is not there: nobody said where"):
        absence.without("MariaDB", "nobody said where")


def test_absent_server_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="MariaDB is not there"):
        absence.without("MariaDB", "nobody said where")


def report(nodeid: str, seconds: float, *, long: bool = False) -> pytest.TestReport:
    keywords: dict[str, Literal[1]] = {"long": 1} if long else {}
    return pytest.TestReport(nodeid, ("", 0, ""), keywords, "passed", None, "call", duration=seconds)


def test_budget_report_adds_up_by_suite_and_marks_what_is_over() -> None:
    budgets = BudgetReport({"unit": 10, "race": 10})
    budgets.pytest_runtest_logreport(report("tests/unit/test_a.py::test_x", 3))
    budgets.pytest_runtest_logreport(report("tests/unit/test_b.py::test_y", 4))
    budgets.pytest_runtest_logreport(report("tests/race/test_c.py::test_z", 11))
    budgets.pytest_runtest_logreport(report("tests/race/test_c.py::test_all_night", 999, long=True))
    assert budgets.over_budget() == ["race"]
    assert [line.split() for line in budgets.lines()[1:]] == [
        ["race", "1", "11.0", "10", "OVER", "BUDGET"],
        ["unit", "2", "7.0", "10"],
        ["together", "3", "18.0"],
    ]


def test_suite_without_a_budget_is_over_it() -> None:
    budgets = BudgetReport({})
    budgets.pytest_runtest_logreport(report("tests/new/test_a.py::test_x", 1))
    assert budgets.over_budget() == ["new"]


def test_task_left_running_fails_the_test_that_started_it(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        """
        import asyncio

        async def test_leaves_a_task():
            asyncio.create_task(asyncio.Event().wait(), name="left behind")

        async def test_ends_its_task():
            task = asyncio.create_task(asyncio.Event().wait())
            task.cancel()
        """
    )
    result = pytester.runpytest_subprocess(*OPTIONS)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*tasks still running after the test*", "*left behind*"])


async def test_waiting_ends_as_soon_as_the_condition_holds() -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set)
    await eventually("the event is set", event.is_set)


async def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(ExpectedInVainError, match=r"waited 0\.05 s in vain: pigs fly"):
        await eventually("pigs fly", lambda: False, seconds_max=0.05)
    with pytest.raises(ExpectedInVainError, match="pigs fly"):
        eventually_sync("pigs fly", lambda: False, seconds_max=0.05)


def test_each_call_gives_another_database(fresh_database: FreshDatabase) -> None:
    assert fresh_database("sqlite") != fresh_database("sqlite")


def test_database_url_comes_on_every_kind(database_url: str, tmp_path: Path) -> None:
    assert database_url.partition(":")[0] in {"sqlite", "postgresql", "mariadb", "mysql"}
    assert not any(tmp_path.iterdir())


def test_postgresql_database_is_dropped_under_an_open_session(postgresql_server: PostgreSQLServer) -> None:
    name = "duetime_test_drop_under_session"
    session = psycopg.connect(postgresql_server.create(name))
    postgresql_server.drop(name)
    assert name not in postgresql_server.names()
    session.close()


def test_url_of_another_database_keeps_everything_else() -> None:
    assert url_of("mariadb://u:p%40@127.0.0.1:1/mysql", "shop") == "mariadb://u:p%40@127.0.0.1:1/shop"
