"""Histories: lists of things that happen to a shop, run on any store through duetime's own verbs.

A history runs on the model and on a real store. After every step both are looked at from outside; what is seen must be
equal, and on each of them the promises must hold. For that, nothing in a history may depend on how fast a store is:

* time passes only where the history says so, by moving all stored deadlines back (nobody can move a server's clock),
  and always by a multiple of seven minutes, which no sum of time-outs and extensions comes near;
* what is seen of instants is whole minutes, rounded towards where they would be if no real time had passed;
* identifiers and the words of a database are left out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from duetime.errors import DuetimeError
from duetime.event import Fact, FactType
from duetime.hold import HeldHold, HoldState
from duetime.store import FailureQuery, Quarantine
from duetime.testing.shop_hand import CouponRow, ShopRow, StockRow
from duetime.testing.suites import StoreBench
from tests.support.history_steps import (
    GRACE,
    MINUTE,
    ORDERS,
    UNITS,
    Pay,
    ReleaseOnce,
    RetryOnce,
    Step,
    SweepOnce,
    TimePasses,
    WhileLocked,
    WithFault,
    World,
)


async def take(world: World, step: Step) -> object:
    """Take one step, and answer what it found, ready to be compared."""
    await world.now()
    try:
        found = await step(world)
    except DuetimeError as error:
        return type(error).__name__
    return comparable(found, await world.now())


# What is compared


_LEFT_OUT = {"event_id", "why", "error", "summary"}


def comparable(value: object, now: datetime) -> object:
    """Turn what a verb answered into something that is equal on all stores."""
    if isinstance(value, datetime):
        return math.ceil((value - now) / MINUTE)
    if isinstance(value, timedelta):
        return value // MINUTE
    if is_dataclass(value) and not isinstance(value, type):
        kept = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in _LEFT_OUT}
        if kept.get("lateness_ms") is not None:
            kept["lateness_ms"] //= 60_000
        return (type(value).__name__, {name: comparable(part, now) for name, part in kept.items()})
    if isinstance(value, list | tuple):
        return [comparable(part, now) for part in value]
    return value


def comparable_fact(fact: Fact) -> object:
    """Leave a fact its type and what it says; instants only as being there."""
    payload: dict[str, Any] = {name: part for name, part in fact.payload.items() if name not in _LEFT_OUT}
    for name in ("expire_at", "closed_at", "received_at", "previous", "first_failed_at", "last_failed_at"):
        if payload.get(name) is not None:
            payload[name] = "an instant"
    if payload.get("lateness_ms") is not None:
        payload["lateness_ms"] //= 60_000
    if "extended_seconds" in payload:
        payload["extended_seconds"] //= 60
    return (str(fact.type), payload)


@dataclass(frozen=True)
class View:
    """Everything as it is seen from outside at one moment."""

    now: datetime
    orders: Mapping[str, ShopRow]
    stock: Mapping[str, StockRow]
    coupons: Mapping[str, CouponRow]
    holds: Sequence[HeldHold]
    facts: Sequence[Fact]


async def look(world: World) -> View:
    """Look at everything."""
    hand = world.hand
    return View(
        await world.now(),
        await hand.orders(),
        await hand.stock(),
        await hand.coupons(),
        await hand.holds(),
        await hand.facts(),
    )


async def picture(world: World, view: View) -> dict[str, object]:
    """Turn what is seen, and what duetime's own books say, into something that is equal on all stores."""
    async with world.bench.store.transaction(write=False) as tx:
        payments = {order_no: await tx.find_payments(order_no) for order_no in ORDERS}
        failures = await tx.find_failures(FailureQuery())
        notes = await tx.find_notes(ORDERS)
    coupons = view.coupons.values()
    return {
        "orders": {no: _order(row, view.now) for no, row in sorted(view.orders.items())},
        "stock": sorted((row.sku, row.available, row.held) for row in view.stock.values()),
        "coupons": sorted((row.coupon, row.state, str(comparable(row.valid_until, view.now))) for row in coupons),
        "holds": view.holds,
        "facts": {no: [comparable_fact(fact) for fact in view.facts if fact.order_no == no] for no in ORDERS},
        "payments": {
            no: sorted((paid.payment_id, paid.amount_minor, paid.resolution) for paid in found)
            for no, found in payments.items()
        },
        "failures": sorted((one.order_no, one.stage, one.failures, one.state) for one in failures),
        "notes": {no: (note.extended, note.extended_by // MINUTE, note.policy) for no, note in sorted(notes.items())},
    }


def _order(row: ShopRow, now: datetime) -> object:
    closed = row.closed_at is not None
    return (row.status, comparable(row.expire_at, now), closed, row.close_reason, row.close_source)


# What is promised


def check_promises(world: World, before: Mapping[str, ShopRow], view: View) -> None:
    """Judge from outside what the last step has done; ``before`` are the orders as they were before it."""
    for order_no, row in view.orders.items():
        was = before.get(order_no)
        if was is not None and was.status == "pending" and row.status == "closed" and row.close_reason == "timeout":
            assert was.expire_at is not None, f"{order_no} had no deadline and was closed by it"
            assert was.expire_at + GRACE <= view.now, f"{order_no} was closed early"
    check_one_winner(view.orders, view.facts, world)
    check_units(view.stock, view.holds, world)


def check_one_winner(orders: Mapping[str, ShopRow], facts: Sequence[Fact], world: World) -> None:
    """Of paying and closing exactly one wins, and the order's row and the facts agree on which."""
    ids = [fact.event_id for fact in facts]
    assert len(ids) == len(set(ids))
    for order_no, row in orders.items():
        ends = [
            fact.type
            for fact in facts
            if fact.order_no == order_no and fact.type in {FactType.ORDER_CLOSED, FactType.ORDER_PAID}
        ]
        if order_no not in world.moved:
            expected = {"paid": [FactType.ORDER_PAID], "closed": [FactType.ORDER_CLOSED], "pending": []}[row.status]
            assert ends == expected, f"{order_no} is {row.status}, the facts say {ends}"


def check_units(stock: Mapping[str, StockRow], holds: Sequence[HeldHold], world: World) -> None:
    """What is for sale, what is held and what is used up add up, and every held unit has its hold."""
    for sku, row in stock.items():
        if sku in world.touched:
            continue
        mine = [held for held in holds if (held.hold.kind, held.hold.ref) == ("stock", sku)]
        owed = sum(held.hold.quantity for held in mine if held.state not in {HoldState.RELEASED, HoldState.CONSUMED})
        used = sum(held.hold.quantity for held in mine if held.state is HoldState.CONSUMED)
        assert row.held == owed, f"{sku} holds {row.held}, its holds add up to {owed}"
        assert row.available + row.held + used == UNITS, f"{sku}: units were lost or made"


def check_money(step: Step, found: object, books: Mapping[str, object]) -> None:
    """Every notice that was answered is in the books, and none is answered with nothing but *busy*."""
    while isinstance(step, WithFault | WhileLocked):
        step = step.step
    if not isinstance(step, Pay) or not isinstance(found, list):
        return
    payments = cast("Mapping[str, Sequence[tuple[str, int, str]]]", books["payments"])
    written = {payment_id for paid in payments.values() for payment_id, *_ in paid}
    for order_no, (answer, _) in zip(step.order_nos, found, strict=True):
        assert answer in {"Paid", "NeedsReview"}, f"the money for {order_no} was answered with {answer}"
        assert step.id_for(order_no) in written, f"the money for {order_no} is in no book"


async def check_nothing_is_forgotten(world: World, view: View) -> None:
    """After a long quiet time whatever can end has ended; the rest is written down as having failed."""
    async with world.bench.store.transaction(write=False) as tx:
        failures = await tx.find_failures(FailureQuery())
    failed = {one.order_no for one in failures if one.state is not Quarantine.RESOLVED}
    for order_no, row in view.orders.items():
        if row.status == "pending" and row.expire_at is not None:
            assert order_no in failed, f"{order_no} is due and was forgotten"
    for held in view.holds:
        waits = held.state in {HoldState.RELEASING, HoldState.CONSUMING} and held.hold.kind != "points"
        assert not waits or held.order_no in failed, f"{held} was forgotten"


QUIET: tuple[Step, ...] = (
    TimePasses(7 * 60),
    RetryOnce(),
    SweepOnce(),
    ReleaseOnce(),
    TimePasses(70),
    RetryOnce(),
    ReleaseOnce(),
)


Seen = tuple[Step, object, dict[str, object]]
"""A step, what it found, and the picture after it."""


async def run(bench: StoreBench, history: Sequence[Step]) -> list[Seen]:
    """Run a history and the quiet time after it; answer what was seen after every step."""
    world = World(bench)
    await world.open()
    seen: list[Seen] = []
    view = await look(world)
    for step in (*history, *QUIET):
        found = await take(world, step)
        before, view = view, await look(world)
        # Passing time moves deadlines themselves: what was due before it is not to be compared with what is now.
        check_promises(world, {} if isinstance(step, TimePasses | WhileLocked) else before.orders, view)
        seen.append((step, found, await picture(world, view)))
        check_money(step, found, seen[-1][2])
    await check_nothing_is_forgotten(world, view)
    return seen
