"""What all commands share: the options that every one takes, the settings, and a ``Duetime`` for one command."""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from duetime.app import Duetime
from duetime.errors import ConfigError
from duetime.event import instant_json
from duetime.observer import Observer
from duetime.order import (
    AlreadyClosed,
    AlreadyPaid,
    Blocked,
    Busy,
    Closed,
    Extended,
    ExtendOutcome,
    NotYetDue,
    Outcome,
    Refused,
    UnknownOrder,
)
from duetime.settings import Settings, load_settings, store_url
from duetime.units import format_duration, parse_duration, parse_instant

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130

CLOSING_SECONDS: Final = 1.5
"""How long connections may take to be given back at the end."""

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The config; may stand before the command too. Otherwise what DUETIME_CONFIG names, else ./duetime.toml.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON; errors are JSON too.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Log every batch too.")]
OrderNo = Annotated[str, typer.Argument(metavar="ORDER_NO", help="The order's number, as the shop's table has it.")]

T = TypeVar("T")


def settings_of(ctx: typer.Context, config: Path | None) -> Settings:
    """Load the settings from the file that was named after the command, before it, or nowhere.

    Raises:
        ConfigError: something in it is wrong; every problem in a sentence.
    """
    at: Any = ctx
    while config is None and at is not None:
        config = at.params.get("config")
        at = at.parent
    return load_settings(config)


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run asynchronous work to its end; Ctrl-C cancels it and lets it clean up."""
    return asyncio.run(work)


@asynccontextmanager
async def opened(
    settings: Settings, *, observers: Sequence[Observer] = (), check: bool = True
) -> AsyncIterator[Duetime]:
    """Give a ``Duetime`` whose database was found to be as described, and give back its connections in the end."""
    refuse_absent_file(settings)
    duetime = Duetime(settings, observers=observers)
    try:
        if check:
            await duetime.check()
        yield duetime
    finally:
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                await duetime.aclose()
        except TimeoutError:
            pass  # the server is away; the process ends and its sockets with it


def refuse_absent_file(settings: Settings) -> None:
    """Refuse a SQLite file that is not there: connecting would make an empty one in its place.

    Raises:
        ConfigError: it is not there.
    """
    url = store_url(settings)
    if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).is_file():
        there = os.fspath(Path(url.database))
        raise ConfigError([f"store.url: there is no file {there}; `duetime migrate` creates it, or name another one"])


def duration_option(text: str) -> timedelta:
    """Read a duration from the command line: 45s, 30m, 2h."""
    try:
        return parse_duration(text)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None


def instant_option(text: str) -> datetime:
    """Read an instant with its zone from the command line."""
    try:
        found = parse_instant(text)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
    if found is None:
        raise typer.BadParameter('an instant such as "2026-01-31T08:00:00+08:00" is needed')
    return found


def shown_instant(at: datetime | None) -> str:
    """Write an instant for people: UTC, to the millisecond."""
    return "" if at is None else (instant_json(at) or "").replace("T", " ")[:23] + "Z"


def shown_duration(duration: timedelta) -> str:
    """Write a duration for people; below zero as what it is."""
    return format_duration(duration) if duration >= timedelta(0) else f"-{format_duration(-duration)}"


def sentence(outcome: Outcome | ExtendOutcome) -> str:  # noqa: PLR0911 - one sentence for each outcome
    """Say what an attempt found, in a sentence."""
    match outcome:
        case Closed():
            held = ", ".join(f"{hold.quantity} of {hold.kind} {hold.ref}" for hold in outcome.released) or "nothing"
            return f"order {outcome.order_no} is closed ({outcome.reason}, by {outcome.source}); it gives back {held}"
        case AlreadyClosed():
            why = f" for {outcome.reason}" if outcome.reason else ""
            by = f" by {outcome.source}" if outcome.source else ""
            at = f" at {shown_instant(outcome.closed_at)}" if outcome.closed_at else ""
            return f"order {outcome.order_no} was closed before{at}{why}{by}"
        case AlreadyPaid():
            return f"order {outcome.order_no} is {outcome.status}: it is no longer pending, nothing was changed"
        case NotYetDue():
            due = f"becomes due at {shown_instant(outcome.due_at)}" if outcome.due_at else "has no deadline"
            return f"order {outcome.order_no} {due}"
        case Busy():
            return f"order {outcome.order_no} is held by somebody else's transaction at this moment; try again"
        case UnknownOrder():
            return f"there is no order {outcome.order_no}"
        case Blocked():
            return f"order {outcome.order_no} cannot be closed as things are: {outcome.why}"
        case Extended():
            by = f"extended by {shown_duration(outcome.extended)} in all"
            return f"order {outcome.order_no} may be paid until {shown_instant(outcome.expire_at)} ({by})"
        case Refused():
            return f"order {outcome.order_no} was not extended: {outcome.why}"
