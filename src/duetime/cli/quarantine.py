"""``duetime quarantine list | retry | resolve``."""

from typing import Annotated

import typer

from duetime.app import Duetime
from duetime.cli.common import DONE, FAILED, ConfigOption, JsonOption, finish, opened, settings_of
from duetime.cli.orders import print_failures
from duetime.cli.output import complain, print_json, say
from duetime.errors import InvalidInput
from duetime.order import checked_name
from duetime.settings import Settings
from duetime.store import Failure, FailureQuery, Quarantine

OrderNos = Annotated[list[str] | None, typer.Argument(metavar="[ORDER_NO]...", help="The orders' numbers.")]


def listed(
    ctx: typer.Context,
    *,
    config: ConfigOption = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100_000, help="At most so many.")] = 1000,
    as_json: JsonOption = False,
) -> None:
    """List orders that failed.

    Those that will be tried again by themselves, and those in quarantine.
    """
    print_failures(finish(_waiting(settings_of(ctx, config), limit)), as_json=as_json)


async def _waiting(settings: Settings, limit: int) -> list[Failure]:
    async with opened(settings) as duetime:
        return await duetime.failures(limit=limit)


def retry(
    ctx: typer.Context,
    *,
    order_nos: OrderNos = None,
    config: ConfigOption = None,
    every: Annotated[bool, typer.Option("--all", help="All that failed.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Try orders again, now.

    After the cause of their failure is gone. Exit code 1 where one fails again.
    """
    if bool(order_nos) == every:
        raise InvalidInput("name orders, or say --all")
    now = finish(_retried(settings_of(ctx, config), None if every else order_nos))
    return _answer(now, order_nos or [], as_json=as_json)


async def _retried(settings: Settings, order_nos: list[str] | None) -> list[Failure]:
    for order_no in order_nos or ():
        checked_name(order_no, "an order number")
    async with opened(settings) as duetime:
        changed = await duetime.retry(order_nos)
        await duetime.wired.service.retry()
        return await _as_they_are(duetime, changed)


async def _as_they_are(duetime: Duetime, changed: list[Failure]) -> list[Failure]:
    numbers = sorted({failure.order_no for failure in changed})
    stages = {(failure.order_no, failure.stage) for failure in changed}
    async with duetime.wired.store.transaction(write=False) as tx:
        found = await tx.find_failures(FailureQuery(numbers, limit=2 * len(numbers)))
    return [failure for failure in found if (failure.order_no, failure.stage) in stages]


def resolve(
    ctx: typer.Context,
    *,
    order_nos: Annotated[list[str], typer.Argument(metavar="ORDER_NO...", help="The orders' numbers.")],
    why: Annotated[
        str, typer.Option("--why", metavar="WORDS", prompt="How was it settled", help="How; asked for unless given.")
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Take orders off the list.

    A person has settled them by hand. Nothing is closed or given back by this. An order that is still pending and due
    will be tried again.
    """
    if not why.strip():
        raise InvalidInput("--why: say in a few words how it was settled")
    return _answer(finish(_resolved(settings_of(ctx, config), order_nos, why)), order_nos, as_json=as_json)


async def _resolved(settings: Settings, order_nos: list[str], why: str) -> list[Failure]:
    for order_no in order_nos:
        checked_name(order_no, "an order number")
    checked_name(why, "the words after --why")
    async with opened(settings) as duetime:
        return await duetime.resolve(order_nos, why=why)


def _answer(now: list[Failure], asked: list[str], *, as_json: bool) -> int:
    """Tell what became of each, and of those that had not failed at all."""
    missing = [order_no for order_no in asked if order_no not in {failure.order_no for failure in now}]
    left = [failure for failure in now if failure.state is not Quarantine.RESOLVED]
    if as_json:
        print_json({"resolved": len(now) - len(left), "failed_again": left, "not_waiting": missing})
    else:
        for failure in now:
            done = "settled" if failure.state is Quarantine.RESOLVED else f"failed again: {failure.error}"
            say(f"order {failure.order_no} ({failure.stage.value}): {done}")
        for order_no in missing:
            complain(f"duetime: order {order_no} does not wait: nothing of it has failed")
        if not now and not missing:
            say("nothing waits")
    return FAILED if left or missing else DONE
