"""``duetime doctor``: ordered checks, each of which answers one line and, where something is wrong, its remedy.

A check is data: a name, what it needs, how long it may take, and a function. What a check needs and did not get is said
instead of a second failure with the same cause. A check never raises: what goes wrong while it looks is its finding.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from duetime.errors import ConfigError, DuetimeError


class Grade(StrEnum):
    """How a check ended. Only ``FAILED`` stands in the way of work; ``SKIPPED`` was not looked at."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found, as a sentence without its full stop, and what to do where that is not well."""

    words: str
    grade: Grade = Grade.OK
    remedy: str = ""


def ok(words: str) -> Found:
    """All is well."""
    return Found(words)


def warning(words: str, remedy: str) -> Found:
    """It works, and somebody should look at it."""
    return Found(words, Grade.WARNING, remedy)


def failed(words: str, remedy: str) -> Found:
    """It does not work as it is."""
    return Found(words, Grade.FAILED, remedy)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to look at. ``needs``: checks that must not have failed before this one makes sense."""

    name: str
    run: Callable[[], Awaitable[Found]]
    needs: tuple[str, ...] = ()
    seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Line:
    """What is printed about one check."""

    check: str
    grade: Grade
    found: str
    remedy: str = ""


async def examine(
    checks: Iterable[Check], *, before: Sequence[Line] = (), told: Callable[[Line], None] | None = None
) -> list[Line]:
    """Run checks in their order and answer a line for each, telling it at once; ``before`` are lines to build on."""
    lines = list(before)
    for check in checks:
        missing = _missing(check, lines)
        line = _skipped(check, missing) if missing else await _line(check)
        lines.append(line)
        if told is not None:
            told(line)
    return lines


def _missing(check: Check, lines: Sequence[Line]) -> str:
    bad = {line.check for line in lines if line.grade in {Grade.FAILED, Grade.SKIPPED}}
    return next((name for name in check.needs if name in bad), "")


def _skipped(check: Check, missing: str) -> Line:
    return Line(check.name, Grade.SKIPPED, f"not looked at: it needs the check {missing!r}")


async def _line(check: Check) -> Line:
    try:
        async with asyncio.timeout(check.seconds):
            found = await check.run()
    except TimeoutError:
        found = warning(
            f"it took longer than {check.seconds:g} seconds and was ended", "ask again when the database is less busy"
        )
    except ConfigError as error:
        found = failed("; ".join(error.problems), "correct the config, or the database")
    except DuetimeError as error:
        found = failed(" ".join(str(error).split()), "see what the database says")
    return Line(check.name, found.grade, found.words, found.remedy)
