"""The shop's tables as found in the database: the names of the configuration with the types of the real columns.

Everything that the configuration says is looked up once, and every misfit is collected before anything is refused, so
that an operator sees them all at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Integer,
    MetaData,
    Numeric,
    Table,
    inspect,
)

from duetime.errors import ConfigError
from duetime.order import State
from duetime.shop import Asset, OrdersTable, StateValue, TableName
from duetime.stores.sql.column_kinds import no_name, no_state, plain
from duetime.stores.sql.expressions import problems_of, shop_sql
from duetime.stores.sql.line_tables import LineLooker, LineTable
from duetime.stores.sql.relations import is_partitioned, not_a_table, unsafe_engine
from duetime.stores.sql.time_forms import TimeForms, Unfit
from duetime.stores.sql.times import Shifted, TimeForm
from duetime.units import format_duration


@dataclass(frozen=True, slots=True)
class OrderTable:
    """The order table: its columns by role, the values of its states, and how it holds time."""

    settings: OrdersTable
    table: Table
    time: Mapping[str, TimeForm]
    generated: frozenset[str] = frozenset()
    """Columns that the database computes: read as any other, never written."""

    @property
    def described(self) -> frozenset[str]:
        """The columns that play a role, by name."""
        roles = (*_ROLES, "amount", "currency")
        return frozenset(column.name for column in map(self.column, roles) if column is not None)

    @property
    def fixed_deadline(self) -> str | None:
        """Say why no deadline of this table can be moved, or None."""
        name = f"{self.table.name}.{self.settings.expire_at}"
        plus = self.settings.expire_plus
        if plus is not None:
            return (
                f"its deadline is {name} and orders.expire_plus ({format_duration(plus)}), and when it was placed is "
                "never rewritten; extending needs a column that holds the deadline (orders.expire_at)"
            )
        if self.settings.expire_at in self.generated:
            return f"the database computes its deadline, {name}; change what it is computed from"
        return None

    @property
    def only(self) -> ColumnElement[Any] | None:
        """The shop's own condition on what may be closed, or None."""
        return None if self.settings.only is None else shop_sql(self.settings.only)

    @property
    def more(self) -> dict[Column[Any], ColumnElement[Any]]:
        """What else is written when an order closes."""
        return {self.table.c[name]: shop_sql(written) for name, written in self.settings.set.items()}

    def column(self, role: str) -> Column[Any] | None:
        """Answer the column that plays ``role`` (a key of ``[orders]``), or None where the shop has none."""
        name = self.settings.currency_column if role == "currency" else getattr(self.settings, role)
        return None if name is None else self.table.c[name]

    def needed(self, role: str) -> Column[Any]:
        """Answer a column that every shop has."""
        column: Column[Any] = self.table.c[getattr(self.settings, role)]
        return column

    @property
    def state_of(self) -> dict[StateValue, State]:
        """Answer what each value of the status column means."""
        states = self.settings.states
        named: dict[StateValue, State] = dict.fromkeys(states.pending, State.PENDING)
        named |= {states.paid: State.PAID, states.closed: State.CLOSED}
        named |= dict.fromkeys(states.after_paid, State.SHIPPED)
        return named if states.closing is None else {**named, states.closing: State.CLOSING}

    def value_of(self, state: State) -> StateValue:
        """Answer the value that stands for a state; the first one where there are several."""
        states = self.settings.states
        values: dict[State, StateValue | None] = {
            State.PENDING: states.pending[0],
            State.PAID: states.paid,
            State.CLOSED: states.closed,
            State.CLOSING: states.closing,
        }
        value = values.get(state)
        if value is None:
            msg = f"orders.states names no value for {state}"
            raise ConfigError([msg])
        return value


@dataclass(frozen=True, slots=True)
class AssetTable:
    """One asset's table."""

    settings: Asset
    table: Table
    valid_until: TimeForm | None

    @property
    def keys(self) -> list[Column[Any]]:
        """The columns that a hold's reference names: mostly one."""
        return [self.table.c[name] for name in self.settings.key or ()]

    def column(self, role: str) -> Column[Any] | None:
        """Answer the column that plays ``role`` (a key of ``[[assets]]``), or None where the shop has none."""
        name = getattr(self.settings, role)
        return None if name is None else self.table.c[name]


@dataclass(frozen=True, slots=True)
class ShopTables:
    """The order table and those of the assets, by kind (remote assets have a None), and where holds are read from."""

    orders: OrderTable
    assets: Mapping[str, AssetTable | None]
    lines: Mapping[str, LineTable]


def describe(connection: Connection, orders: OrdersTable, assets: Sequence[Asset]) -> ShopTables:
    """Look the described tables up in the database.

    Raises:
        ConfigError: something described is not there or cannot be used; every misfit in a sentence.
    """
    return _Looker(connection, orders.time_form).shop(orders, assets)


class _Looker:
    def __init__(self, connection: Connection, time_form: str | Mapping[str, str]) -> None:
        self._connection, self._inspector = connection, inspect(connection)
        self._forms = TimeForms(time_form, connection.dialect.name)
        self._metadata = MetaData()
        self._found: dict[TableName, dict[str, Any]] = {}
        self.problems: list[str] = []

    def shop(self, orders: OrdersTable, assets: Sequence[Asset]) -> ShopTables:
        order_table = self._orders(orders)
        asset_tables = {asset.kind: self._asset(n, asset) for n, asset in enumerate(assets)}
        lines = self._lines(order_table, assets) if order_table is not None else {}
        if order_table is not None and None not in (asset_tables[one.kind] for one in assets if one.table is not None):
            self.problems += [
                f'orders.time_form: there is no column of time "{name}" among those that [orders] and [[assets]] name'
                for name in self._forms.unused()
            ]
        if order_table is None or self.problems:
            raise ConfigError(self.problems)
        return ShopTables(order_table, asset_tables, lines)

    def _lines(self, orders: OrderTable, assets: Sequence[Asset]) -> dict[str, LineTable]:
        looker = LineLooker(self._inspector, orders.settings, orders.table)
        found = {asset.kind: looker.look(n, asset) for n, asset in enumerate(assets)}
        self.problems += looker.problems
        return {kind: lines for kind, lines in found.items() if lines is not None}

    def _orders(self, orders: OrdersTable) -> OrderTable | None:
        names = {role: getattr(orders, role) for role in (*_ROLES, "amount")} | {"currency": orders.currency_column}
        table = self._table("orders", orders.qualified, names, also=self._more(orders, names))
        if table is None:
            return None
        generated = self._never_written("orders", table, {role: names[role] for role in _WRITTEN})
        self._unique(orders, table)
        self._values("orders.states", table.c[orders.status], orders.states.written)
        time = dict(self._times("orders", table, {role: names[role] for role in _TIMES}))
        if orders.expire_plus is not None and "expire_at" in time:
            time["expire_at"] = Shifted(time["expire_at"], orders.expire_plus)
        if not self.problems:
            self.problems += problems_of(self._connection, orders, table)
        return OrderTable(orders, table, time, generated)

    def _more(self, orders: OrdersTable, roles: Mapping[str, str | None]) -> tuple[str, ...]:
        """Look at the columns that the shop wants written besides; answer those that can be."""
        found = self._columns(orders.qualified)
        taken = {column: role for role, column in roles.items() if column is not None}
        for name in orders.set:
            path = f"orders.set.{name}"
            if name in taken:
                self.problems.append(f"{path}: this column is orders.{taken[name]}, which duetime writes itself")
            elif found and name not in found:
                self.problems.append(f"{path}: table {_shown(orders.qualified)} has no such column; {_has(found)}")
            elif found and _is_generated(found[name]):
                self.problems.append(f"{path}: the database computes this column itself; leave it out")
        return tuple(name for name in orders.set if name in found and name not in taken)

    def _never_written(self, path: str, table: Table, written: Mapping[str, str | None]) -> frozenset[str]:
        """Answer the table's generated columns, and refuse those that would have to be written."""
        found = self._columns(TableName(table.schema, table.name))
        generated = frozenset(name for name, column in found.items() if _is_generated(column))
        for role, name in written.items():
            if name in generated:
                instead = '"" (duetime keeps it then)' if path == "orders" and role not in _NEEDED else "another column"
                self.problems.append(
                    f"{path}.{role}: the database computes column {name} itself, so nobody can write it; name {instead}"
                )
        return generated

    def _asset(self, number: int, asset: Asset) -> AssetTable | None:
        if asset.storage == "remote":
            return None
        path, key = f"assets[{number}]", asset.key or ()
        roles = ("available", "held", "state", "valid_until")
        names = {role: getattr(asset, role) for role in roles} | {
            "key" if len(key) == 1 else f"key[{n}]": name for n, name in enumerate(key)
        }
        table = self._table(path, asset.qualified, names)
        if table is None:
            return None
        self._never_written(path, table, {role: names[role] for role in ("available", "held", "state")})
        if not self._is_unique(asset.qualified, key):
            self.problems.append(
                f"{path}.key: column {' with '.join(key)} of table {asset.table} is not unique; "
                "a hold's reference must name exactly one row: add a unique index on it"
            )
        for name in key:
            why_not = no_name(table.c[name].type)
            if why_not is not None:
                self.problems.append(f"{path}.key: column {name} is {why_not}")
        if asset.state is not None:
            values = (asset.held_value, asset.free_value, asset.expired_value, asset.used_value)
            self._values(path, table.c[asset.state], tuple(value for value in values if value is not None))
        times = dict(self._times(path, table, {"valid_until": asset.valid_until}))
        return AssetTable(asset, table, times.get("valid_until"))

    def _table(
        self, path: str, name: TableName, roles: Mapping[str, str | None], *, also: Sequence[str] = ()
    ) -> Table | None:
        if not self._inspector.has_table(name.name, schema=name.schema):
            hint = "`duetime migrate --sample-shop` creates the sample shop's, or set" if path == "orders" else "set"
            self.problems.append(f"{path}.table: there is no table {_shown(name)}; {hint} {path}.table to yours")
            return None
        if not self._has_rows(path, name):
            return None
        found = self._columns(name)
        missing = {role: column for role, column in roles.items() if column is not None and column not in found}
        for role, column in missing.items():
            optional = '; "" where the shop has none' if role.partition("[")[0] not in _NEEDED else ""
            self.problems.append(f"{path}.{role}: table {_shown(name)} has no column {column}; {_has(found)}{optional}")
        if missing:
            return None
        columns = dict.fromkeys((*(column for column in roles.values() if column is not None), *also))
        return Table(
            name.name,
            self._metadata,
            *(Column(c, plain(found[c]["type"]), nullable=found[c]["nullable"]) for c in columns),
            schema=name.schema,
            extend_existing=True,
        )

    def _has_rows(self, path: str, name: TableName) -> bool:
        kind = not_a_table(self._connection, name)
        engine = unsafe_engine(self._connection, name)
        if kind is not None:
            self.problems.append(
                f"{path}.table: {_shown(name)} is {kind}: duetime locks and writes rows, so name the table that has "
                "them; what the view leaves out, orders.only can leave out too"
            )
        elif engine is not None:
            self.problems.append(
                f"{path}.table: {_shown(name)} is stored by {engine}, which knows no transactions: use InnoDB "
                "(ALTER TABLE … ENGINE = InnoDB)"
            )
        return kind is None and engine is None

    def _columns(self, name: TableName) -> dict[str, Any]:
        """Answer the columns of a table as the database describes them; none where there is no such table."""
        if name not in self._found:
            there = self._inspector.has_table(name.name, schema=name.schema)
            columns = self._inspector.get_columns(name.name, schema=name.schema) if there else []
            self._found[name] = {column["name"]: column for column in columns}
        return self._found[name]

    def _unique(self, orders: OrdersTable, table: Table) -> None:
        for role in ("id", "order_no"):
            column = table.c[getattr(orders, role)]
            if not self._is_unique(orders.qualified, (column.name,)):
                partitioned = is_partitioned(self._connection, orders.qualified)
                why = " (in a partitioned table each unique index has the partition key in it)" if partitioned else ""
                self.problems.append(
                    f"orders.{role}: column {column.name} of table {orders.table} is not unique{why}; "
                    "every order must be found by it alone: name another column, or add a unique index on it"
                )
            why_not = no_name(column.type)
            if why_not is not None:
                self.problems.append(f"orders.{role}: column {column.name} is {why_not}")
        if isinstance(table.c[orders.id].type, Numeric) and not isinstance(table.c[orders.id].type, Integer):
            self.problems.append(f"orders.id: column {orders.id} is {table.c[orders.id].type}; use an integer key")

    def _is_unique(self, name: TableName, columns: tuple[str, ...]) -> bool:
        """Say whether these columns name one row: they, or some of them, are unique."""
        primary = self._inspector.get_pk_constraint(name.name, schema=name.schema)
        constraints = self._inspector.get_unique_constraints(name.name, schema=name.schema)
        # SQLite keeps an inline UNIQUE only as an index of its own, which SQLAlchemy leaves out unless asked.
        indexes = self._inspector.get_indexes(name.name, schema=name.schema, include_auto_indexes=True)
        unique: list[Sequence[str | None]] = [primary.get("constrained_columns") or ()]
        unique += [constraint["column_names"] for constraint in constraints]
        unique += [
            index["column_names"]
            for index in indexes
            if index["unique"] and not _partial(index.get("dialect_options", {}))
        ]
        return any(one and set(one) <= set(columns) for one in unique)

    def _values(self, path: str, column: Column[Any], values: Sequence[StateValue]) -> None:
        self.problems += [f"{path}: column {column.name} {why}" for why in no_state(column.type, values)]

    def _times(
        self, path: str, table: Table, roles: Mapping[str, str | None]
    ) -> Iterator[tuple[str, TimeForm]]:  # fmt: skip
        for role, name in roles.items():
            if name is None:
                continue
            column, tables = table.c[name], (table.fullname, table.name)
            kind = repr(column.type)
            try:
                yield role, self._forms.of(column, tables)
            except Unfit as unfit:
                self.problems.append(f"{path}.{role}: column {name} of table {table.name} is {kind}, {unfit}")


_TIMES = ("expire_at", "closed_at", "paid_at")
_ROLES = ("id", "order_no", "status", *_TIMES, "close_reason", "close_source", "category")
_WRITTEN = ("status", "closed_at", "close_reason", "close_source")
_NEEDED = frozenset({"id", "order_no", "status", "expire_at", "key"})


def _is_generated(column: Mapping[str, Any]) -> bool:
    return column.get("computed") is not None


def _has(found: Mapping[str, object]) -> str:
    return f"it has {', '.join(found)}"


def _partial(options: Mapping[str, object]) -> bool:
    return any(key.endswith("_where") and value is not None for key, value in options.items())


def _shown(name: TableName) -> str:
    return name.name if name.schema is None else f"{name.schema}.{name.name}"


def optional_time(form: TimeForm | None, value: datetime | None) -> datetime | None:
    """Read an instant from a column that may be absent."""
    return None if form is None else form.read(value)
