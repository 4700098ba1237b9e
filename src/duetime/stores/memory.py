"""The executable model of a store: dictionaries in this process, with the meaning that every real store must have.

What it is for: tests and simulations that need a store but no server, and the judge in ``duetime.testing``: the same
history of operations runs on the model and on a real store, and any difference is a bug in one of them.

How it works: a writing transaction has the store to itself, works on a copy, and the copy becomes the store at the end
of the block. A block that raises leaves the copy to the garbage collector; that is the whole of its rollback. Reading
transactions work on a copy too and never wait.

What somebody else holds is part of the model, though nobody else can be here: an order number in ``locked_orders`` or
an asset in ``locked_assets`` is a row that the shop's hand has locked. It is left out by ``wait=False``, and ends the
transaction with ``StoreConflict`` where it would be waited for (a model has no time to wait).

It is stricter than a database where a database cannot see the mistake: writing an order, or changing an asset, that
was not locked by the same transaction is a ``RuntimeError``.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime

from duetime.clock import Clock, SystemClock
from duetime.errors import StoreConflict, StoreRefused
from duetime.event import Fact
from duetime.hold import DONE, UNFINISHED, AssetKey, Effect, HeldHold, HoldState
from duetime.order import Order, State
from duetime.shop import Asset, States, sample_assets
from duetime.store import (
    AssetLock,
    AssetRow,
    DueQuery,
    Failure,
    FailureQuery,
    FullTransaction,
    Line,
    NewOrder,
    OrderNote,
    OrderWrite,
    Payment,
    Quarantine,
    Stage,
    StoreCapabilities,
    SweepRun,
)
from duetime.stores.memory_data import (
    Check,
    MemoryAsset,
    MemoryData,
    MemoryDelivery,
    MemoryFact,
    MemoryHold,
    never_below_zero,
)
from duetime.stores.memory_keeping import MemoryKeeping

__all__ = ["MemoryAsset", "MemoryData", "MemoryHold", "MemoryStore", "MemoryTransaction"]


class MemoryStore:
    """A store in this process: ``data`` is what is committed, ``assets`` says how each kind of hold is kept."""

    name = "memory"
    capabilities = StoreCapabilities(row_locks=False, own_clock=False, outlives_process=False)

    def __init__(
        self, assets: Sequence[Asset] | None = None, clock: Clock | None = None, states: States | None = None
    ) -> None:
        """Start empty, with the sample shop's assets, this machine's clock and the default states unless given."""
        described = sample_assets() if assets is None else assets
        self.assets: Mapping[str, Asset] = {asset.kind: asset for asset in described}
        self.clock: Clock = clock or SystemClock()
        self.states = states or States()
        self.data = MemoryData()
        self.locked_orders: set[str] = set()
        self.locked_assets: set[AssetKey] = set()
        self.checks: dict[AssetKey, Check] = {}
        self._writer = asyncio.Lock()

    async def check(self) -> None:
        """Find nothing wrong: the description is the database."""

    @asynccontextmanager
    async def transaction(self, *, write: bool = True) -> AsyncIterator[FullTransaction]:
        """Open a transaction; what a reading one writes is forgotten."""
        if not write:
            yield MemoryTransaction(self, self.data.fork())
            return
        async with self._writer:
            work = MemoryTransaction(self, self.data.fork())
            yield work
            self.data = work.data

    @asynccontextmanager
    async def by_hand(self) -> AsyncIterator[MemoryData]:
        """Give the data to somebody beside duetime (the shop itself) while no transaction is open."""
        async with self._writer:
            yield self.data

    async def aclose(self) -> None:
        """Keep everything: there are no connections."""

    def state_of(self, status: str) -> State | None:
        """Answer the state that a status of the shop means; None where it is not described."""
        named = {str(value): State.PENDING for value in self.states.pending}
        named |= {str(self.states.paid): State.PAID, str(self.states.closed): State.CLOSED}
        named |= {str(value): State.SHIPPED for value in self.states.after_paid}
        if self.states.closing is not None:
            named[str(self.states.closing)] = State.CLOSING
        return named.get(status)

    def status_of(self, state: State) -> str:
        """Answer the status by which the shop stores a state."""
        if state is State.PENDING:
            return str(self.states.pending[0])
        return str({State.PAID: self.states.paid, State.CLOSED: self.states.closed}.get(state, self.states.closing))


class MemoryTransaction(MemoryKeeping):
    """One transaction on a copy of the data."""

    def __init__(self, store: MemoryStore, data: MemoryData) -> None:
        """Work on ``data``, which nobody else sees."""
        self.data = data
        self._store = store
        self._opened_at = store.clock.now()
        self._orders_locked: set[str] = set()
        self._assets_locked: set[AssetKey] = set()

    async def now(self) -> datetime:
        """Answer the clock's time as it was when the transaction opened."""
        return self._opened_at

    # Orders

    async def lock_orders(
        self, order_nos: Sequence[str], *, due_by: datetime | None = None, pending: bool = True, wait: bool = False
    ) -> list[Order]:
        """Lock rows in the order of their primary keys."""
        wanted = [
            order
            for order in await self.find_orders(order_nos)
            if (not pending or order.state is State.PENDING) and (due_by is None or _due(order, due_by))
        ]
        free = [order for order in wanted if order.order_no not in self._store.locked_orders]
        if wait and len(free) < len(wanted):
            raise StoreConflict(f"waited too long for {wanted[0].order_no}: somebody else holds an order's row")
        self._orders_locked.update(order.order_no for order in free)
        return free

    async def find_orders(self, order_nos: Sequence[str]) -> list[Order]:
        """Read rows, with what the notes know about their close where the row says nothing."""
        found = [self.data.orders[number] for number in set(order_nos) if number in self.data.orders]
        return sorted((self._with_note(order) for order in found), key=_id)

    def _with_note(self, order: Order) -> Order:
        note = self.data.notes.get(order.order_no)
        if order.state is not State.CLOSED or order.close_reason is not None or note is None or note.close is None:
            return order
        return replace(order, closed_at=note.close.at, close_reason=note.close.reason, close_source=note.close.source)

    async def count_without_deadline(self, *, limit: int) -> int:
        """Count pending orders that have no deadline, up to ``limit``."""
        orders = self.data.orders.values()
        return min(limit, sum(order.state is State.PENDING and order.expire_at is None for order in orders))

    async def due_page(self, query: DueQuery) -> list[Order]:
        """Read one page of pending orders by (deadline, primary key)."""
        due = [
            (order.expire_at, order.id, order)
            for order in self.data.orders.values()
            if order.state is State.PENDING
            and order.expire_at is not None
            and order.expire_at <= query.due_by
            and (query.not_before is None or order.expire_at >= query.not_before)
            and (query.after is None or (order.expire_at, order.id) > (query.after.expire_at, query.after.id))
        ]
        return [order for _, _, order in sorted(due)[: query.limit]]

    async def write_if_pending(self, writes: Sequence[OrderWrite]) -> None:
        """Write orders that were locked here and are still pending."""
        for write in writes:
            number = write.order.order_no
            if number not in self._orders_locked:
                raise RuntimeError(f"order {number} was not locked by this transaction")
            order = self.data.orders.get(number)
            may = {State.PENDING, State.CLOSING} if write.to is State.PAID else {State.PENDING}
            if order is None or order.state not in may or (write.due_by and not _due(order, write.due_by)):
                raise StoreConflict(f"order {number} is no longer pending, or no longer due")
            self.data.orders[number] = self._written(order, write)

    def _written(self, order: Order, write: OrderWrite) -> Order:
        status = order.status if write.to is State.PENDING else self._store.status_of(write.to)
        written = replace(order, state=write.to, status=status, expire_at=write.expire_at or order.expire_at)
        if write.close is None:
            return written
        close = write.close
        return replace(written, closed_at=close.at, close_reason=close.reason, close_source=close.source)

    async def insert_orders(self, orders: Sequence[NewOrder]) -> None:
        """Insert pending orders; they are locked here until the transaction ends."""
        for new in orders:
            if new.order_no in self.data.orders:
                raise StoreRefused(f"an order {new.order_no} exists already")
            self.data.last_id += 1
            status = self._store.status_of(State.PENDING)
            self.data.orders[new.order_no] = Order(
                id=self.data.last_id,
                order_no=new.order_no,
                state=State.PENDING,
                status=status,
                expire_at=new.expire_at,
                category=new.category,
                amount_minor=new.amount_minor,
                currency=new.currency,
            )
            self.data.columns[new.order_no] = dict(new.columns)
            self._orders_locked.add(new.order_no)

    async def find_notes(self, order_nos: Sequence[str]) -> dict[str, OrderNote]:
        """Read notes."""
        return {number: self.data.notes[number] for number in order_nos if number in self.data.notes}

    async def put_notes(self, notes: Sequence[OrderNote]) -> None:
        """Write notes, replacing what stood there."""
        self.data.notes.update({note.order_no: note for note in notes})

    # Holds and assets

    async def read_holds(self, order_nos: Sequence[str], states: Iterable[HoldState]) -> list[HeldHold]:
        """Read holds of orders, in the order of their keys."""
        numbers, wanted = set(order_nos), set(states)
        rows = (row.held for _, row in sorted(self.data.holds.items(), key=_key))
        return [held for held in rows if held.order_no in numbers and held.state in wanted]

    async def lock_holds(self, key: AssetKey, state: HoldState, *, limit: int, skip: Sequence[str]) -> list[HeldHold]:
        """Read holds on one asset, in the order of their keys."""
        rows = (row.held for _, row in sorted(self.data.holds.items(), key=_key))
        found = [
            held
            for held in rows
            if _asset(held) == key and held.state is state and held.order_no not in frozenset(skip)
        ]
        return found[:limit]

    async def insert_holds(self, holds: Sequence[HeldHold]) -> None:
        """Record what orders have taken."""
        for held in holds:
            key = (held.order_no, *_asset(held))
            if key in self.data.holds:
                raise StoreRefused(f"order {held.order_no} has a hold on {held.hold.kind} {held.hold.ref} already")
            ended = self._opened_at if held.state in DONE.values() else None
            self.data.holds[key] = MemoryHold(held, self._opened_at, ended)

    async def read_lines(self, kind: str, orders: Sequence[Order]) -> list[Line]:
        """Read the lines of one kind."""
        numbers = {order.order_no for order in orders}
        return [line for line in self.data.lines.get(kind, ()) if line.order_no in numbers]

    async def move_holds(self, holds: Sequence[HeldHold], to: HoldState, at: datetime) -> None:
        """Move exactly these holds from the state they were read in."""
        for held in holds:
            key = (held.order_no, *_asset(held))
            row = self.data.holds.get(key)
            if row is None or row.held != held:
                raise StoreConflict(f"the hold of {held.order_no} on {held.hold.ref} is no longer {held.state}")
            released_at = at if to in DONE.values() else row.released_at
            self.data.holds[key] = replace(row, held=replace(held, state=to), released_at=released_at)

    async def lock_assets(self, kind: str, refs: Sequence[str], *, wait: bool = False) -> AssetLock:
        """Lock asset rows."""
        self._described(kind)
        here = sorted({ref for ref in refs if (kind, ref) in self.data.assets})
        free = [ref for ref in here if (kind, ref) not in self._store.locked_assets]
        if wait and len(free) < len(here):
            raise StoreConflict(f"waited too long for a row of {kind}: somebody else holds it")
        self._assets_locked.update((kind, ref) for ref in free)
        return AssetLock({ref: self._asset_row(kind, ref) for ref in free}, frozenset(refs) - frozenset(here))

    def _described(self, kind: str) -> Asset:
        asset = self._store.assets.get(kind)
        if asset is None or asset.storage == "remote":
            raise StoreRefused(f"{kind} has no table here")
        return asset

    def _asset_row(self, kind: str, ref: str) -> AssetRow:
        row = self.data.assets[kind, ref]
        if self._described(kind).storage == "counter":
            return AssetRow(available=row.available, held=None if self._described(kind).held is None else row.held)
        return AssetRow(state=row.state, expired=self._expired(row))

    def _expired(self, row: MemoryAsset) -> bool:
        return row.valid_until is not None and row.valid_until <= self._opened_at

    async def change_assets(self, kind: str, units: Mapping[str, int], effect: Effect) -> None:
        """Take, give back or use up units on rows that were locked here."""
        asset = self._described(kind)
        for ref, quantity in units.items():
            if (kind, ref) not in self._assets_locked:
                raise RuntimeError(f"{kind} {ref} was not locked by this transaction")
            row = self.data.assets[kind, ref]
            if asset.storage == "counter":
                changed = _counted(asset, row, effect, quantity)
            else:
                changed = self._turned(asset, row, effect)
            if not self._store.checks.get((kind, ref), never_below_zero)(changed):
                raise StoreRefused(f"a constraint on {kind} {ref} forbids it")
            self.data.assets[kind, ref] = changed

    def _turned(self, asset: Asset, row: MemoryAsset, effect: Effect) -> MemoryAsset:
        before = asset.free_value if effect is Effect.TAKE else asset.held_value
        if row.state != str(before):
            raise StoreConflict(f"a row of {asset.kind} is {row.state}, not {before}")
        expired = asset.valid_until is not None and self._expired(row)
        turned = {
            Effect.TAKE: asset.held_value,
            Effect.RELEASE: asset.expired_value if expired else asset.free_value,
            Effect.CONSUME: asset.held_value if asset.used_value is None else asset.used_value,
        }[effect]
        return replace(row, state=str(turned))

    # Facts and payments

    async def add_facts(self, facts: Sequence[Fact], at: datetime) -> None:
        """Write facts, in this order, and what is owed of them to every registered consumer."""
        for fact in facts:
            if fact.event_id in self.data.facts:
                raise StoreRefused(f"a fact {fact.event_id} exists already")
            self.data.last_seq += 1
            self.data.facts[fact.event_id] = MemoryFact(self.data.last_seq, fact, at)
            self.data.deliveries += [
                MemoryDelivery(name, self.data.last_seq)
                for name, types in self.data.consumers.items()
                if fact.type in types
            ]

    async def find_facts(self, *, event_ids: Sequence[str] = (), order_no: str | None = None) -> list[Fact]:
        """Read facts by identifier, or all facts of one order, oldest first."""
        wanted = set(event_ids)
        rows = self.data.facts.values()
        return [row.fact for row in rows if row.fact.event_id in wanted or row.fact.order_no == order_no]

    async def record_payments(self, payments: Sequence[Payment]) -> dict[str, Payment]:
        """Write notices whose payment id is new; answer those that were there before."""
        before = {
            p.payment_id: self.data.payments[p.payment_id] for p in payments if p.payment_id in self.data.payments
        }
        for payment in payments:
            self.data.payments.setdefault(payment.payment_id, payment)
        return before

    # duetime's own books

    async def put_failures(self, failures: Sequence[Failure]) -> None:
        """Write failures, replacing those of the same order and stage."""
        self.data.failures.update({(failure.order_no, failure.stage): failure for failure in failures})

    async def find_failures(self, query: FailureQuery) -> list[Failure]:
        """Read failures, those to be tried next first."""
        found = [
            failure
            for failure in self.data.failures.values()
            if failure.state in query.states
            and (query.order_nos is None or failure.order_no in query.order_nos)
            and query.stage in {None, failure.stage}
            and (query.try_by is None or failure.next_try_at <= query.try_by)
        ]
        return sorted(found, key=lambda f: (f.next_try_at, f.order_no, f.stage))[: query.limit]

    async def unfinished_assets(self, *, limit: int, now: datetime) -> list[tuple[AssetKey, HoldState]]:
        """Read assets that some hold still waits for."""
        waiting = {
            (_asset(row.held), row.held.state)
            for row in self.data.holds.values()
            if row.held.state in UNFINISHED
            and row.held.hold.kind in self._local_kinds()
            and not self._backing_off(row.held.order_no, now)
        }
        return sorted(waiting)[:limit]

    def _local_kinds(self) -> set[str]:
        return {kind for kind, asset in self._store.assets.items() if asset.storage != "remote"}

    def _backing_off(self, order_no: str, now: datetime) -> bool:
        failure = self.data.failures.get((order_no, Stage.RELEASE))
        if failure is None or failure.state is Quarantine.RESOLVED:
            return False
        return failure.state is Quarantine.QUARANTINED or failure.next_try_at > now

    async def put_sweep_run(self, run: SweepRun) -> SweepRun:
        """Write a sweep run."""
        if run.pending_seen is None:
            seen = any(order.state is State.PENDING for order in self.data.orders.values())
            run = replace(run, pending_seen=seen)
        self.data.sweep_runs.append(run)
        return run

    async def find_payments(self, order_no: str) -> list[Payment]:
        """Read all payments that named this order, oldest first."""
        found = [payment for payment in self.data.payments.values() if payment.order_no == order_no]
        return sorted(found, key=lambda payment: payment.received_at)


def _due(order: Order, due_by: datetime) -> bool:
    return order.expire_at is not None and order.expire_at <= due_by


def _id(order: Order) -> tuple[int, str]:
    return (order.id, "") if isinstance(order.id, int) else (0, order.id)


def _key(item: tuple[tuple[str, str, str], MemoryHold]) -> tuple[str, str, str]:
    return item[0]


def _asset(held: HeldHold) -> AssetKey:
    return held.hold.kind, held.hold.ref


def _counted(asset: Asset, row: MemoryAsset, effect: Effect, quantity: int) -> MemoryAsset:
    available = {Effect.TAKE: -quantity, Effect.RELEASE: quantity, Effect.CONSUME: 0}[effect]
    held = 0 if asset.held is None else quantity if effect is Effect.TAKE else -quantity
    return replace(row, available=row.available + available, held=row.held + held)
