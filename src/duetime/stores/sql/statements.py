"""Every statement that duetime runs on a shop's database, built once from its tables and dialect.

The guards are here: each write repeats what its caller believes about the row (pending, due, in this state). They are
methods so that ``duetime sql`` can print exactly what is executed.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    CompoundSelect,
    Delete,
    Insert,
    Select,
    Table,
    Update,
    and_,
    case,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    type_coerce,
    union_all,
    update,
)

from duetime.hold import Effect
from duetime.order import State
from duetime.shop import StateValue
from duetime.store import Quarantine, Stage
from duetime.stores.sql.building import built
from duetime.stores.sql.description import AssetTable, ShopTables
from duetime.stores.sql.dialect import SqlDialect, bind, unindexed
from duetime.stores.sql.keeping import KeepingStatements
from duetime.stores.sql.observed import ObservedStatements
from duetime.stores.sql.schema import OwnTables

Statement = Select[Any] | CompoundSelect[Any] | Insert | Update | Delete

LOCKED_ROLES = ("id", "order_no", "status", "expire_at", "amount", "currency", "category", "left_out")
"""``left_out`` is no column but a question: does the shop's own condition keep the order from us?"""

ASSET_ROLES = ("available", "held", "state", "valid_until")
CLOSE_ROLES = ("closed_at", "close_reason", "close_source")
FOUND_ROLES = (*LOCKED_ROLES, *CLOSE_ROLES, "paid_at")


def constant(column: Column[Any], value: object) -> ColumnElement[Any]:
    """Write a value of the configuration into the statement itself.

    A partial index is used only where the statement carries its condition as a constant.
    """
    return literal(value, type_=column.type, literal_execute=True)


def new_value(column: Column[Any], value: object) -> ColumnElement[Any]:
    """Write such a value as what a column is set to.

    SQLAlchemy names a bare one after its column, and then does not find it again by a name such as ``Status %``.
    """
    return type_coerce(constant(column, value), column.type)


def _labelled(keys: Sequence[Column[Any]]) -> list[ColumnElement[Any]]:
    return [column.label("ref" if len(keys) == 1 else f"ref_{n}") for n, column in enumerate(keys)]


class Statements(KeepingStatements, ObservedStatements):
    """The statements of one shop on one database."""

    def __init__(self, dialect: SqlDialect, own: OwnTables, shop: ShopTables) -> None:
        """Keep what they are made of; each is built when it is first asked for."""
        self.dialect = dialect
        self.own = own
        self.shop = shop
        self.orders = shop.orders
        self.memo: dict[object, Any] = {}

    # Orders

    @property
    def unnoted_roles(self) -> tuple[str, ...]:
        """The parts of a close for which the shop has no column; duetime keeps them in ``duetime_order``."""
        return tuple(role for role in CLOSE_ROLES if self.orders.column(role) is None)

    def order_columns(self, roles: tuple[str, ...]) -> list[ColumnElement[Any]]:
        """The columns of these roles, where the shop has them, labelled by role."""
        found = ((role, self._selected(role)) for role in roles)
        return [column.label(role) for role, column in found if column is not None]

    def _selected(self, role: str) -> ColumnElement[Any] | None:
        if role != "left_out":
            return self.orders.column(role)
        return None if self.orders.only is None else case((self.orders.only, 0), else_=1)

    def places(self, roles: tuple[str, ...]) -> dict[str, int]:
        """Answer where in a row of ``order_columns(roles)`` each role stands."""
        present = [role for role in roles if self._selected(role) is not None]
        return {role: at for at, role in enumerate(present)}

    def _pending(self, values: Sequence[StateValue] | None = None) -> ColumnElement[bool]:
        """Say that an order is pending (in one of ``values``) and ours to close, as the index of deadlines says it."""
        status = self.orders.needed("status")
        found = [constant(status, value) for value in values or self.orders.settings.states.pending]
        pending = status == found[0] if len(found) == 1 else status.in_(found)
        return pending if self.orders.only is None else and_(pending, self.orders.only)

    def _still_pending(self, *, or_closing: bool = False) -> ColumnElement[bool]:
        status, states = self.orders.needed("status"), self.orders.settings.states
        closing = (states.closing,) if or_closing and states.closing is not None else ()
        return unindexed(status).in_([constant(status, value) for value in (*states.pending, *closing)])

    @built
    def lock_orders(self, *, due: bool, pending: bool, wait: bool) -> Select[Any]:
        """Lock orders by number: ``order_nos``, ``due_by``."""
        conditions = [self.dialect.among(self.orders.needed("order_no"), "order_nos")]
        if pending:
            conditions.append(self._still_pending())
        if due:
            conditions.append(self._due(indexed=False))
            conditions += self._only()
        query = select(*self.order_columns(LOCKED_ROLES)).where(*conditions).order_by(self.orders.needed("id"))
        return self.dialect.locked(query, wait=wait)

    def _only(self) -> list[ColumnElement[bool]]:
        return [] if self.orders.only is None else [self.orders.only]

    @built
    def find_orders(self) -> Select[Any]:
        """Read orders by number: ``order_nos``."""
        query = select(*self.order_columns(FOUND_ROLES))
        return query.where(self.dialect.among(self.orders.needed("order_no"), "order_nos"))

    @built
    def due_page(self, *, after: bool, not_before: bool) -> Select[Any] | CompoundSelect[Any]:
        """Read a page of pending orders: ``due_by``, ``page_size``, and ``after_stored``, ``after_id``.

        Where there are no partial indexes, each pending value is a range of the index of its own, with a page of its
        own: asked for several at once, the database would sort all of them.
        """
        values = self.orders.settings.states.pending
        if self.dialect.partial_indexes or len(values) == 1:
            return self._due_range(values, after=after, not_before=not_before)
        pages = union_all(*(self._due_range([value], after=after, not_before=not_before) for value in values))
        page_key, key = pages.selected_columns["page_key"], pages.selected_columns["id"]
        return pages.order_by(page_key, key).limit(bind("page_size", BigInteger()))

    def _due_range(self, values: Sequence[StateValue], *, after: bool, not_before: bool) -> Select[Any]:
        expire_at, key = self.orders.needed("expire_at"), self.orders.needed("id")
        form = self.orders.time["expire_at"]
        conditions = [self._pending(values)]
        # SQLite begins an index range with the first lower bound that it reads: the highest of them goes first.
        if after:
            conditions.append(form.beyond(expire_at, "after_stored", key > bind("after_id", key.type)))
        if not_before:
            conditions.append(form.reached(expire_at, "not_before"))
        conditions.append(self._due(indexed=True))
        columns = (*self.order_columns(LOCKED_ROLES), form.page_key(expire_at).label("page_key"))
        query = select(*columns).where(*conditions)
        return query.order_by(expire_at, key).limit(bind("page_size", BigInteger()))

    @built
    def any_pending(self) -> Select[Any]:
        """Ask whether the shop has any pending order at all."""
        return select(exists(select(self.orders.needed("id")).where(self._pending())))

    @built
    def without_deadline(self) -> Select[Any]:
        """Count pending orders that have no deadline, up to a limit for each way to have none: ``count_limit``."""
        total: ColumnElement[Any] = literal_column("0")
        for absent in self.orders.time["expire_at"].absent(self.orders.needed("expire_at")):
            found: Select[Any] = select(literal_column("1").label("one")).where(self._pending(), absent)
            counted = select(func.count()).select_from(found.limit(bind("count_limit", BigInteger())).subquery())
            total = total + counted.scalar_subquery()
        return select(total)

    @built
    def close_if_pending(self, *, due: bool) -> Update:
        """Close orders by primary key: ``ids``, ``at``, ``reason``, ``source``, ``due_by``."""
        values: dict[Column[Any], Any] = {}
        for role, name in zip(CLOSE_ROLES, ("at", "reason", "source"), strict=True):
            column = self.orders.column(role)
            if column is not None:
                values[column] = bind(name, column.type)
        return self._write(State.CLOSED, due=due, more=values)

    @built
    def pay_if_pending(self) -> Update:
        """Mark orders as paid by primary key: ``ids``; also those about which a provider is being asked."""
        return self._write(State.PAID, due=False, more={})

    @built
    def extend_if_pending(self) -> Update:
        """Give one order a new deadline: ``ids``, ``expire_at``."""
        expire_at = self.orders.needed("expire_at")
        return self._write(None, due=False, more={expire_at: bind("expire_at", expire_at.type)})

    def _write(self, to: State | None, *, due: bool, more: dict[Column[Any], Any]) -> Update:
        status = self.orders.needed("status")
        values = more if to is None else {status: new_value(status, self.orders.value_of(to)), **more}
        # The shop's own come first: MySQL lets an expression see what was assigned before it in the same statement.
        own = self.orders.more if to is State.CLOSED else {}
        still = self._still_pending(or_closing=to is State.PAID)
        conditions = [self.dialect.among(self.orders.needed("id"), "ids"), still]
        if due:
            conditions.append(self._due(indexed=False))
        if to is State.CLOSED:
            conditions += self._only()
        return update(self.orders.table).ordered_values(*own.items(), *values.items()).where(*conditions)

    def _due(self, *, indexed: bool) -> ColumnElement[bool]:
        return self.orders.time["expire_at"].passed(self.orders.needed("expire_at"), "due_by", indexed=indexed)

    @built
    def insert(self, table: Table, names: tuple[str, ...]) -> Insert:
        """Insert rows with these columns."""
        return self.dialect.bulk_insert(table, names)

    @built
    def upsert(self, table: Table, names: tuple[str, ...], changed: tuple[str, ...]) -> Insert:
        """Insert rows; one that exists by its primary key takes the new values of ``changed``."""
        return self.dialect.bulk_upsert(table, names, changed)

    @built
    def put_close_notes(self) -> Insert:
        """Keep what the shop has no column for: ``order_no`` and the parts of the close."""
        roles = self.unnoted_roles
        return self.dialect.bulk_upsert(self.own.order, ("order_no", *roles), roles)

    @built
    def put_notes(self) -> Insert:
        """Keep extensions, policy and close of orders."""
        changed = ("extended", "extended_ms", "policy", *CLOSE_ROLES)
        return self.dialect.bulk_upsert(self.own.order, ("order_no", *changed), changed)

    @built
    def find_notes(self) -> Select[Any]:
        """Read what is kept beside the shop's rows: ``order_nos``."""
        return select(self.own.order).where(self.dialect.among(self.own.order.c.order_no, "order_nos"))

    # Holds and assets

    @built
    def read_holds(self) -> Select[Any]:
        """Read holds by order: ``order_nos``, ``states``."""
        hold = self.own.hold.c
        columns = (hold.order_no, hold.kind, hold.ref, hold.quantity, hold.state)
        return select(*columns).where(
            self.dialect.among(hold.order_no, "order_nos"), self.dialect.among(hold.state, "states")
        )

    @built
    def read_lines(self, kind: str) -> Select[Any]:
        """Read the shop's own rows that say what orders hold: ``orders``."""
        return self.shop.lines[kind].select(self.dialect)

    @built
    def lock_holds(self, *, skip: bool) -> Select[Any]:
        """Lock holds that wait for one asset: ``kind``, ``ref``, ``state``, ``hold_limit``, ``skip``."""
        hold = self.own.hold.c
        columns = (hold.order_no, hold.kind, hold.ref, hold.quantity, hold.state)
        conditions = [hold.unfinished == bind("state"), hold.kind == bind("kind"), hold.ref == bind("ref")]
        if skip:
            conditions.append(~self.dialect.among(hold.order_no, "skip"))
        query = select(*columns).where(*conditions).order_by(hold.order_no)
        return self.dialect.locked(query.limit(bind("hold_limit", BigInteger())), wait=False)

    @built
    def unfinished_assets(self) -> Select[Any]:
        """Read assets that some hold waits for: ``now``, ``asset_limit``, ``kinds``."""
        hold, failure = self.own.hold.c, self.own.quarantine.c
        later = or_(
            failure.state == Quarantine.QUARANTINED.value, failure.next_try_at > bind("now", failure.next_try_at.type)
        )
        resting = exists().where(
            failure.order_no == hold.order_no,
            failure.stage == Stage.RELEASE.value,
            failure.state != Quarantine.RESOLVED.value,
            later,
        )
        query = select(hold.kind, hold.ref, hold.state).distinct()
        query = query.where(hold.unfinished.is_not(None), self.dialect.among(hold.kind, "kinds"), ~resting)
        return query.limit(bind("asset_limit", BigInteger()))

    @built
    def lock_assets(self, kind: str, *, wait: bool) -> Select[Any]:
        """Lock rows of an asset: ``refs``."""
        asset = self.asset(kind)
        found = ((role, asset.column(role)) for role in ASSET_ROLES)
        columns = [column.label(role) for role, column in found if column is not None]
        query = select(*_labelled(asset.keys), *columns).where(*self._named(asset))
        return self.dialect.locked(query.order_by(*asset.keys), wait=wait)

    def _named(self, asset: AssetTable) -> list[ColumnElement[bool]]:
        """Say that a row is one of those named: ``refs``.

        With several key columns each is among its values (``key_0``, ``key_1``, …), for the index, and all of them
        together are among ``refs``.
        """
        if len(asset.keys) == 1:
            return [self.dialect.among(asset.keys[0], "refs")]
        each = [self.dialect.among(column, f"key_{n}") for n, column in enumerate(asset.keys)]
        return [*each, self.dialect.together(asset.keys, "refs")]

    def asset_places(self, kind: str) -> dict[str, int]:
        """Answer where in a row of ``lock_assets`` each role stands; the key comes first."""
        asset = self.asset(kind)
        present = [role for role in ASSET_ROLES if asset.column(role) is not None]
        return {role: at for at, role in enumerate(present, start=len(asset.keys))}

    @built
    def find_assets(self, kind: str) -> Select[Any]:
        """Ask which rows of an asset exist, locked or not: ``refs``."""
        asset = self.asset(kind)
        return select(*_labelled(asset.keys)).where(*self._named(asset))

    @built
    def change_counter(self, kind: str, effect: Effect) -> Update | None:
        """Move the same number of units on several rows: ``refs``, ``units``; None where there is nothing to write."""
        asset = self.asset(kind)
        available, held = asset.column("available"), asset.column("held")
        units: ColumnElement[int] = bind("units", BigInteger())
        values: dict[Column[Any], Any] = {}
        conditions = self._named(asset)
        if available is not None and effect is not Effect.CONSUME:
            values[available] = available - units if effect is Effect.TAKE else available + units
        if held is not None:
            values[held] = held + units if effect is Effect.TAKE else held - units
        if effect is Effect.TAKE and available is not None:
            conditions.append(available >= units)
        return update(asset.table).values(values).where(*conditions) if values else None

    @built
    def change_instance(self, kind: str, effect: Effect) -> Update | None:
        """Move single pieces from the state that they must be in: ``refs``, ``now``."""
        asset = self.asset(kind)
        state, settings = asset.column("state"), asset.settings
        assert state is not None
        held, free = constant(state, settings.held_value), constant(state, settings.free_value)
        if effect is Effect.CONSUME and settings.used_value is None:
            return None
        to: Any = {
            Effect.TAKE: lambda: held,
            Effect.CONSUME: lambda: constant(state, settings.used_value),
            Effect.RELEASE: lambda: self._free_or_expired(asset, free),
        }[effect]()
        before = free if effect is Effect.TAKE else held
        return (
            update(asset.table).values({state: type_coerce(to, state.type)}).where(*self._named(asset), state == before)
        )

    def _free_or_expired(self, asset: AssetTable, free: ColumnElement[Any]) -> ColumnElement[Any]:
        valid_until, state, form = asset.column("valid_until"), asset.column("state"), asset.valid_until
        if valid_until is None or form is None or state is None or asset.settings.expired_value is None:
            return free
        expired = constant(state, asset.settings.expired_value)
        return case((form.passed(valid_until, "now", indexed=False), expired), else_=free)

    def asset(self, kind: str) -> AssetTable:
        """The table of an asset that is not remote."""
        asset = self.shop.assets[kind]
        assert asset is not None
        return asset

    # Facts, payments, records

    @built
    def find_facts(self, *, by_order: bool) -> Select[Any]:
        """Read facts: by ``event_ids``, or of one ``order_no``."""
        outbox = self.own.outbox.c
        found = outbox.order_no == bind("order_no") if by_order else self.dialect.among(outbox.event_id, "event_ids")
        columns = (outbox.event_id, outbox.order_no, outbox.type, outbox.payload)
        query = select(*columns).where(found).order_by(outbox.seq)
        if by_order:
            return query
        # While there are few facts MySQL and MariaDB walk all of them in the order wanted, rather than look some up.
        by_id = "FORCE INDEX (duetime_outbox_event_id)"
        return query.with_hint(self.own.outbox, by_id, "mysql").with_hint(self.own.outbox, by_id, "mariadb")

    @built
    def find_consumers(self) -> Select[Any]:
        """Read who wants which facts."""
        return select(self.own.consumer)

    @built
    def find_seqs(self) -> Select[Any]:
        """Read the places of facts: ``event_ids``."""
        outbox = self.own.outbox.c
        return select(outbox.event_id, outbox.seq).where(self.dialect.among(outbox.event_id, "event_ids"))

    @built
    def find_payments(self) -> Select[Any]:
        """Read payments by ``payment_ids``."""
        return select(self.own.payment).where(self.dialect.among(self.own.payment.c.payment_id, "payment_ids"))

    @built
    def payments_of(self) -> Select[Any]:
        """Read the payments of one ``order_no``."""
        payment = self.own.payment
        found = select(payment).where(payment.c.order_no == bind("order_no"))
        return found.order_by(payment.c.received_at, payment.c.payment_id)

    @built
    def find_failures(self, *, by_order: bool, by_stage: bool, by_time: bool) -> Select[Any]:
        """Read failures: ``order_nos``, ``states``, ``stage``, ``try_by``, ``failure_limit``."""
        failure = self.own.quarantine
        conditions = [self.dialect.among(failure.c.state, "states")]
        if by_order:
            conditions.append(self.dialect.among(failure.c.order_no, "order_nos"))
        if by_stage:
            conditions.append(failure.c.stage == bind("stage"))
        if by_time:
            conditions.append(failure.c.next_try_at <= bind("try_by", failure.c.next_try_at.type))
        query = select(failure).where(*conditions or [true()])
        query = query.order_by(failure.c.next_try_at, failure.c.order_no, failure.c.stage)
        return query.limit(bind("failure_limit", BigInteger()))
