"""``duetime order show | close | extend`` and ``duetime orders list``."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from duetime.app import Story
from duetime.cli.common import (
    DONE,
    FAILED,
    WRONG_USAGE,
    ConfigOption,
    JsonOption,
    OrderNo,
    duration_option,
    finish,
    instant_option,
    opened,
    sentence,
    settings_of,
    shown_duration,
    shown_instant,
)
from duetime.cli.output import complain, plain, print_json, print_table, say, say_without_deadline
from duetime.errors import InvalidInput
from duetime.order import Closed, Extended, ExtendOutcome, Order, Outcome, Refused, UnknownOrder, outcome_word
from duetime.settings import Settings
from duetime.store import Failure, Quarantine
from duetime.sweep import UNDATED_AT_MOST
from duetime.wiring import overdue_after


class CloseReason(StrEnum):
    """Why a person closes an order."""

    CUSTOMER = "customer"
    STAFF = "staff"
    PAYMENT_FAILED = "payment_failed"


ByOption = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who wants it; kept with the order and in its facts.")
]


def show(ctx: typer.Context, *, order_no: OrderNo, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """Tell everything that is known about one order."""
    story = finish(_story(settings_of(ctx, config), order_no))
    if story is None:
        return _answer(UnknownOrder(order_no), as_json=as_json)
    if as_json:
        print_json(story)
    else:
        _print_story(story)
    return DONE


async def _story(settings: Settings, order_no: str) -> Story | None:
    async with opened(settings) as duetime:
        return await duetime.story(order_no)


def close(
    ctx: typer.Context,
    *,
    order_no: OrderNo,
    config: ConfigOption = None,
    reason: Annotated[
        CloseReason, typer.Option("--reason", metavar="customer|staff|payment_failed", help="Why it is closed.")
    ] = CloseReason.STAFF,
    by: ByOption = None,
    as_json: JsonOption = False,
) -> int:
    """Close one pending order now.

    What it held is given back. It is refused where the order was paid or closed before: exit code 1.
    """
    return _answer(finish(_closed(settings_of(ctx, config), order_no, (reason.value, by))), as_json=as_json)


async def _closed(settings: Settings, order_no: str, why: tuple[str, str | None]) -> Outcome:
    async with opened(settings) as duetime:
        return await duetime.close(order_no, reason=why[0], source=why[1])


def extend(
    ctx: typer.Context,
    *,
    order_no: OrderNo,
    config: ConfigOption = None,
    until: Annotated[
        datetime | None,
        typer.Option(
            "--until", metavar="INSTANT", parser=instant_option, help="The new deadline: 2026-01-31T08:00:00+08:00."
        ),
    ] = None,
    add: Annotated[
        timedelta | None,
        typer.Option("--add", metavar="DURATION", parser=duration_option, help="Added to the present deadline: 30m."),
    ] = None,
    by: ByOption = None,
    as_json: JsonOption = False,
) -> int:
    """Give one pending order more time.

    Up to `max_extension` (in the section closing) in all; a deadline never moves back.
    """
    if (until is None) == (add is None):
        raise InvalidInput("say either --until or --add")
    return _answer(finish(_extended(settings_of(ctx, config), order_no, (until, add, by or "staff"))), as_json=as_json)


async def _extended(
    settings: Settings, order_no: str, how: tuple[datetime | None, timedelta | None, str]
) -> ExtendOutcome:
    until, add, by = how
    async with opened(settings) as duetime:
        if until is None:
            story = await duetime.story(order_no)
            if story is None:
                return UnknownOrder(order_no)
            if story.order.expire_at is None:
                return Refused(story.order.order_no, "it has no deadline")
            try:
                until = story.order.expire_at + (add or timedelta(0))
            except OverflowError:
                raise InvalidInput(f"order {order_no}: its deadline would lie beyond the year 9999") from None
        return await duetime.extend(order_no, until, source=by)


def _answer(outcome: Outcome | ExtendOutcome, *, as_json: bool) -> int:
    done = isinstance(outcome, Closed | Extended)
    told = sentence(outcome)
    if as_json:
        print_json({"outcome": outcome_word(outcome), "done": done, "message": told, **_fields(outcome)})
    elif done:
        say(told)
    else:
        complain(f"duetime: {told}")
    if done:
        return DONE
    return WRONG_USAGE if isinstance(outcome, UnknownOrder) else FAILED


def _fields(outcome: Outcome | ExtendOutcome) -> dict[str, object]:
    fields = plain(outcome)
    assert isinstance(fields, dict)
    return fields


def listed(
    ctx: typer.Context,
    *,
    config: ConfigOption = None,
    due: Annotated[bool, typer.Option("--due", help="Pending, deadline and grace have passed.")] = False,
    overdue: Annotated[
        bool,
        typer.Option("--overdue", help="Due for longer than the sweep should ever take: somebody should look at it."),
    ] = False,
    quarantined: Annotated[bool, typer.Option("--quarantined", help="Failed too often; waits for a person.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100_000, help="At most so many.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List due, overdue or quarantined orders.

    Say which; the oldest deadline comes first.
    """
    if due + overdue + quarantined != 1:
        raise InvalidInput("say one of --due, --overdue and --quarantined")
    settings = settings_of(ctx, config)
    if quarantined:
        print_failures(finish(_failures(settings, limit)), as_json=as_json)
        return
    late_by = overdue_after(settings) if overdue else timedelta(0)
    title = f"due for more than {shown_duration(late_by)}" if overdue else "due"
    found, undated = finish(_due(settings, late_by, limit))
    _print_orders(title, *found, as_json=as_json)
    if not as_json:
        say_without_deadline(undated)


async def _failures(settings: Settings, limit: int) -> list[Failure]:
    async with opened(settings) as duetime:
        return await duetime.failures(states=frozenset({Quarantine.QUARANTINED}), limit=limit)


_Due = tuple[list[Order], dict[str, Failure], datetime]


async def _due(settings: Settings, late_by: timedelta, limit: int) -> tuple[_Due, int]:
    """Answer what is due, what of it failed and the store's time; and how many orders are never due."""
    async with opened(settings) as duetime:
        orders = await duetime.due(late_by=late_by, limit=limit)
        failures = {failure.order_no: failure for failure in await duetime.failures()} if orders else {}
        async with duetime.wired.store.transaction(write=False) as tx:
            undated = await tx.count_without_deadline(limit=UNDATED_AT_MOST)
            return (orders, failures, await tx.now()), undated


def _print_orders(
    title: str, orders: list[Order], failures: dict[str, Failure], now: datetime, *, as_json: bool
) -> None:
    def late(order: Order) -> timedelta:
        return now - order.expire_at if order.expire_at else timedelta(0)

    if as_json:
        print_json(
            [
                {**_order(order), "late_seconds": late(order), "failure": failures.get(order.order_no)}
                for order in orders
            ]
        )
        return
    rows = [
        (
            order.order_no,
            shown_instant(order.expire_at),
            shown_duration(late(order)),
            failures[order.order_no].error if order.order_no in failures else "",
        )
        for order in orders
    ]
    print_table(f"{len(rows)} orders {title}", ("order_no", "expire_at", "since", "why it failed"), rows)


def _order(order: Order) -> dict[str, object]:
    return {
        "order_no": order.order_no,
        "id": order.id,
        "status": order.status,
        "expire_at": order.expire_at,
        "category": order.category,
        "amount_minor": order.amount_minor,
        "currency": order.currency,
    }


def print_failures(failures: list[Failure], *, as_json: bool) -> None:
    """Print what failed, as a table or as JSON."""
    if as_json:
        print_json(failures)
        return
    rows = [
        (
            failure.order_no,
            failure.stage.value,
            failure.state.value,
            failure.failures,
            shown_instant(failure.last_failed_at),
            failure.error,
        )
        for failure in failures
    ]
    columns = ("order_no", "stage", "state", "failures", "last failed at", "why")
    print_table(f"{len(rows)} orders that failed", columns, rows)


def _print_story(story: Story) -> None:
    order = story.order
    left = f", {story.seconds_left:.0f} s left" if story.payable and story.seconds_left else ""
    say(f"order {order.order_no}: {_in_words(order)}")
    say(f"  deadline   {shown_instant(order.expire_at) or 'none'}{left}")
    if order.closed_at or order.close_reason:
        say(f"  closed     {shown_instant(order.closed_at)} for {order.close_reason}, by {order.close_source}")
    if order.amount_minor is not None:
        say(f"  amount     {order.amount_minor} {order.currency or ''} (smallest units)".rstrip())
    note = story.note
    if note is not None and note.policy:
        say(f"  time-out   {note.policy}")
    if note is not None and note.extended:
        say(f"  extended   {note.extended} times, by {shown_duration(note.extended_by)}")
    for held in story.holds:
        say(f"  hold       {held.hold.quantity} of {held.hold.kind} {held.hold.ref}: {held.state.value}")
    for payment in story.payments:
        received = shown_instant(payment.received_at)
        money = f"{payment.amount_minor} {payment.currency}"
        say(f"  payment    {payment.payment_id} of {money} at {received}: {payment.resolution}")
    for failure in story.failures:
        say(f"  failure    {failure.stage.value}, {failure.failures} times, {failure.state.value}: {failure.error}")
    for fact in story.facts:
        say(f"  fact       {fact.type.value}{_when(fact.payload)}")


def _in_words(order: Order) -> str:
    """Write duetime's word for the state, and the shop's own value where that is another."""
    if order.state is None:
        return f"in a state that orders.states does not name ({order.status})"
    return order.state.value if str(order.status) == order.state.value else f"{order.state.value} ({order.status})"


def _when(payload: object) -> str:
    """Answer when a fact happened, where its payload says so."""
    if isinstance(payload, dict):
        for key in ("closed_at", "received_at", "last_failed_at"):
            if isinstance(payload.get(key), str):
                return f" at {payload[key]}"
    return ""
