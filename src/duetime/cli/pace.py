"""``duetime pause | resume | rate``: what is said to all workers."""

import getpass
from math import inf
from typing import Annotated

import typer

from duetime.cli.common import DONE, ConfigOption, JsonOption, finish, opened, settings_of
from duetime.cli.output import print_json, say
from duetime.errors import InvalidInput
from duetime.fleet import Fleet
from duetime.settings import Settings

_WORDS = {"unlimited": inf, "config": None}


def pause(
    ctx: typer.Context,
    *,
    config: ConfigOption = None,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who says so; your account else.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Let no worker close anything until `duetime resume`.

    All obey within a second. Customers can pay and cancel, and what was closed before is given back.
    """
    return _tell(finish(_paused(settings_of(ctx, config), by or _account())), as_json=as_json)


def resume(ctx: typer.Context, *, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """Let the workers close again after `duetime pause`."""
    return _tell(finish(_paused(settings_of(ctx, config), None)), as_json=as_json)


def rate(
    ctx: typer.Context,
    *,
    closes: Annotated[
        str, typer.Argument(metavar="N|unlimited|config", help='Closes per second; "config" leaves it to the config.')
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say how many orders all workers together may close a second.

    They obey within a second, also when they start later; it stands above closing.closes_per_second.
    """
    return _tell(finish(_rated(settings_of(ctx, config), _read(closes))), as_json=as_json)


def _read(closes: str) -> float | None:
    if closes in _WORDS:
        return _WORDS[closes]
    try:
        return float(closes)
    except ValueError:
        raise InvalidInput(f'{closes!r} is no rate: a number above zero, "unlimited" or "config" is') from None


def _account() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "command line"


async def _paused(settings: Settings, by: str | None) -> Fleet:
    async with opened(settings) as duetime:
        await (duetime.resume() if by is None else duetime.pause(by=by))
        return await duetime.fleet()


async def _rated(settings: Settings, closes: float | None) -> Fleet:
    async with opened(settings) as duetime:
        await duetime.set_rate(closes)
        return await duetime.fleet()


def _tell(fleet: Fleet, *, as_json: bool) -> int:
    if as_json:
        said = "unlimited" if fleet.rate == inf else fleet.rate
        print_json({"paused_by": fleet.paused_by, "rate": said, "workers": fleet.workers})
        return DONE
    pace = {None: "as fast as closing.closes_per_second says", inf: "as fast as they can"}
    fast = pace.get(fleet.rate, f"at most {fleet.rate:g} orders a second" if fleet.rate is not None else "")
    state = f"closing is paused by {fleet.paused_by}" if fleet.paused_by is not None else f"workers close {fast}"
    say(f"{state}; {len(fleet.workers)} workers are alive")
    return DONE
