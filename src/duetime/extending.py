"""Extending: the only thing that moves a stored deadline.

An extension is counted and capped for each order (``[closing] max_extension``, in all), never reaches into the past,
never shortens a deadline, and never revives an order that is closed. It is the same guarded write as every other: an
order that was paid or closed a moment before stays so.

A deadline that no column holds by itself (a time of creation and ``orders.expire_plus``, or a column that the database
computes) cannot be moved: the store refuses, and so does the outcome.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from duetime.clock import Clock, SystemClock
from duetime.errors import InvalidInput, StoreConflict, StoreRefused, StoreUnavailable
from duetime.event import Fact, FactType, fact, instant_json
from duetime.identity import new_event_id
from duetime.observer import Observers
from duetime.order import (
    Busy,
    Extended,
    ExtendOutcome,
    Order,
    Refused,
    State,
    checked_instant,
    checked_name,
    matched,
    why_not,
)
from duetime.patience import Patience
from duetime.store import OrderNote, OrderWrite, Store, Transaction


@dataclass(frozen=True, slots=True)
class Extension:
    """Give an order time until ``until`` (an aware instant); ``source`` says who asked.

    Raises:
        InvalidInput: the number cannot be stored, or ``until`` has no time zone.
    """

    order_no: str
    until: datetime
    source: str = "staff"
    event_id: str = field(default_factory=new_event_id, compare=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        checked_name(self.order_no, "an order number")
        checked_instant(self.until, f"the new deadline of order {self.order_no}")


class Extending:
    """Moves deadlines."""

    def __init__(
        self, store: Store, max_extension: timedelta, *, clock: Clock | None = None, observers: Observers | None = None
    ) -> None:
        """Allow up to ``max_extension`` for each order in all; zero switches extending off."""
        self._store = store
        self._max_extension = max_extension
        self._clock = clock or SystemClock()
        self._observers = observers or Observers()

    async def extend(self, extensions: Sequence[Extension]) -> list[ExtendOutcome]:
        """Extend orders, one transaction each, and answer each.

        Raises:
            InvalidInput: a new deadline lies in the past by the store's clock; nothing of that extension was written.
            StoreUnavailable: the store stayed away; whether the deadline was moved is unknown.
        """
        return [await self._extend(extension) for extension in extensions]

    async def _extend(self, extension: Extension) -> ExtendOutcome:
        patience = Patience(self._store, self._clock, self._observers, seconds=10.0)
        while True:
            try:
                return await self._write(extension)
            except StoreUnavailable as error:
                await patience.after(error)
            except StoreConflict as error:
                try:
                    await patience.after(error)
                except StoreConflict:
                    return Busy(extension.order_no)
            except StoreRefused as refused:
                return Refused(extension.order_no, str(refused))

    async def _write(self, extension: Extension) -> ExtendOutcome:
        async with self._store.transaction() as tx:
            now = await tx.now()
            number = extension.order_no
            order = matched([number], await tx.lock_orders([number], pending=False, wait=True)).get(number)
            if order is not None and order.state is State.CLOSED:
                order = matched([number], await tx.find_orders([number])).get(number)
            if order is not None and await tx.find_facts(event_ids=[extension.event_id]):
                return await self._recalled(tx, order)
            found = why_not(order, number)
            if found is not None or order is None:
                return found or Busy(number)
            note = (await tx.find_notes([order.order_no])).get(order.order_no, OrderNote(order.order_no))
            return self._refusal(extension, order, note, now) or await self._move(tx, extension, order, note)

    def _refusal(self, extension: Extension, order: Order, note: OrderNote, now: datetime) -> Refused | None:
        if extension.until <= now:
            msg = (
                f"order {order.order_no}: the new deadline {instant_json(extension.until)} has passed already "
                f"(it is {instant_json(now)} by the store's clock); give a later one"
            )
            raise InvalidInput(msg)
        if order.state is not State.PENDING:
            return Refused(order.order_no, "a payment provider is being asked about it at this moment")
        if order.expire_at is None:
            return Refused(order.order_no, "it has no deadline")
        if extension.until <= order.expire_at:
            return Refused(order.order_no, f"its deadline {instant_json(order.expire_at)} is not before the new one")
        if note.extended_by + (extension.until - order.expire_at) > self._max_extension:
            return Refused(
                order.order_no,
                f"extensions are limited to {self._max_extension} in all (closing.max_extension), "
                f"of which {note.extended_by} is used",
            )
        return None

    async def _move(
        self, tx: Transaction, extension: Extension, order: Order, note: OrderNote
    ) -> Extended:  # fmt: skip
        assert order.expire_at is not None
        by = extension.until - order.expire_at
        new = replace(note, extended=note.extended + 1, extended_by=note.extended_by + by)
        await tx.add_facts([_fact(extension, order, new)], await tx.now())
        await tx.write_if_pending([OrderWrite(order, State.PENDING, expire_at=extension.until)])
        await tx.put_notes([new])
        return Extended(order.order_no, extension.until, new.extended_by)

    async def _recalled(self, tx: Transaction, order: Order) -> Extended:
        note = (await tx.find_notes([order.order_no])).get(order.order_no, OrderNote(order.order_no))
        assert order.expire_at is not None
        return Extended(order.order_no, order.expire_at, note.extended_by)


def _fact(extension: Extension, order: Order, note: OrderNote) -> Fact:
    return fact(
        extension.event_id,
        order.order_no,
        FactType.ORDER_EXTENDED,
        source=extension.source,
        expire_at=instant_json(extension.until),
        previous=instant_json(order.expire_at),
        extended=note.extended,
        extended_seconds=note.extended_by.total_seconds(),
    )
