"""What must be true in the end, judged from the store's rows alone."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from duetime.event import FactType
from duetime.hold import UNFINISHED, HoldState
from duetime.order import Reason, State
from duetime.store import Quarantine
from tests.simulation.events import BAD, SKUS, UNITS, Run
from tests.simulation.world import GRACE

ENDED = {State.PAID: HoldState.CONSUMED, State.CLOSED: HoldState.RELEASED, State.PENDING: HoldState.HELD}


def misfits(run: Run) -> Iterator[str]:
    """Say what does not add up: a promise's name first."""
    yield from _early(run)
    yield from _facts(run)
    yield from _holds(run)
    yield from _units(run)
    yield from _forgotten(run)


def _early(run: Run) -> Iterator[str]:
    for order in run.world.store.data.orders.values():
        if order.state is State.CLOSED and order.close_reason == Reason.TIMEOUT:
            assert order.closed_at is not None
            assert order.expire_at is not None
            if order.closed_at < order.expire_at + GRACE:
                yield f"G1: {order.order_no} closed {order.expire_at + GRACE - order.closed_at} early"


def _facts(run: Run) -> Iterator[str]:
    data = run.world.store.data
    counts = Counter((row.fact.order_no, row.fact.type) for row in data.facts.values())
    for order in data.orders.values():
        closes = counts[order.order_no, FactType.ORDER_CLOSED]
        pays = counts[order.order_no, FactType.ORDER_PAID]
        by_hand = order.order_no in run.by_hand
        wanted = (order.state is State.CLOSED, order.state is State.PAID and not by_hand)
        if (closes, pays) != wanted:
            yield f"G2: {order.order_no} is {order.state}, with {closes} closes and {pays} payments told"
    for payment in data.payments.values():
        order_paid = data.orders.get(payment.order_no)
        if payment.resolution == "paid" and (order_paid is None or order_paid.state is not State.PAID):
            yield f"G5: payment {payment.payment_id} counts as paid, its order is not"


def _holds(run: Run) -> Iterator[str]:
    data = run.world.store.data
    for row in data.holds.values():
        held = row.held
        order = data.orders.get(held.order_no)
        if order is None or order.state is None:
            yield f"G3: {held.order_no} holds {held.hold.ref} and is not there"
        elif held.order_no.startswith(BAD) and held.state in UNFINISHED:
            continue  # paid, or closed by a customer: its row is not there, and a person is told
        elif held.state is not ENDED[order.state]:
            yield f"G3: {held.order_no} is {order.state}, its hold on {held.hold.ref} is {held.state}"


def _units(run: Run) -> Iterator[str]:
    data = run.world.store.data
    held: Counter[str] = Counter()
    consumed: Counter[str] = Counter()
    for row in data.holds.values():
        one = row.held
        by_hand = one.order_no in run.by_hand
        held[one.hold.ref] += one.hold.quantity * (one.state is HoldState.HELD or (by_hand and one.state in GONE))
        consumed[one.hold.ref] += one.hold.quantity * (one.state is HoldState.CONSUMED and not by_hand)
    for sku in SKUS:
        row_of = data.assets["stock", sku]
        found = (row_of.available, row_of.held)
        wanted = (UNITS - held[sku] - consumed[sku], held[sku])
        if found != wanted:
            yield f"G3: {sku} has {found} units available and held, {wanted} add up"


GONE = frozenset({HoldState.CONSUMED})
"""Followed after the shop's own payment: the asset's row is the shop's to write, and here it writes nothing."""


def _forgotten(run: Run) -> Iterator[str]:
    data, now = run.world.store.data, run.world.clock.now()
    for order in data.orders.values():
        if order.state is not State.PENDING or order.expire_at is None:
            continue
        due = order.expire_at + GRACE + timedelta(seconds=1)
        if order.order_no.startswith(BAD):
            states = [one.state for (number, _), one in data.failures.items() if number == order.order_no]
            if due < now and not set(states) & {Quarantine.QUARANTINED, Quarantine.RETRYING}:
                yield f"G7: {order.order_no} cannot be closed, and nobody was told: {states}"
        elif due < now:
            yield f"G4: {order.order_no} is due since {order.expire_at} and open at {now}"
