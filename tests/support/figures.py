"""Figures that a test measured and does not judge, printed at the end of a run."""

from collections.abc import Callable

import pytest

Figures = Callable[[str], None]

FIGURE = "figure"
_said: list[str] = []


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """A function that takes a line about this test; it travels with the report, from whichever process ran it."""
    name: str = request.node.nodeid.partition("::")[2]
    return lambda line: request.node.user_properties.append((FIGURE, f"{name}: {line}"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the lines of a test that has ended; the report of its last phase has them all."""
    if report.when == "teardown":
        _said.extend(str(line) for name, line in report.user_properties if name == FIGURE and line not in _said)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines; several suites may name this hook, and the first one prints them all."""
    if _said:
        terminalreporter.section("figures", sep="-")
    while _said:
        terminalreporter.write_line(_said.pop(0))
