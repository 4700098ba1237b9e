"""The repository keeps to the numbers and the plain rules of STYLE.md."""

import subprocess
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.support.budgets import read_budgets
from tests.tidy import checks

REPOSITORY = Path(__file__).resolve().parents[2]
TEXT_SUFFIXES = {"", ".cfg", ".css", ".html", ".ini", ".js", ".json", ".lua", ".mako", ".md", ".py", ".sql"}
TEXT_SUFFIXES |= {".svg", ".toml", ".txt", ".yaml", ".yml"}
PLACES_THAT_MAY_SLEEP = ("tests/support/waiting.py", "tests/simulation/")
COMMANDS = "src/duetime/cli/"


@cache
def files() -> tuple[str, ...]:
    """Return what is in the repository or about to be, by path from its root."""
    # The owner of a checkout in CI is often somebody else, and git then refuses without this.
    command = ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    names = sorted({name for name in listing.split("\0") if name})
    return tuple(name for name in names if (REPOSITORY / name).is_file())


def is_python(name: str) -> bool:
    return name.endswith(".py") or (name.startswith("scripts/") and read(name).startswith("#!/usr/bin/env python3"))


def is_text(name: str) -> bool:
    return Path(name).suffix in TEXT_SUFFIXES


def is_test(name: str) -> bool:
    return is_python(name) and name.startswith("tests/")


def is_shared_test(name: str) -> bool:
    """True for what several backends run: the published suites, and whatever applies them."""
    published = name.startswith("src/duetime/testing/") and is_python(name) and "def test_" in read(name)
    return published or (is_test(name) and name.startswith("tests/contract/"))


def read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def numbers() -> dict[str, int]:
    return checks.read_numbers(read("STYLE.md"))


def hold(check: Callable[[str], list[str]], names: list[str]) -> None:
    """Fail with one line per finding."""
    assert names, "the check looked at nothing"
    found = [f"{name}: {sentence}" for name in names for sentence in check(read(name))]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def test_python_files_are_short() -> None:
    limit = numbers()["lines in a Python file"]
    hold(lambda text: checks.too_many_lines(text, limit), [n for n in files() if is_python(n)])


def test_functions_are_short() -> None:
    limit = numbers()["lines in a function"]
    hold(lambda text: checks.long_functions(text, limit), [n for n in files() if is_python(n)])


def test_functions_take_few_parameters() -> None:
    limit = numbers()["parameters of a function"]
    # In cli/ a parameter is an option of the command line; typer has no other form.
    names = [n for n in files() if is_python(n) and not n.startswith(COMMANDS)]
    hold(lambda text: checks.many_parameters(text, limit), names)


def test_tests_do_not_sleep() -> None:
    # The worlds of tests/simulation sleep by a clock that is moved by hand.
    hold(checks.sleeps, [n for n in files() if is_test(n) and not n.startswith(PLACES_THAT_MAY_SLEEP)])


def test_exceptions_from_lint_and_types_say_why() -> None:
    hold(checks.unexplained_exceptions, [n for n in files() if is_python(n)])


def test_no_reminders_are_left_in_files() -> None:
    hold(checks.banned_words, [n for n in files() if is_text(n) and n != "LICENSE"])


def test_no_path_of_one_machine_is_left_in_files() -> None:
    hold(checks.machine_paths, [n for n in files() if is_text(n)])


def test_shared_tests_do_not_ask_which_backend_they_run_on() -> None:
    hold(checks.backend_branches, [n for n in files() if is_shared_test(n)])


def test_readme_is_short_and_starts_soon() -> None:
    limits = numbers()
    readme = read("README.md")
    assert not checks.too_many_lines(readme, limits["lines in README.md"])
    assert not checks.late_first_command(readme, limits["line of README.md with the first command to run"])


def test_every_make_target_has_its_help() -> None:
    assert not checks.silent_targets(read("Makefile"))


def test_make_help_prints_every_target() -> None:
    command = ["make", "--no-print-directory", "help"]
    printed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    targets = {line.split()[1] for line in printed.splitlines()}
    assert targets >= {"demo", "test", "test-long", "check", "bench-small", "bench", "clean"}


def test_changelog_has_its_form() -> None:
    assert not checks.changelog_mistakes(read("CHANGELOG.md"))


def test_line_length_is_the_linters() -> None:
    pyproject = tomllib.loads(read("pyproject.toml"))
    assert numbers()["characters in a line"] == pyproject["tool"]["ruff"]["line-length"]


@pytest.mark.parametrize(
    "suite", sorted({n.split("/")[1] for n in files() if n.startswith("tests/") and "/test_" in n})
)
def test_every_suite_has_a_budget(suite: str) -> None:
    assert suite in read_budgets()
