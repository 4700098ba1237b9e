"""Seconds that each suite took against its budget in pyproject.toml, printed at the end of a run."""

import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.absence import in_ci

TESTS = Path(__file__).resolve().parent.parent


def read_budgets() -> dict[str, float]:
    """Return the budget of each suite in seconds."""
    pyproject = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())
    budgets: dict[str, float] = pyproject["tool"]["duetime"]["budgets"]
    return budgets


class BudgetReport:
    """Adds up the time of every test by suite, the first folder below tests/; tests marked long have no budget."""

    def __init__(self, budgets: dict[str, float]) -> None:
        self._budgets = budgets
        self._seconds: dict[str, float] = defaultdict(float)
        self._tests: dict[str, int] = defaultdict(int)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "long" in report.keywords:
            return
        parts = Path(report.nodeid.partition("::")[0]).parts
        suite = parts[1] if parts[0] == "tests" and len(parts) > 1 else parts[0]
        self._seconds[suite] += report.duration
        self._tests[suite] += report.when == "call"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run in CI when a suite took twice what it may: a machine may be slow, but that suite has grown."""
        if in_ci() and self.over_budget(times=2) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._seconds:
            return
        terminalreporter.section("time budgets", sep="-")
        for line in self.lines():
            terminalreporter.write_line(line)

    def over_budget(self, *, times: float = 1) -> list[str]:
        return [suite for suite, seconds in self._seconds.items() if seconds > times * self._budgets.get(suite, 0)]

    def lines(self) -> list[str]:
        """Return the table: suite, tests run, seconds taken, seconds allowed."""
        over = self.over_budget()
        rows = [f"{'suite':<12} {'tests':>6} {'seconds':>9} {'budget':>8}"]
        for suite, seconds in sorted(self._seconds.items()):
            budget = f"{self._budgets[suite]:g}" if suite in self._budgets else "none"
            mark = "  OVER BUDGET" if suite in over else ""
            rows.append(f"{suite:<12} {self._tests[suite]:>6} {seconds:>9.1f} {budget:>8}{mark}")
        rows.append(f"{'together':<12} {sum(self._tests.values()):>6} {sum(self._seconds.values()):>9.1f}")
        return rows
