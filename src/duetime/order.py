"""An order's life: states, allowed moves, the decision whether to close, and what an attempt found.

Two rules for this file: no I/O, and no reading of a clock. Time comes in as an argument.

The moves are data (``MOVES``); the diagram in the docs, the labels and the tests are derived from them. A move that is
not in the table is not allowed from that state, and nothing may change when it is tried.

The decision to close at a deadline (``decide``) has three answers:

* *close it*: the order is pending and its deadline plus grace has passed;
* *come back at t*: it is pending, but too early; a trigger was early, or the deadline was extended;
* *leave it, because it is ...*: somebody else has already moved it on.

Grace is time that the customer is not told about: the deadline shown is ``expire_at``, the order closes at
``expire_at + grace``, and a payment that arrives in between is simply in time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from duetime.errors import InvalidInput

if TYPE_CHECKING:
    from duetime.hold import Hold

LONGEST_NAME = 190
"""Characters in an order number, a kind or a reference: what fits a unique index on every supported database."""


class State(StrEnum):
    """Where an order stands. ``CLOSING`` exists only while a payment provider is being asked."""

    PENDING = "pending"
    CLOSING = "closing"
    PAID = "paid"
    CLOSED = "closed"
    SHIPPED = "shipped"
    FINISHED = "finished"
    REFUNDED = "refunded"


class Move(StrEnum):
    """What may happen to an order."""

    PAY = "pay"
    CLOSE = "close"
    EXTEND = "extend"
    CLAIM = "claim"
    UNCLAIM = "unclaim"
    SHIP = "ship"
    FINISH = "finish"
    REFUND = "refund"
    REOPEN = "reopen"
    REOPEN_PAID = "reopen paid"


MOVES: Mapping[tuple[State, Move], State] = MappingProxyType(
    {
        (State.PENDING, Move.PAY): State.PAID,
        (State.PENDING, Move.CLOSE): State.CLOSED,
        (State.PENDING, Move.EXTEND): State.PENDING,
        (State.PENDING, Move.CLAIM): State.CLOSING,
        (State.CLOSING, Move.CLOSE): State.CLOSED,
        (State.CLOSING, Move.PAY): State.PAID,
        (State.CLOSING, Move.UNCLAIM): State.PENDING,
        (State.PAID, Move.SHIP): State.SHIPPED,
        (State.PAID, Move.REFUND): State.REFUNDED,
        (State.SHIPPED, Move.FINISH): State.FINISHED,
        (State.SHIPPED, Move.REFUND): State.REFUNDED,
        (State.FINISHED, Move.REFUND): State.REFUNDED,
        (State.CLOSED, Move.REOPEN): State.PENDING,
        (State.CLOSED, Move.REOPEN_PAID): State.PAID,
    }
)
"""Every allowed move: from which state, and where it leads."""


def after(state: State, move: Move) -> State | None:
    """Answer the state that ``move`` leads to from ``state``, or None where the move is not allowed."""
    return MOVES.get((state, move))


class Reason(StrEnum):
    """Why an order was closed."""

    TIMEOUT = "timeout"
    CUSTOMER = "customer"
    STAFF = "staff"
    PAYMENT_FAILED = "payment_failed"


OrderId = int | str
"""The primary key of the shop's row, in the form in which the database's driver takes it."""


@dataclass(frozen=True, slots=True)
class Order:
    """One row of the shop's order table, as it was when it was read.

    ``state`` is None where the shop's status is a value that the configuration does not name; ``status`` is that value
    as the shop stores it. ``expire_at`` is an aware instant, or None on a row without a deadline that can be read.
    ``page_key`` is the deadline as the store sorts it, on rows that were read as a page. ``left_out``: the shop's own
    condition (``orders.only``) says that duetime does not close it.
    """

    id: OrderId
    order_no: str
    state: State | None
    status: str
    expire_at: datetime | None
    closed_at: datetime | None = None
    close_reason: str | None = None
    close_source: str | None = None
    paid_at: datetime | None = None
    category: str | None = None
    amount_minor: int | None = None
    currency: str | None = None
    page_key: object = field(default=None, compare=False)
    left_out: bool = False


@dataclass(frozen=True, slots=True)
class CloseIt:
    """The order is due."""


@dataclass(frozen=True, slots=True)
class ComeBackAt:
    """The order is pending and becomes due at ``at`` (deadline plus grace)."""

    at: datetime


@dataclass(frozen=True, slots=True)
class LeaveIt:
    """Nothing is to be closed here; ``because`` is a phrase that completes *leave it, because it ...*."""

    because: str


Decision = CloseIt | ComeBackAt | LeaveIt


def decide(order: Order, *, now: datetime, grace: timedelta) -> Decision:
    """Say whether ``order`` is to be closed at its deadline, seen at the instant ``now`` of the store's clock."""
    if order.state is not State.PENDING:
        return LeaveIt(f"is {order.state or order.status}")
    if order.expire_at is None:
        return LeaveIt("has no deadline")
    due_at = order.expire_at + grace
    return CloseIt() if due_at <= now else ComeBackAt(due_at)


@dataclass(frozen=True, slots=True)
class Closed:
    """This attempt closed the order; ``released`` is what the close gives back, with it or right after."""

    order_no: str
    reason: str
    source: str
    expire_at: datetime | None
    closed_at: datetime
    lateness_ms: int | None
    released: "tuple[Hold, ...]" = ()
    event_id: str = ""


@dataclass(frozen=True, slots=True)
class AlreadyClosed:
    """Somebody closed the order before; who and why, where the shop or duetime recorded it."""

    order_no: str
    reason: str | None = None
    source: str | None = None
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AlreadyPaid:
    """The order was paid, or has moved on from pending in another way; ``status`` is the shop's own value."""

    order_no: str
    status: str


@dataclass(frozen=True, slots=True)
class NotYetDue:
    """The order is pending and becomes due at ``due_at`` (its deadline plus grace); None where it has no deadline."""

    order_no: str
    due_at: datetime | None


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody else holds the order's row at this moment; the attempt can be repeated shortly."""

    order_no: str


@dataclass(frozen=True, slots=True)
class UnknownOrder:
    """The shop's table has no such order."""

    order_no: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """The order cannot be closed as things are; ``why`` names the row that stands in the way."""

    order_no: str
    why: str


Outcome = Closed | AlreadyClosed | AlreadyPaid | NotYetDue | Busy | UnknownOrder | Blocked
"""What an attempt to close found."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The order was placed with its holds; ``expire_at`` is the deadline to show to the customer."""

    order_no: str
    expire_at: datetime
    event_id: str


@dataclass(frozen=True, slots=True)
class OutOfStock:
    """The order was not placed: asset ``kind`` ``ref`` does not have ``wanted``; ``available`` None: no such row."""

    order_no: str
    kind: str
    ref: str
    wanted: int
    available: int | None


@dataclass(frozen=True, slots=True)
class AlreadyPlaced:
    """An order with this number exists; nothing was written."""

    order_no: str


PlaceOutcome = Placed | OutOfStock | AlreadyPlaced | Blocked


@dataclass(frozen=True, slots=True)
class Paid:
    """The order is paid by this payment; ``repeat`` is True when the same notice had been answered before."""

    order_no: str
    payment_id: str
    repeat: bool = False


@dataclass(frozen=True, slots=True)
class NeedsReview:
    """The money was recorded for a human to decide (``manual``): ``why`` says what it met, ``found`` who won."""

    order_no: str
    payment_id: str
    why: str
    found: AlreadyClosed | AlreadyPaid | UnknownOrder | None = None
    repeat: bool = False


PayOutcome = Paid | NeedsReview | Busy


@dataclass(frozen=True, slots=True)
class Extended:
    """The order has a new deadline; ``extended`` is all the time that it was given so far."""

    order_no: str
    expire_at: datetime
    extended: timedelta


@dataclass(frozen=True, slots=True)
class Refused:
    """The extension is not allowed; ``why`` says which limit stands against it."""

    order_no: str
    why: str


ExtendOutcome = Extended | Refused | AlreadyClosed | AlreadyPaid | Busy | UnknownOrder


def outcome_word(outcome: object) -> str:
    """Answer the outcome's name as logs, metrics and people read it: ``not yet due`` for NotYetDue."""
    name = type(outcome).__name__
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


def why_not(order: Order | None, order_no: str) -> AlreadyClosed | AlreadyPaid | UnknownOrder | None:
    """Say who won, for an order that is no longer pending; None while it is pending or being closed."""
    if order is None:
        return UnknownOrder(order_no)
    if order.state in {State.PENDING, State.CLOSING}:
        return None
    if order.state is State.CLOSED:
        return AlreadyClosed(order.order_no, order.close_reason, order.close_source, order.closed_at)
    return AlreadyPaid(order.order_no, order.status)


def matched(order_nos: Collection[str], orders: Sequence[Order]) -> dict[str, Order]:
    """Answer, for each number asked for, the row that was found by it.

    On a case-insensitive column ``so-1`` finds SO-1; what counts from there on is what the row says.
    """
    exact = {order.order_no: order for order in orders}
    found = {order_no: exact[order_no] for order_no in order_nos if order_no in exact}
    if len(found) < len(exact):
        folded = {order.order_no.casefold().rstrip(): order for order in orders}
        asked = ((order_no, folded.get(order_no.casefold().rstrip())) for order_no in order_nos)
        found |= {order_no: order for order_no, order in asked if order is not None and order_no not in found}
    return found


def checked_name(value: object, what: str) -> str:
    """Answer ``value`` when it can stand as an order number, kind, reference or payment id.

    Raises:
        InvalidInput: it is no string, is empty, has more than 190 characters, or a character that databases refuse.
    """
    if not isinstance(value, str):
        msg = f"{what} must be a string, found {type(value).__name__}"
        raise InvalidInput(msg)
    if not value or len(value) > LONGEST_NAME:
        msg = f"{what} must have 1 to {LONGEST_NAME} characters, found {len(value)}: {value[:40]!r}"
        raise InvalidInput(msg)
    if value != value.strip(" "):
        msg = f"{what} {value[:40]!r} begins or ends with a space, which some databases do not tell apart from none"
        raise InvalidInput(msg)
    if "\x00" in value or (not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value)):
        msg = f"{what} {value[:40]!r} has a NUL character or half a surrogate pair, which databases cannot store"
        raise InvalidInput(msg)
    return value


def checked_instant(value: object, what: str) -> datetime:
    """Answer ``value`` when it is one instant: a datetime that knows its zone.

    Raises:
        InvalidInput: it is no datetime, or a naive one.
    """
    if not isinstance(value, datetime):
        msg = f"{what} must be a datetime, found {type(value).__name__}"
        raise InvalidInput(msg)
    if value.tzinfo is None:
        msg = f"{what} {value.isoformat()} has no time zone; give one, as in datetime(..., tzinfo=UTC)"
        raise InvalidInput(msg)
    return value
