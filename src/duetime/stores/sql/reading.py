"""The tables as anybody reads them: what ``duetime verify`` compares. Nothing is locked, nothing is written.

Every page is read in a transaction of its own that sees one instant, read-only; holds and assets together in one. Pages
go by keys and never by OFFSET, so the last costs what the first did. No statement joins a shop's column to one of ours:
numbers travel as lists.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from sqlalchemy import BigInteger, Column, ColumnElement, Row, Select, String, and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from duetime.order import OrderId, State
from duetime.stores.sql.column_kinds import named, typed
from duetime.stores.sql.description import AssetTable, optional_time
from duetime.stores.sql.dialect import bind, bound
from duetime.stores.sql.statements import CLOSE_ROLES, Statements
from duetime.stores.sql.store import SqlStore
from duetime.verifying.rows import (
    AssetRow,
    DeliveryPage,
    Dossier,
    DossierPage,
    FactPage,
    FactRow,
    FailureRow,
    HoldKey,
    HoldRow,
    OrderRow,
    PaymentRow,
)

LONGEST_SNAPSHOT_SECONDS = 3600.0
"""How long holds and assets may take in all; a snapshot that stays open keeps old row versions."""

ROLES = ("id", "order_no", "status", "expire_at", *CLOSE_ROLES)


class SqlBooks:
    """Fulfils ``duetime.verifying.rows.Books``."""

    def __init__(self, store: SqlStore) -> None:
        """Read through the connections of ``store``."""
        self._store = store

    @asynccontextmanager
    async def _reader(self, seconds: float | None = None) -> AsyncIterator["_Reader"]:
        async with self._store.snapshot(seconds=seconds) as (connection, statements, now):
            yield _Reader(connection, statements, now)

    async def now(self) -> datetime:
        """Answer the store's clock."""
        async with self._reader() as reader:
            return reader.now

    async def orders_page(self, after: OrderId | None, limit: int) -> DossierPage:
        """Read the next orders by primary key."""
        async with self._reader() as reader:
            key = reader.statements.orders.needed("id")
            query = select(*reader.order_columns).order_by(key).limit(bind("page", BigInteger()))
            values = bound(page=limit)
            if after is not None:
                query, values = query.where(key > bind("after", key.type)), values | bound(after=after)
            orders = [reader.order(row) for row in await reader.rows(query, values)]
            dossiers = await reader.dossiers({order.order_no: order for order in orders})
            return DossierPage(reader.now, dossiers, orders[-1].id if len(orders) == limit else None)

    async def dossiers(self, order_nos: Sequence[str]) -> DossierPage:
        """Read all that is written about these numbers."""
        async with self._reader() as reader:
            found = await reader.orders(order_nos)
            return DossierPage(reader.now, await reader.dossiers({no: found.get(no) for no in order_nos}))

    async def first_fact_since(self, at: datetime) -> int | None:
        """Halve the range of places: they grow with time, and have no index by time."""
        async with self._reader() as reader:
            outbox = reader.statements.own.outbox.c
            low, high = (await reader.rows(select(func.min(outbox.seq), func.max(outbox.seq))))[0]
            if low is None:
                return None
            query = select(outbox.seq, outbox.created_at).where(outbox.seq >= bind("seq", BigInteger()))
            query = query.order_by(outbox.seq).limit(1)
            while low <= high:
                middle = (low + high) // 2
                found = await reader.rows(query, bound(seq=middle))
                if found and _utc(found[0][1]) < at:
                    low = found[0][0] + 1
                else:
                    high = middle - 1
            return int(low)

    async def facts_page(self, start: int, limit: int) -> FactPage:
        """Read the next facts' orders."""
        async with self._reader() as reader:
            outbox = reader.statements.own.outbox.c
            query = select(outbox.seq, outbox.order_no).where(outbox.seq >= bind("seq", BigInteger()))
            rows = await reader.rows(
                query.order_by(outbox.seq).limit(bind("page", BigInteger())), bound(seq=start, page=limit)
            )
            last = rows[-1][0] if len(rows) == limit else None
            return FactPage(list(dict.fromkeys(row[1] for row in rows)), last)

    async def waiting_failures(self, limit: int) -> Sequence[str]:
        """Read the order numbers of failures that are not resolved."""
        async with self._reader() as reader:
            failure = reader.statements.own.quarantine.c
            query = select(failure.order_no).distinct().where(failure.state != "resolved").order_by(failure.order_no)
            return [row[0] for row in await reader.rows(query.limit(limit))]

    async def deliveries_page(self, after: tuple[str, int] | None, limit: int) -> DeliveryPage:
        """Look at the next deliveries."""
        async with self._reader() as reader:
            delivery, outbox = reader.statements.own.delivery.c, reader.statements.own.outbox.c
            query = select(delivery.consumer, delivery.seq).order_by(delivery.consumer, delivery.seq)
            values = bound(page=limit)
            if after is not None:
                key = (delivery.consumer, delivery.seq)
                query, values = query.where(_beyond(key, ("consumer", "seq"))), values | bound(**_named(after))
            rows = [(row[0], row[1]) for row in await reader.rows(query.limit(bind("page", BigInteger())), values)]
            there = {row[0] for row in await reader.among(select(outbox.seq), outbox.seq, [seq for _, seq in rows])}
            return DeliveryPage(
                len(rows), [one for one in rows if one[1] not in there], rows[-1] if len(rows) == limit else None
            )

    @asynccontextmanager
    async def asset_snapshot(self) -> AsyncIterator["_Reader"]:
        """Open one snapshot for holds and assets together."""
        async with self._reader(LONGEST_SNAPSHOT_SECONDS) as reader:
            yield reader

    async def last_sweep(self) -> datetime | None:
        """Answer when a sweep last came to its end."""
        async with self._reader() as reader:
            run = reader.statements.own.sweep_run.c
            query = select(run.finished_at).where(run.finished_at.is_not(None)).order_by(run.started_at.desc()).limit(1)
            rows = await reader.rows(query)
            return _utc(rows[0][0]) if rows else None


class _Reader:
    """One snapshot."""

    def __init__(self, connection: AsyncConnection, statements: Statements, now: datetime) -> None:
        self._connection = connection
        self.statements = statements
        self.now = now

    async def rows(self, query: Select[Any], values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        found: Sequence[Any] = (await self._connection.execute(query, values)).all()
        return found

    async def among(self, query: Select[Any], column: Column[Any], values: Sequence[object]) -> Sequence[Any]:
        """Run a query for those rows whose column has one of the values."""
        if not values:
            return []
        condition = self.statements.dialect.among(column, "values")
        return await self.rows(query.where(condition), bound(values=list(values)))

    # Orders

    @property
    def order_columns(self) -> list[ColumnElement[Any]]:
        return self.statements.order_columns(ROLES)

    @cached_property
    def order(self) -> Callable[[Sequence[Any]], OrderRow]:
        """How to read a row of ``order_columns``; made once, because there are millions of them."""
        shop, none = self.statements.orders, -1
        places = self.statements.places(ROLES)
        closed_at, reason, source = (places.get(role, none) for role in CLOSE_ROLES)
        deadline, closed = shop.time["expire_at"], shop.time.get("closed_at")
        states, same = shop.state_of, self.statements.dialect.same_status
        number = shop.needed("order_no").type
        folded = {same(value): state for value, state in states.items()}

        def read(row: Sequence[Any]) -> OrderRow:
            values: tuple[Any, ...] = (*row, None)
            status = values[2]
            return OrderRow(
                id=values[0],
                order_no=named(values[1], number),
                state=states.get(status) or folded.get(same(status)),
                status=str(status),
                expire_at=deadline.read(values[3]),
                closed_at=optional_time(closed, values[closed_at]),
                reason=values[reason],
                source=values[source],
            )

        return read

    async def orders(self, order_nos: Sequence[str]) -> dict[str, OrderRow]:
        rows = await self._by_number(select(*self.order_columns), order_nos)
        return {order.order_no: order for order in map(self.order, rows)}

    async def missing_orders(self, order_nos: Sequence[str]) -> set[str]:
        column = self.statements.orders.needed("order_no")
        rows = await self._by_number(select(column), order_nos)
        return set(order_nos) - {named(row[0], column.type) for row in rows}

    async def _by_number(self, query: Select[Any], order_nos: Sequence[str]) -> Sequence[Any]:
        column = self.statements.orders.needed("order_no")
        values = [value for value in (typed(no, column.type) for no in order_nos) if value is not None]
        return await self.among(query, column, values)

    async def dossiers(self, orders: Mapping[str, OrderRow | None]) -> list[Dossier]:
        numbers, own = list(orders), self.statements.own
        holds = _grouped([_hold(row) for row in await self.among(_holds(own), own.hold.c.order_no, numbers)])
        facts = _grouped([self._fact(row) for row in await self._about(own.outbox, numbers)])
        payments = _grouped([_payment(row) for row in await self._about(own.payment, numbers)])
        failures = _grouped([_failure(row) for row in await self._about(own.quarantine, numbers)])
        noted = await self._noted(orders)
        return [
            Dossier(
                no,
                noted.get(no, order),
                holds.get(no, ()),
                sorted(facts.get(no, ()), key=lambda fact: fact.seq),
                payments.get(no, ()),
                failures.get(no, ()),
            )
            for no, order in orders.items()
        ]

    async def _about(self, table: Any, order_nos: Sequence[str]) -> Sequence[Any]:  # noqa: ANN401 - an own table
        return await self.among(select(table), table.c.order_no, order_nos)

    async def _noted(self, orders: Mapping[str, OrderRow | None]) -> dict[str, OrderRow]:
        """Fill in what the shop has no column for."""
        closed = {no: one for no, one in orders.items() if one is not None and one.state is State.CLOSED}
        if not self.statements.unnoted_roles or not closed:
            return {}
        filled = {}
        for note in await self._about(self.statements.own.order, list(closed)):
            one = closed[note.order_no]
            at = one.closed_at or (_utc(note.closed_at) if note.closed_at else None)
            reason, source = one.reason or note.close_reason, one.source or note.close_source
            filled[note.order_no] = OrderRow(
                one.id, one.order_no, one.state, one.status, one.expire_at, at, reason, source
            )  # fmt: skip
        return filled

    @staticmethod
    def _fact(row: Row[Any]) -> FactRow:
        payload = json.loads(row.payload) if isinstance(row.payload, str) else row.payload
        payload = payload if isinstance(payload, dict) else {}
        return FactRow(row.seq, row.order_no, row.type, payload, _utc(row.created_at))

    # Holds and assets

    async def holds(self, page_size: int) -> AsyncIterator[Sequence[HoldRow]]:
        hold = self.statements.own.hold.c
        query = _holds(self.statements.own).order_by(hold.order_no, hold.kind, hold.ref)
        query = query.limit(bind("page", BigInteger()))
        further = query.where(_beyond((hold.order_no, hold.kind, hold.ref), ("order_no", "kind", "ref")))
        last: HoldKey | None = None
        while True:
            values = bound(page=page_size)
            if last is not None:
                values |= bound(order_no=last[0], kind=last[1], ref=last[2])
            page = [_hold(row) for row in await self.rows(query if last is None else further, values)]
            yield page
            if len(page) < page_size:
                return
            last = page[-1].key

    async def spelled(self, kind: str, refs: Sequence[str]) -> Mapping[str, str]:
        keys = asset_keys(self.statements.asset(kind))
        if len(keys) > 1 or not isinstance(keys[0].type, String):
            return {}
        exact = {str(row[0]) for row in await self.among(select(keys[0]), keys[0], refs)}
        others = [ref for ref in refs if ref not in exact]
        # Asked for alone, these find rows only where the database takes the two spellings for the same.
        rows = {str(row[0]) for row in await self.among(select(keys[0]), keys[0], others)}
        folded = {_folded(ref): ref for ref in rows}
        return {ref: folded[_folded(ref)] for ref in others if _folded(ref) in folded}

    async def assets(self, kind: str, page_size: int) -> AsyncIterator[Sequence[AssetRow]]:
        asset = self.statements.asset(kind)
        keys = asset_keys(asset)
        names = tuple(f"key_{n}" for n in range(len(keys)))
        labelled = [key.label(name) for name, key in zip(names, keys, strict=True)]
        roles = [role for role in ("available", "held", "state") if asset.column(role) is not None]
        columns = [column.label(role) for role in roles if (column := asset.column(role)) is not None]
        query = select(*labelled, *columns).order_by(*keys).limit(bind("page", BigInteger()))
        last: Sequence[Any] | None = None
        while True:
            values = bound(page=page_size)
            page_query = query
            if last is not None:
                page_query = query.where(_beyond(keys, names))
                values |= bound(**dict(zip(names, last, strict=True)))
            page = await self.rows(page_query, values)
            yield [_asset(row, len(keys), roles) for row in page]
            if len(page) < page_size:
                return
            last = page[-1][: len(keys)]


def asset_keys(asset: AssetTable) -> tuple[Column[Any], ...]:
    """Answer the columns that a hold's reference names."""
    return tuple(asset.table.c[name] for name in asset.settings.key or ())


def _asset(row: Row[Any], keys: int, roles: Sequence[str]) -> AssetRow:
    ref = str(row[0]) if keys == 1 else json.dumps(list(row[:keys]), separators=(",", ":"), default=str)
    values = dict(zip(roles, row[keys:], strict=True))
    state = values.get("state")
    return AssetRow(ref, _number(values.get("available")), _number(values.get("held")), _text(state))


def _folded(ref: str) -> str:
    return ref.casefold().rstrip()


def _number(value: object) -> int | None:
    return None if value is None else int(str(value))


def _text(value: object) -> str | None:
    return None if value is None else str(value).rstrip()


def _holds(own: Any) -> Select[Any]:  # noqa: ANN401 - the own tables
    hold = own.hold.c
    return select(hold.order_no, hold.kind, hold.ref, hold.quantity, hold.state, hold.held_at)


def _hold(row: Sequence[Any]) -> HoldRow:
    order_no, kind, ref, quantity, state, held_at = tuple(row)
    return HoldRow(order_no, kind, ref, quantity, state, None if held_at is None else _utc(held_at))


def _payment(row: Row[Any]) -> PaymentRow:
    return PaymentRow(row.payment_id, row.order_no, row.resolution)


def _failure(row: Row[Any]) -> FailureRow:
    return FailureRow(row.order_no, row.stage, row.state, _utc(row.last_failed_at))


def _grouped(rows: Sequence[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for row in rows:
        groups.setdefault(row.order_no, []).append(row)
    return groups


def _beyond(columns: Sequence[ColumnElement[Any]], names: Sequence[str]) -> ColumnElement[bool]:
    """Say that a row stands after a place; the first column alone bounds the index, on every database."""
    bounds = [bind(name, column.type) for name, column in zip(names, columns, strict=True)]
    beyond = columns[-1] > bounds[-1]
    for column, start in list(zip(columns, bounds, strict=True))[-2::-1]:
        beyond = or_(column > start, and_(column == start, beyond))
    return and_(columns[0] >= bounds[0], beyond)


def _named(key: tuple[str, int]) -> dict[str, Any]:
    return {"consumer": key[0], "seq": key[1]}


def _utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
