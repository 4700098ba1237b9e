"""Observing beside another closer: what is remembered of an order, and what its end says about that closer.

Two rules for this file, as for ``order``: no I/O, and no reading of a clock.

An order is remembered from shortly before its deadline on. Each later look at the shop's row moves the memory on
(``looked``): still pending, paid, closed, deleted. A report judges it (``judged``):

=====================  ==============================================================================================
verdict                the order
=====================  ==============================================================================================
``OPEN``               is pending, and its deadline or the time that a closer may take has not passed yet
``IN_TIME``            was closed after its deadline, within the time that a closer may take
``LATE``               was closed after that time
``MISSED``             is pending still, after that time
``CLOSED_PAID``        was closed although it was paid before
``EARLY``              was closed before its deadline: too early, or by a customer or a person
``PAID``               was paid before duetime would have closed it
``PAID_LATE``          was paid when duetime would have closed it already
``DELETED``            has no row any more
``OTHER``              is in a status that ``orders.states`` omits, or left out by ``orders.only``
=====================  ==============================================================================================
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from duetime.order import Order, State

FOLLOWED_FOR = timedelta(days=7)
"""How long after its deadline an order that nobody closed is looked at again."""

PAID_FOLLOWED_FOR = timedelta(days=1)
"""How long a paid order is looked at again, for the case that somebody closes it although it is paid."""

EARLY_BY_AT_LEAST = timedelta(seconds=1)
"""A close less than this before the deadline is none: columns may hold whole seconds."""

NEVER_PAID_BEFORE = datetime(1980, 1, 1, tzinfo=UTC)
"""Many a column of payment times holds 0 or a day in 1970 for *not paid*."""


class Seen(StrEnum):
    """How the shop's row was when it was last looked at."""

    PENDING = "pending"
    PAID = "paid"
    CLOSED = "closed"
    DELETED = "deleted"
    OTHER = "other"


class Verdict(StrEnum):
    """What became of an order, see the module."""

    OPEN = "open"
    IN_TIME = "closed in time"
    LATE = "closed late"
    MISSED = "never closed"
    CLOSED_PAID = "closed though paid"
    EARLY = "closed before the deadline"
    PAID = "paid in time"
    PAID_LATE = "paid after duetime would have closed it"
    DELETED = "deleted"
    OTHER = "in another status"


@dataclass(frozen=True, slots=True)
class Observation:
    """What is remembered of one order.

    ``would_close_at``: when a pass first found it pending and due, and would have closed it; where no pass came before
    the shop took a late payment, the instant at which it was due. ``closed_at``: what the
    shop's row says, ``closed_seen_at`` when a pass first saw it closed. ``paid_at``: what the shop's row says, else
    when a pass first saw it paid. ``followed``: it is looked at again.
    """

    order_no: str
    expire_at: datetime
    first_seen_at: datetime
    seen: Seen
    followed: bool = True
    would_close_at: datetime | None = None
    closed_at: datetime | None = None
    closed_seen_at: datetime | None = None
    paid_at: datetime | None = None

    @property
    def closed(self) -> datetime | None:
        """When it was closed: as the shop says, else when that was first seen."""
        return self.closed_at or self.closed_seen_at


@dataclass(frozen=True, slots=True)
class Look:
    """When the shop was looked at, and the grace after a deadline."""

    now: datetime
    grace: timedelta


def first_look(order: Order, look: Look) -> Observation | None:
    """Begin to remember a pending order; None where it has no deadline that can be read."""
    if order.expire_at is None:
        return None
    return looked(Observation(order.order_no, order.expire_at, look.now, Seen.PENDING), order, look)


def looked(before: Observation, order: Order | None, look: Look) -> Observation:
    """Answer what is remembered after a look at the shop's row (None: it is gone)."""
    if order is None:
        return replace(before, seen=Seen.DELETED, followed=False)
    seen = _seen(order)
    after = replace(before, seen=seen, expire_at=order.expire_at or before.expire_at)
    paid_at = order.paid_at if order.paid_at is not None and order.paid_at >= NEVER_PAID_BEFORE else None
    if paid_at is not None or seen is Seen.PAID:
        after = replace(after, paid_at=paid_at or before.paid_at or look.now)
    if seen is Seen.CLOSED:
        return replace(after, followed=False, closed_at=order.closed_at, closed_seen_at=look.now)
    if seen is Seen.PENDING:
        due = after.expire_at + look.grace <= look.now
        after = replace(after, would_close_at=(before.would_close_at or look.now) if due else None)
    elif seen is Seen.PAID and paid_at is not None and paid_at >= after.expire_at + look.grace:
        after = replace(after, would_close_at=before.would_close_at or after.expire_at + look.grace)
    return replace(after, followed=look.now < after.expire_at + _followed_for(seen))


def _seen(order: Order) -> Seen:
    match order.state:
        case State.PENDING | State.CLOSING:
            return Seen.OTHER if order.left_out else Seen.PENDING
        case State.CLOSED:
            return Seen.CLOSED
        case None:
            return Seen.OTHER
        case _:
            return Seen.PAID


def _followed_for(seen: Seen) -> timedelta:
    return FOLLOWED_FOR if seen is Seen.PENDING else PAID_FOLLOWED_FOR


def judged(one: Observation, *, now: datetime, late_after: timedelta) -> Verdict:
    """Say what became of an order; a closer may take ``late_after`` from the deadline on."""
    match one.seen:
        case Seen.PENDING:
            return Verdict.OPEN if now <= one.expire_at + late_after else Verdict.MISSED
        case Seen.PAID:
            return Verdict.PAID if one.would_close_at is None else Verdict.PAID_LATE
        case Seen.CLOSED:
            return _judged_close(one, late_after)
        case Seen.DELETED:
            return Verdict.DELETED
        case _:
            return Verdict.OTHER


def _judged_close(one: Observation, late_after: timedelta) -> Verdict:
    closed = one.closed
    assert closed is not None
    if one.paid_at is not None and one.paid_at <= closed:
        return Verdict.CLOSED_PAID
    if closed <= one.expire_at - EARLY_BY_AT_LEAST:
        return Verdict.EARLY
    return Verdict.IN_TIME if closed <= one.expire_at + late_after else Verdict.LATE
