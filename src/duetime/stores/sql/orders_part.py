"""The operations on orders, on SQL."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any

from sqlalchemy import Row, column, insert, table

from duetime.errors import InvalidInput, StoreRefused
from duetime.order import Order, State
from duetime.store import CloseNote, DueQuery, NewOrder, OrderNote, OrderWrite
from duetime.stores.sql.column_kinds import named, typed
from duetime.stores.sql.description import optional_time
from duetime.stores.sql.dialect import bound
from duetime.stores.sql.session import Session, unique
from duetime.stores.sql.statements import CLOSE_ROLES, FOUND_ROLES, LOCKED_ROLES
from duetime.stores.sql.times import TimeForm

MINOR_DIGITS = {"JPY": 0, "KRW": 0, "VND": 0, "CLP": 0, "ISK": 0, "UGX": 0, "XAF": 0, "XOF": 0, "XPF": 0, "PYG": 0,
                "RWF": 0, "KMF": 0, "GNF": 0, "DJF": 0, "BIF": 0, "VUV": 0,
                "BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3}  # fmt: skip
"""Digits after the point where they are not two (ISO 4217, table A.1)."""


class OrdersPart(Session):
    """Reads, locks and writes orders."""

    async def lock_orders(
        self, order_nos: Sequence[str], *, due_by: datetime | None = None, pending: bool = True, wait: bool = False
    ) -> list[Order]:
        """Lock rows in the order of their primary keys and answer them as they are now."""
        values = self._numbers(order_nos)
        if not values:
            return []
        statement = self._statements.lock_orders(due=due_by is not None, pending=pending, wait=wait)
        parameters = bound(order_nos=values)
        if due_by is not None:
            parameters |= bound(due_by=self._deadline_form.latest(due_by))
        orders = self._orders(await self._rows(statement, parameters), LOCKED_ROLES)
        # Local times of a skipped hour are smaller than others that have passed already: what is read decides.
        return [order for order in orders if due_by is None or _has_passed(order, due_by)]

    async def find_orders(self, order_nos: Sequence[str]) -> list[Order]:
        """Read rows without locking them, with why and when they were closed, wherever that is kept."""
        values = self._numbers(order_nos)
        if not values:
            return []
        rows = await self._rows(self._statements.find_orders(), bound(order_nos=values))
        orders = self._orders(rows, FOUND_ROLES)
        if not self._statements.unnoted_roles:
            return orders
        notes = await self.find_notes([order.order_no for order in orders if order.state is State.CLOSED])
        return [_with_note(order, notes.get(order.order_no)) for order in orders]

    async def due_page(self, query: DueQuery) -> list[Order]:
        """Read one page of pending orders by (deadline, primary key), without locking."""
        form = self._deadline_form
        parameters = bound(due_by=form.bound(query.due_by), page_size=query.limit)
        if query.not_before is not None:
            parameters |= bound(not_before=form.since(query.not_before))
        if query.after is not None:
            stored = query.after.stored
            if stored is None and query.after.expire_at is not None:
                stored = form.page_key_of(query.after.expire_at)
            parameters |= bound(after_stored=stored, after_id=query.after.id)
        statement = self._statements.due_page(
            after=query.after is not None, not_before=query.not_before is not None
        )  # fmt: skip
        rows = await self._rows(statement, parameters)
        orders = self._orders([row[:-1] for row in rows], LOCKED_ROLES)
        return [replace(order, page_key=row[-1]) for order, row in zip(orders, rows, strict=True)]

    async def count_without_deadline(self, *, limit: int) -> int:
        """Count pending orders that have no deadline, up to ``limit``."""
        rows = await self._rows(self._statements.without_deadline(), bound(count_limit=limit))
        return min(limit, int(rows[0][0]))

    async def write_if_pending(self, writes: Sequence[OrderWrite]) -> None:
        """Write orders that were locked here; one statement for all that get the same values."""
        alike: dict[object, list[OrderWrite]] = {}
        for write in writes:
            key = write.order.id if write.expire_at is not None else (write.to, write.close, write.due_by)
            alike.setdefault(key, []).append(write)
        for group in alike.values():
            await self._write_alike(group)

    async def _write_alike(self, writes: Sequence[OrderWrite]) -> None:
        first = writes[0]
        parameters = bound(ids=[write.order.id for write in writes])
        if first.expire_at is not None:
            fixed = self._statements.orders.fixed_deadline
            if fixed is not None:
                raise StoreRefused(fixed)
            parameters |= bound(expire_at=self._deadline_form.written(first.expire_at))
            statement = self._statements.extend_if_pending()
        elif first.to is State.PAID:
            statement = self._statements.pay_if_pending()
        else:
            parameters |= self._close_parameters(first)
            statement = self._statements.close_if_pending(due=first.due_by is not None)
        await self._exactly(len(writes), statement, parameters)
        if first.close is not None:
            await self._note_close([write.order.order_no for write in writes], first.close)

    def _close_parameters(self, write: OrderWrite) -> dict[str, Any]:
        orders, values = self._statements.orders, {}
        if write.close is not None:
            closed_at = orders.time.get("closed_at")
            given = {
                "at": ("closed_at", closed_at.written(write.close.at) if closed_at and write.close.at else None),
                "reason": ("close_reason", write.close.reason),
                "source": ("close_source", write.close.source),
            }
            values = {name: value for name, (role, value) in given.items() if orders.column(role) is not None}
        if write.due_by is not None:
            values["due_by"] = self._deadline_form.latest(write.due_by)
        return bound(**values)

    async def _note_close(self, order_nos: Sequence[str], close: CloseNote) -> None:
        roles = self._statements.unnoted_roles
        if not roles:
            return
        values = {"closed_at": self._own(close.at), "close_reason": close.reason, "close_source": close.source}
        kept = {role: values[role] for role in roles}
        await self._insert(self._statements.put_close_notes(), [{"order_no": no, **kept} for no in order_nos])

    async def insert_orders(self, orders: Sequence[NewOrder]) -> None:
        """Insert pending orders, all with the same columns in one statement."""
        rows = [self._new_row(order) for order in orders]
        shop = self._statements.orders.table
        for names, group in groupby(sorted(rows, key=_names), key=_names):
            known = [shop.c[name] if name in shop.c else column(name) for name in names]
            target = shop if all(name in shop.c for name in names) else table(shop.name, *map(_bare, known))
            target.schema = shop.schema
            await self._run(insert(target), list(group))

    def _new_row(self, order: NewOrder) -> dict[str, Any]:
        shop = self._statements.orders
        # The primary key is the shop's to give: many a shop makes its own.
        described = sorted(set(order.columns) & shop.described - {shop.settings.id})
        if described:
            raise InvalidInput(
                f"order {order.order_no}: columns sets {', '.join(described)}, which [orders] describes; "
                "duetime writes those itself"
            )
        values = {
            "order_no": self._number(order.order_no),
            "status": shop.value_of(State.PENDING),
            "expire_at": self._deadline_form.written(order.expire_at),
            "category": order.category,
            "amount": self._stored_amount(order.amount_minor, order.currency),
            "currency": order.currency,
        }
        by_column = {}
        for role, value in values.items():
            place = shop.column(role)
            if place is not None and value is not None and place.name not in shop.generated:
                by_column[place.name] = value
        return {**by_column, **order.columns}

    async def find_notes(self, order_nos: Sequence[str]) -> dict[str, OrderNote]:
        """Read what duetime keeps about orders beside the shop's row."""
        if not order_nos:
            return {}
        rows = await self._rows(self._statements.find_notes(), bound(order_nos=unique(order_nos)))
        return {row.order_no: self._note(row) for row in rows}

    async def put_notes(self, notes: Sequence[OrderNote]) -> None:
        """Write extensions, policy and the close, replacing what stood there."""
        if not notes:
            return
        rows = [
            {
                "order_no": note.order_no,
                "extended": note.extended,
                "extended_ms": note.extended_by // timedelta(milliseconds=1),
                "policy": note.policy,
                "closed_at": self._own(note.close.at) if note.close else None,
                "close_reason": note.close.reason if note.close else None,
                "close_source": note.close.source if note.close else None,
            }
            for note in notes
        ]
        await self._insert(self._statements.put_notes(), rows)

    def _note(self, row: Row[Any]) -> OrderNote:
        at = self._own_time.read(row.closed_at)
        known = at or row.close_reason or row.close_source
        close = CloseNote(at, row.close_reason or "", row.close_source or "") if known else None
        by = timedelta(milliseconds=row.extended_ms)
        return OrderNote(row.order_no, row.extended, by, row.policy, close)

    @property
    def _deadline_form(self) -> TimeForm:
        return self._statements.orders.time["expire_at"]

    def _number(self, order_no: str) -> object:
        kind = self._statements.orders.needed("order_no").type
        value = typed(order_no, kind)
        if value is None:
            msg = f"order {order_no!r}: the shop's order numbers are {kind}; this can be none of them"
            raise InvalidInput(msg)
        return value

    def _numbers(self, order_nos: Sequence[str]) -> list[object]:
        kind = self._statements.orders.needed("order_no").type
        values = (typed(order_no, kind) for order_no in unique(order_nos))
        return [value for value in values if value is not None]

    def _orders(self, rows: Sequence[Sequence[Any]], roles: tuple[str, ...]) -> list[Order]:
        """Read rows whose columns are those of ``roles`` that the shop has, in this order."""
        shop = self._statements.orders
        places = self._statements.places(roles)
        none = -1
        closed_at, reason, source = (places.get(role, none) for role in CLOSE_ROLES)
        category, amount, currency = (places.get(role, none) for role in ("category", "amount", "currency"))
        left_out, paid_at = places.get("left_out", none), places.get("paid_at", none)
        states, deadline = shop.state_of, self._deadline_form
        closed, paid = shop.time.get("closed_at"), shop.time.get("paid_at")
        same = self._statements.dialect.same_status
        folded = {same(value): state for value, state in states.items()}
        one_currency, number = shop.settings.currency_constant, shop.needed("order_no").type

        def read(row: Sequence[Any]) -> Order:
            values: tuple[Any, ...] = (*row, None)
            return Order(
                id=values[0],
                order_no=named(values[1], number),
                state=states.get(values[2]) or folded.get(same(values[2])),
                status=str(values[2]),
                expire_at=deadline.read(values[3]),
                closed_at=optional_time(closed, values[closed_at]),
                close_reason=values[reason],
                close_source=values[source],
                paid_at=optional_time(paid, values[paid_at]),
                category=values[category],
                amount_minor=self._minor_amount(values[amount], values[currency] or one_currency),
                currency=values[currency] or one_currency,
                left_out=bool(values[left_out]),
            )

        return [read(row) for row in rows]

    def _minor_amount(self, value: Any, currency: str | None) -> int | None:  # noqa: ANN401 - int, Decimal or float
        if value is None or self._statements.orders.settings.amount_form == "minor":
            return None if value is None else int(value)
        return int((Decimal(str(value)) * 10 ** MINOR_DIGITS.get(currency or "", 2)).to_integral_value())

    def _stored_amount(self, minor: int | None, currency: str | None) -> int | Decimal | None:
        if minor is None or self._statements.orders.settings.amount_form == "minor":
            return minor
        return Decimal(minor).scaleb(-MINOR_DIGITS.get(currency or "", 2))


def _has_passed(order: Order, due_by: datetime) -> bool:
    return order.expire_at is not None and order.expire_at <= due_by


def _names(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(row)


def _bare(known: Any) -> Any:  # noqa: ANN401 - a column of a table, or a name alone
    return column(known.name, known.type)


def _with_note(order: Order, note: OrderNote | None) -> Order:
    if note is None or note.close is None:
        return order
    return replace(
        order,
        closed_at=order.closed_at or note.close.at,
        close_reason=order.close_reason or note.close.reason or None,
        close_source=order.close_source or note.close.source or None,
    )
