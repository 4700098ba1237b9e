"""Facts: what happened to an order, written once in the transaction that made it true, and never changed.

A fact's ``event_id`` is fixed by the process before the first try to write it. That is how an attempt whose commit was
answered by nothing but a broken connection recognises its own work when it tries again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID, uuid5

from duetime.hold import Hold

HOLD_KEYS = UUID("6f0b7b1c-59a4-4a55-9a2b-0e6f5f4c7d11")
"""Namespace of the keys of holds: a reference may be too long to be part of a key itself."""

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]


class FactType(StrEnum):
    """What can happen, by the names that consumers subscribe to."""

    ORDER_PLACED = "order.placed"
    ORDER_CLOSED = "order.closed"
    ORDER_PAID = "order.paid"
    ORDER_REOPENED = "order.reopened"
    ORDER_EXTENDED = "order.extended"
    ORDER_EXPIRING = "order.expiring"
    HOLD_RELEASE = "hold.release"
    PAYMENT_LATE = "payment.late"
    REFUND_REQUESTED = "refund.requested"
    ORDER_QUARANTINED = "order.quarantined"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that happened; ``payload`` is JSON and carries ``event_id`` and ``order_no`` again."""

    event_id: str
    order_no: str
    type: FactType
    payload: Mapping[str, Json]


def fact(event_id: str, order_no: str, of: FactType, /, **payload: Json) -> Fact:
    """Make a fact whose payload opens with its identity."""
    return Fact(event_id, order_no, of, {"event_id": event_id, "order_no": order_no, **payload})


def order_key(of: Fact) -> str:
    """Say what a fact keeps its place behind: its order; a hold that is given back, or money, only behind itself."""
    match of.type:
        case FactType.HOLD_RELEASE:
            name = "\n".join(str(part) for part in (of.order_no, of.payload.get("kind"), of.payload.get("ref")))
            return str(uuid5(HOLD_KEYS, name))
        case FactType.REFUND_REQUESTED:
            return str(of.payload.get("payment_id", of.order_no))
        case _:
            return of.order_no


def instant_json(value: datetime | None) -> str | None:
    """Write an instant for a payload: RFC 3339 in UTC with microseconds."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def instant_from_json(value: object) -> datetime | None:
    """Read back what ``instant_json`` wrote."""
    return datetime.fromisoformat(value) if isinstance(value, str) else None


def holds_json(holds: Sequence[Hold]) -> list[Json]:
    """Write holds for a payload: a list of kind, ref and quantity."""
    return [{"kind": hold.kind, "ref": hold.ref, "quantity": hold.quantity} for hold in holds]


def holds_from_json(value: object) -> tuple[Hold, ...]:
    """Read back what ``holds_json`` wrote."""
    if not isinstance(value, Sequence):
        return ()
    return tuple(Hold(str(h["kind"]), str(h["ref"]), int(h["quantity"])) for h in value if isinstance(h, Mapping))
