"""Each check of the tidy suite can fail: shown on small bad samples, beside good ones."""

import pytest

from tests.tidy import checks

WORD = checks.BANNED_WORDS[0]


def test_numbers_are_read_from_the_table() -> None:
    assert checks.read_numbers("| what | at most |\n|---|---|\n| lines in a function | 70 |\n") == {
        "lines in a function": 70
    }


def test_long_file_is_found() -> None:
    assert checks.too_many_lines("a\n" * 4, 3) == ["4 lines, at most 3"]
    assert not checks.too_many_lines("a\n" * 3, 3)


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_long_function_is_found(kind: str) -> None:
    text = f"class A:\n    {kind} f(self):\n" + "        x = 1\n" * 3
    assert checks.long_functions(text, 3) == ["line 2: f has 4 lines, at most 3"]
    assert not checks.long_functions(text, 4)


@pytest.mark.parametrize(
    "signature, count",
    [
        ("def f(a, b, c): ...", 3),
        ("def f(a, /, b, *, c): ...", 3),
        ("async def f(self, a, b, c, *, d): ...", 4),
        ("def f(cls, a, b, c): ...", 3),
    ],
)
def test_many_parameters_are_found(signature: str, count: int) -> None:
    assert len(checks.many_parameters(signature, count - 1)) == 1
    assert not checks.many_parameters(signature, count)


@pytest.mark.parametrize("call", ["time.sleep(1)", "sleep(1)", "asyncio.sleep(0)", "anyio.sleep(1)"])
def test_sleep_is_found(call: str) -> None:
    assert len(checks.sleeps(f"x = 1\n{call}\n")) == 1


def test_word_sleep_without_a_call_is_allowed() -> None:
    assert not checks.sleeps('x = "time.sleep(1)"\nsleep_seconds = 3\n')


@pytest.mark.parametrize(
    "comment, found",
    [
        ("# type: ignore", "without a code"),
        ("# type: ignore[arg-type]", "without a reason"),
        ("# type: ignore  # the stub is wrong", "without a code"),
        ("# noqa", "without a code"),
        ("# noqa: S608", "without a reason"),
        ("# noqa: S608, S101", "without a reason"),
        ("# ruff: noqa", "without a code"),
    ],
)
def test_unexplained_exception_is_found(comment: str, found: str) -> None:
    sentences = checks.unexplained_exceptions(f"x = 1  {comment}\n")
    assert len(sentences) == 1
    assert found in sentences[0]


@pytest.mark.parametrize(
    "line",
    [
        "x = 1  # type: ignore[arg-type]  # the stub is wrong",
        "x = 1  # noqa: S608 -- the table is our own",
        "x = 1  # noqa: S608, S101 -- the table is our own",
        'x = "# noqa"',
    ],
)
def test_explained_exception_is_allowed(line: str) -> None:
    assert not checks.unexplained_exceptions(f"{line}\n")


def test_banned_word_is_found() -> None:
    assert len(checks.banned_words(f"x = 1\n# {WORD}: later\n")) == 1
    assert not checks.banned_words(f"{WORD}S = 1\n{WORD.lower()}\n")


@pytest.mark.parametrize("folder", ["work", "root", "home/ann", "Users/ann"])
def test_path_of_one_machine_is_found(folder: str) -> None:
    assert len(checks.machine_paths(f"see /{folder}/duetime\n")) == 1
    assert not checks.machine_paths(f"see ./{folder}/duetime and https://example.org/{folder}/x\n")


@pytest.mark.parametrize(
    "line",
    [
        'if store.name == "sqlite": pass',
        'if "mariadb" != store.name: pass',
        'if store.name in ("memory", "other"): pass',
        'if url.startswith("postgresql://"): pass',
        "if isinstance(store, SqliteStore): pass",
        "if isinstance(store, (Other, stores.MariaDBStore)): pass",
        'match name:\n    case "redis": pass',
        "match store:\n    case MemoryStore(): pass",
    ],
)
def test_branch_on_a_backend_is_found(line: str) -> None:
    assert checks.backend_branches(f"{line}\n")


@pytest.mark.parametrize("line", ["if store.can_skip_locked: pass", 'x = "sqlite"', 'make("postgresql")'])
def test_capability_is_no_branch_on_a_backend(line: str) -> None:
    assert not checks.backend_branches(f"{line}\n")


def test_late_first_command_is_found() -> None:
    readme = "# x\n\n```sh\nmake demo\n```\n"
    assert checks.late_first_command(readme, 3) == ["the first command is in line 4, at most 3"]
    assert not checks.late_first_command(readme, 4)
    assert checks.late_first_command("# x\n\n```toml\na = 1\n```\n", 20) == ["there is no command to run"]


def test_make_target_without_help_is_found() -> None:
    makefile = "A := b\nhelp: ## print\n\techo\n.PHONY: silent\nsilent: help\n.venv/stamp: x\n"
    assert checks.silent_targets(makefile) == ["target silent has no '## text'"]


CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n## [0.2.0] - 2026-02-01\n\n## [0.1.0] - 2026-01-01\n"


@pytest.mark.parametrize(
    "before, after",
    [
        ("# Changelog\n", "# Changes\n"),
        ("## [Unreleased]\n", ""),
        ("### Added", "### New"),
        ("[0.2.0] - 2026-02-01", "0.2.0 (2026-02-01)"),
        ("2026-02-01", "2025-02-01"),
    ],
)
def test_changelog_mistake_is_found(before: str, after: str) -> None:
    assert not checks.changelog_mistakes(CHANGELOG)
    assert checks.changelog_mistakes(CHANGELOG.replace(before, after, 1))
