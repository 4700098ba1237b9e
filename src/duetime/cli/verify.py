"""``duetime verify``."""

from datetime import datetime, timedelta
from typing import Annotated, Final

import typer

from duetime import logs
from duetime.cli.common import (
    DONE,
    FAILED,
    ConfigOption,
    JsonOption,
    duration_option,
    finish,
    instant_option,
    opened,
    settings_of,
)
from duetime.cli.output import print_json, say
from duetime.cli.progress import Progress
from duetime.settings import Settings
from duetime.verifying.work import Verdict
from duetime.wiring import verifying

SHOWN_AT_MOST: Final = 1000


def verify(
    ctx: typer.Context,
    *,
    config: ConfigOption = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            "--since",
            metavar="INSTANT",
            parser=instant_option,
            help="Only orders that something was written about since then, and those that hold something.",
        ),
    ] = None,
    patience: Annotated[
        timedelta | None,
        typer.Option(
            "--patience",
            metavar="DURATION",
            parser=duration_option,
            help="How long what looks wrong may take to become right; unless given, until the next sweep has passed.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Compare orders, holds, assets and facts with each other.

    From outside, while the shop goes on selling; nothing is locked or changed. What looks wrong is read again before it
    is told. Exit code 1 where anything does not add up.
    """
    logs.set_up()
    verdict = finish(_verified(settings_of(ctx, config), since, patience))
    if as_json:
        found = [{**_fields(one), "sentence": one.sentence} for one in verdict.findings]
        print_json({"checked": dict(verdict.checked), "findings": found, "more": verdict.more})
    else:
        _tell(verdict)
    return FAILED if verdict.findings else DONE


async def _verified(settings: Settings, since: datetime | None, patience: timedelta | None) -> Verdict:
    async with opened(settings) as duetime:
        work = verifying(duetime.wired, since=since, patience=patience)
        with Progress("comparing") as progress:
            return await work.run(lambda counts: progress.counted(**dict(counts)))


def _fields(finding: object) -> dict[str, str]:
    return {name: getattr(finding, name) for name in ("kind", "about", "order_no", "found", "expected", "remedy")}


def _tell(verdict: Verdict) -> None:
    for finding in verdict.findings[:SHOWN_AT_MOST]:
        say(finding.sentence)
    hidden = len(verdict.findings) - SHOWN_AT_MOST
    if hidden > 0 or verdict.more:
        say(f"and {max(hidden, 0)}{' or more' if verdict.more else ''} further ones: see --json")
    counts = ", ".join(f"{count} {name}" for name, count in verdict.checked.items())
    say(f"compared {counts}: {_summary(len(verdict.findings))}")


def _summary(findings: int) -> str:
    if not findings:
        return "everything adds up"
    return "1 thing does not add up" if findings == 1 else f"{findings} things do not add up"
