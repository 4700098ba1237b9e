"""``duetime observe report``: what another closer did with the orders that duetime would have closed."""

from datetime import datetime, timedelta
from typing import Annotated, Final

import typer

from duetime.cli.common import (
    ConfigOption,
    JsonOption,
    duration_option,
    finish,
    instant_option,
    opened,
    settings_of,
    shown_duration,
    shown_instant,
)
from duetime.cli.output import print_json, print_table, say
from duetime.observation import FOLLOWED_FOR, Verdict
from duetime.reporting import ObserveReport, Spread
from duetime.settings import Settings
from duetime.wiring import reporting, usual_late_after

KEYS: Final = {
    Verdict.IN_TIME: "closed_in_time",
    Verdict.LATE: "closed_late",
    Verdict.MISSED: "missed",
    Verdict.CLOSED_PAID: "closed_though_paid",
    Verdict.EARLY: "closed_early",
    Verdict.PAID_LATE: "paid_after_due",
    Verdict.PAID: "paid_in_time",
    Verdict.DELETED: "deleted",
    Verdict.OTHER: "other",
    Verdict.OPEN: "open",
}
"""What the verdicts are called in JSON."""

NEEDS_EXAMPLES: Final = (Verdict.MISSED, Verdict.LATE, Verdict.CLOSED_PAID, Verdict.EARLY, Verdict.PAID_LATE)
"""Of these people are shown some orders; JSON has those of all verdicts."""


def report(
    ctx: typer.Context,
    *,
    config: ConfigOption = None,
    since: Annotated[
        datetime | None,
        typer.Option("--since", metavar="INSTANT", parser=instant_option, help="Only deadlines from this instant on."),
    ] = None,
    late_after: Annotated[
        timedelta | None,
        typer.Option(
            "--late-after",
            metavar="DURATION",
            parser=duration_option,
            help="Closed later than this after the deadline is late; grace and sweep interval together unless given.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Tell what the shop's own closer did, beside observe mode.

    Orders that it missed, closed late and by how much, closed though paid, closed early. Nothing is written.
    """
    settings = settings_of(ctx, config)
    late = usual_late_after(settings) if late_after is None else late_after
    found = finish(_found(settings, since, late))
    if as_json:
        print_json(_as_data(found, since, late))
    else:
        _print(found, settings, late)


async def _found(settings: Settings, since: datetime | None, late_after: timedelta) -> ObserveReport:
    async with opened(settings) as duetime:
        return await reporting(duetime.wired, since=since, late_after=late_after).report()


def _as_data(found: ObserveReport, since: datetime | None, late_after: timedelta) -> dict[str, object]:
    return {
        "observed": found.observed,
        "began_at": found.began_at,
        "since": since,
        "late_after": late_after,
        "due": found.due,
        **{key: found.counts[verdict] for verdict, key in KEYS.items()},
        "closed_after": _spread(found.closed),
        "closed_late_after": _spread(found.late),
        "closed_at_unsure": found.unsure,
        "too_old": found.too_old,
        "too_old_more": found.too_old_more,
        "examples": {key: found.examples.get(verdict, []) for verdict, key in KEYS.items()},
    }


def _spread(spread: Spread | None) -> dict[str, timedelta] | None:
    return None if spread is None else {"p50": spread.p50, "p95": spread.p95, "max": spread.longest}


def _print(found: ObserveReport, settings: Settings, late_after: timedelta) -> None:
    if found.began_at is None:
        say(_nothing(settings))
    else:
        say(f"{found.observed} orders observed since {shown_instant(found.began_at)}; {found.due} of them became due")
        rows = [(verdict.value, found.counts[verdict], _share(found, verdict)) for verdict in KEYS]
        print_table(
            f"late is later than {shown_duration(late_after)} after the deadline", ("", "orders", "of due"), rows
        )
        _print_spread("all that closed after their deadline", found.closed)
        _print_spread("the late ones", found.late)
        if found.unsure:
            say(
                f"{found.unsure} rows do not say when they closed: the pass that saw it counts, up to an interval later"
            )
        _print_examples(found)
    if found.too_old:
        more = " or more" if found.too_old_more else ""
        say(
            f"{found.too_old}{more} pending orders are not observed: they are due for more than {FOLLOWED_FOR.days} "
            "days, or since before closing.not_before; see `duetime sweep --dry-run`"
        )


def _nothing(settings: Settings) -> str:
    if settings.closing.observes:
        return (
            "nothing was observed yet: let `duetime run` work for a while, or make one pass with `duetime sweep --once`"
        )
    return 'nothing was observed yet: set closing.mode = "observe" and let `duetime run` work beside your closer'


def _share(found: ObserveReport, verdict: Verdict) -> str:
    shown = {Verdict.IN_TIME, Verdict.LATE, Verdict.MISSED}
    return f"{found.counts[verdict] / found.due:.1%}" if verdict in shown and found.due else ""


def _print_spread(what: str, spread: Spread | None) -> None:
    if spread is not None:
        halves = f"half within {shown_duration(spread.p50)}, 95 % within {shown_duration(spread.p95)}"
        say(f"{what}: {halves}, the last after {shown_duration(spread.longest)}")


def _print_examples(found: ObserveReport) -> None:
    for verdict in NEEDS_EXAMPLES:
        examples = found.examples.get(verdict, [])
        if examples:
            say()
            rows = [
                (
                    one.order_no,
                    shown_instant(one.expire_at),
                    "" if one.closed_after is None else shown_duration(one.closed_after),
                )
                for one in examples
            ]
            print_table(f"{verdict.value}, such as", ("order_no", "expire_at", "closed after"), rows)
