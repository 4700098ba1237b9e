"""The judge: reads orders, holds, assets and facts with plain SQL and says what does not add up between them.

It knows the tables' columns as any reader from outside does, and nothing of the code that wrote them. Rows are compared
here and not in joins: the shop's columns and duetime's differ in collation.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Rows = Callable[[str], Awaitable[Sequence[Any]]]
SENTENCES_MAX = 15


@dataclass(frozen=True)
class OrderRow:
    order_no: str
    status: str
    expire_at: datetime | None
    closed_at: datetime | None
    reason: str | None
    source: str | None


@dataclass(frozen=True)
class HoldRow:
    order_no: str
    kind: str
    ref: str
    quantity: int
    state: str


@dataclass(frozen=True)
class FactRow:
    event_id: str
    order_no: str
    type: str
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class Books:
    """Everything there is."""

    orders: Mapping[str, OrderRow]
    holds: Sequence[HoldRow]
    stock: Mapping[str, tuple[int, int]]
    """Available and held, by SKU."""
    coupons: Mapping[str, str]
    facts: Sequence[FactRow]
    quarantine: Sequence[tuple[str, str, str, str]]
    """Order, stage, state and error."""

    def facts_of(self, order_no: str) -> list[FactRow]:
        return [fact for fact in self.facts if fact.order_no == order_no]

    def holds_of(self, order_no: str) -> list[HoldRow]:
        return [hold for hold in self.holds if hold.order_no == order_no]

    def count(self, status: str) -> int:
        return sum(order.status == status for order in self.orders.values())


async def read_books(rows: Rows) -> Books:
    """Read all tables; call it when nobody writes any more."""
    columns = "order_no, status, expire_at, closed_at, close_reason, close_source"
    orders = [
        OrderRow(no, status, _aware(expire_at), _aware(closed_at), reason, source)
        for no, status, expire_at, closed_at, reason, source in await rows(f"SELECT {columns} FROM orders")
    ]
    return Books(
        orders={order.order_no: order for order in orders},
        holds=[HoldRow(*row) for row in await rows("SELECT order_no, kind, ref, quantity, state FROM duetime_hold")],
        stock={row[0]: (row[1], row[2]) for row in await rows("SELECT sku_id, available, held FROM stock")},
        coupons={row[0]: row[1] for row in await rows("SELECT coupon_id, state FROM coupon")},
        facts=await read_facts(rows),
        quarantine=[tuple(row) for row in await rows("SELECT order_no, stage, state, error FROM duetime_quarantine")],
    )


async def read_facts(rows: Rows) -> list[FactRow]:
    """Read the outbox, oldest first."""
    found = await rows("SELECT event_id, order_no, type, payload FROM duetime_outbox ORDER BY seq")
    return [FactRow(event_id, order_no, kind, _json(payload)) for event_id, order_no, kind, payload in found]


def misfits(books: Books, *, units: Mapping[str, int], settled: bool, grace: timedelta) -> list[str]:
    """Answer a sentence for each thing that does not add up; with ``settled`` nothing may be unfinished."""
    found = [*_facts(books), *_closes(books, grace), *_holds(books, settled=settled)]
    found += [*_stock(books, units), *_coupons(books)]
    more = [f"... and {len(found) - SENTENCES_MAX} more"] if len(found) > SENTENCES_MAX else []
    return found[:SENTENCES_MAX] + more


def _facts(books: Books) -> Iterator[str]:
    """Each fact once, and each change of an order told by one."""
    by_order: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for fact in books.facts:
        by_order[fact.order_no][fact.type] += 1
        if (fact.payload["event_id"], fact.payload["order_no"]) != (fact.event_id, fact.order_no):
            yield f"fact {fact.event_id} of {fact.order_no} names another in its payload"
    for event_id, times in Counter(fact.event_id for fact in books.facts).items():
        if times > 1:
            yield f"event {event_id} stands {times} times in the outbox"
    for order in books.orders.values():
        counts = by_order[order.order_no]
        for status, kind in (("closed", "order.closed"), ("paid", "order.paid")):
            expected = int(order.status == status)
            if counts[kind] != expected:
                yield f"order {order.order_no} is {order.status} and has {counts[kind]} facts {kind}"
        if counts["order.placed"] > 1:
            yield f"order {order.order_no} was placed {counts['order.placed']} times"


def _closes(books: Books, grace: timedelta) -> Iterator[str]:
    """Never early, and the fact says what the row says."""
    for fact in books.facts:
        if fact.type != "order.closed":
            continue
        order, told = books.orders.get(fact.order_no), fact.payload
        if order is None:
            yield f"{fact.order_no} was closed and does not exist"
            continue
        closed_at = datetime.fromisoformat(told["closed_at"])
        if (order.reason, order.source) != (told["reason"], told["source"]) or order.closed_at != closed_at:
            yield f"order {order.order_no}: the row says {order}, the fact says {told}"
        if told["reason"] == "timeout":
            assert order.expire_at is not None
            late = closed_at - order.expire_at - grace
            if late < timedelta(0):
                yield f"order {order.order_no} was closed {-late} before its deadline and grace"
            if told["lateness_ms"] != late // timedelta(milliseconds=1):
                yield f"order {order.order_no}: lateness {told['lateness_ms']} ms, but it was {late}"


_EXPECTED = {
    "pending": {"held"},
    "closed": {"released", "releasing"},
    "paid": {"consumed", "consuming"},
}


def _holds(books: Books, *, settled: bool) -> Iterator[str]:
    """What an order holds follows the order, and the close told all of it."""
    unfinished = {"releasing", "consuming"} if settled else set()
    told = {fact.order_no: fact.payload["released"] for fact in books.facts if fact.type == "order.closed"}
    held: defaultdict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for hold in books.holds:
        held[hold.order_no].append((hold.kind, hold.ref, hold.quantity))
        order = books.orders.get(hold.order_no)
        status = "missing" if order is None else order.status
        if hold.state not in _EXPECTED.get(status, set()) - unfinished:
            yield f"order {hold.order_no} is {status}, its hold on {hold.kind} {hold.ref} is {hold.state}"
    for order_no, released in told.items():
        listed = sorted((one["kind"], one["ref"], one["quantity"]) for one in released)
        if listed != sorted(held[order_no]):
            yield f"order {order_no}: its fact says {listed} went back, its holds were {sorted(held[order_no])}"


def _stock(books: Books, units: Mapping[str, int]) -> Iterator[str]:
    """Units are conserved, and ``held`` is the sum of what is held."""
    sums: defaultdict[tuple[str, bool], int] = defaultdict(int)
    for hold in books.holds:
        if hold.kind == "stock" and hold.state != "released":
            sums[hold.ref, hold.state == "consumed"] += hold.quantity
    for name, total in units.items():
        if name not in books.stock:
            yield f"SKU {name} is gone"
            continue
        available, held = books.stock[name]
        if available + held + sums[name, True] != total:
            yield f"SKU {name}: {available} available + {held} held + {sums[name, True]} consumed, not {total}"
        if held != sums[name, False]:
            yield f"SKU {name}: {held} held, but its holds add up to {sums[name, False]}"


def _coupons(books: Books) -> Iterator[str]:
    expected = {
        "held": "locked",
        "releasing": "locked",
        "consuming": "locked",
        "released": "unused",
        "consumed": "used",
    }
    for hold in books.holds:
        if hold.kind == "coupon" and books.coupons.get(hold.ref) != expected[hold.state]:
            state = books.coupons.get(hold.ref)
            yield f"coupon {hold.ref} is {state}, its hold by {hold.order_no} is {hold.state}"


def _aware(value: datetime | None) -> datetime | None:
    if value is None:
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _json(value: str | Mapping[str, Any]) -> Mapping[str, Any]:
    payload: Mapping[str, Any] = json.loads(value) if isinstance(value, str) else value
    return payload
