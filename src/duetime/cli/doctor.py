"""``duetime doctor``."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import typer

from duetime import logs
from duetime.cli.common import DONE, FAILED, ConfigOption, JsonOption, finish, opened, refuse_absent_file, settings_of
from duetime.cli.output import print_json, say
from duetime.config.database_url import check_driver
from duetime.doctor import Check, Found, Grade, Line, examine, ok, warning
from duetime.settings import Settings, store_url
from duetime.wiring import doctor_checks

_MARKS: Final = {Grade.OK: "ok      ", Grade.WARNING: "warning ", Grade.FAILED: "FAILED  ", Grade.SKIPPED: "skipped "}


def doctor(ctx: typer.Context, *, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """Look at everything that duetime relies on, in order.

    Each line says what was found and, where that is not well, what to do. Nothing is changed. Exit code 1 where a check
    failed; a warning alone is no failure.
    """
    logs.set_up()
    settings = settings_of(ctx, config)
    lines = finish(_examined(settings, _silent if as_json else _tell))
    if as_json:
        print_json({"failed": any(line.grade is Grade.FAILED for line in lines), "checks": lines})
    else:
        say(_summary(lines))
    return FAILED if any(line.grade is Grade.FAILED for line in lines) else DONE


async def _examined(settings: Settings, told: Callable[[Line], None]) -> list[Line]:
    lines = await examine(first_checks(settings), told=told)
    if any(line.grade is Grade.FAILED for line in lines):
        return lines
    async with opened(settings, check=False) as duetime:
        return await examine(doctor_checks(duetime.wired), before=lines, told=told)


def first_checks(settings: Settings) -> list[Check]:
    """Answer what is looked at before anything is connected."""

    async def config() -> Found:
        notices = list(settings.notices())
        if notices:
            return warning("; ".join(notices), "leave them out, or wait for the version that serves them")
        return ok("it is understood, every key of it")

    async def driver() -> Found:
        check_driver(store_url(settings))
        refuse_absent_file(settings)
        return ok(f"the driver for {store_url(settings).get_backend_name()} is installed")

    return [Check("config", config), Check("driver", driver)]


def _silent(_line: Line) -> None:
    pass


def _tell(line: Line) -> None:
    say(f"{_MARKS[line.grade]}{line.check}: {line.found}")
    if line.remedy:
        say(f"{' ' * 8}  -> {line.remedy}")


def _summary(lines: Sequence[Line]) -> str:
    counts = Counter(line.grade for line in lines)
    words = {Grade.FAILED: "failed", Grade.WARNING: "to look at", Grade.SKIPPED: "not looked at", Grade.OK: "well"}
    told = (f"{counts[grade]} {word}" for grade, word in words.items() if counts[grade])
    return f"{len(lines)} checks: {', '.join(told)}"
