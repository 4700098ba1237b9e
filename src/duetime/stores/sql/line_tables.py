"""The shop's own rows that say what an order holds (``[[assets]] from``), as found in the database.

Each close reads them by the order that they name, so what is checked at start is what would hurt later: a column that
is not there, one that can never equal the order's, and above all the missing index, without which every close would
read the whole table. A view is read as it is: whether it has an index to use cannot be seen from here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import CHAR, Column, Inspector, Integer, MetaData, Numeric, Select, String, Table, select
from sqlalchemy import Uuid as UuidType
from sqlalchemy.types import TypeEngine

from duetime.order import Order
from duetime.shop import Asset, FromLines, OrdersTable, TableName, join_ref
from duetime.store import Line
from duetime.stores.sql.column_kinds import no_name, plain
from duetime.stores.sql.dialect import SqlDialect


@dataclass(frozen=True, slots=True)
class LineTable:
    """The rows of one asset. ``is_order``: they are the orders themselves, and a column of theirs is the reference."""

    settings: FromLines
    table: Table
    is_order: bool

    @property
    def order(self) -> Column[Any]:
        """The column that names the order."""
        column: Column[Any] = self.table.c[self.settings.order_no or self.settings.order_id or ""]
        return column

    @property
    def refs(self) -> list[Column[Any]]:
        """The columns that name the asset's row."""
        return [self.table.c[name] for name in self.settings.ref]

    @property
    def quantity(self) -> Column[Any] | None:
        """The column that holds the quantity; None where each row is one."""
        return None if self.settings.quantity is None else self.table.c[self.settings.quantity]

    def select(self, dialect: SqlDialect) -> Select[Any]:
        """Read the rows of orders: ``orders``."""
        quantity = self.quantity
        columns = [self.order, *self.refs, *(() if quantity is None else (quantity,))]
        named = [column.label(f"line_{n}") for n, column in enumerate(columns)]
        return select(*named).where(dialect.among(self.order, "orders"))

    def value_of(self, order: Order) -> object:
        """Answer what the rows of an order hold in the column that names it, before it is turned into its type."""
        return order.order_no if self.settings.order_no is not None else order.id

    def lines(self, rows: Sequence[Sequence[Any]], orders: Mapping[object, Order]) -> list[Line] | None:
        """Read rows; ``orders`` are those asked for, by value. None where it cannot be told whose a row is."""
        count = len(self.settings.ref)
        counted = self.quantity is not None
        padded = [isinstance(column.type, CHAR) for column in self.refs]
        only = next(iter(orders.values())).order_no if len(orders) == 1 else None
        folded: dict[object, str] = {_folded(value): order.order_no for value, order in orders.items()}
        exact = {value: order.order_no for value, order in orders.items()}
        found = []
        for row in rows:
            number = only or exact.get(row[0]) or folded.get(_folded(row[0]))
            if number is None:
                return None
            ref = _ref(row[1 : count + 1], padded)
            if self.is_order and (ref is None or _all_zero(row[1 : count + 1])):
                continue
            found.append(Line(number, ref, row[count + 1] if counted else 1))
        return found


def _folded(value: object) -> object:
    return value.casefold().rstrip() if isinstance(value, str) else str(value)


def _all_zero(values: Sequence[Any]) -> bool:
    return all(value == 0 for value in values)


def _ref(values: Sequence[Any], padded: Sequence[bool]) -> str | None:
    if any(value is None or value == "" for value in values):
        return None
    texts = [str(value).rstrip(" ") if pad else str(value) for value, pad in zip(values, padded, strict=True)]
    return join_ref(texts) if "" not in texts else None


class LineLooker:
    """Looks up what ``from`` names; collects every misfit."""

    def __init__(self, inspector: Inspector, orders: OrdersTable, order_table: Table) -> None:
        """Compare with the order table as it was found."""
        self._inspector = inspector
        self._orders = orders
        self._order_table = order_table
        self.problems: list[str] = []

    def look(self, number: int, asset: Asset) -> LineTable | None:
        """Answer the rows of one asset; None where it has none, or where something is wrong with them."""
        lines = asset.from_lines
        if lines is None:
            return None
        path, name = f"assets[{number}].from", lines.qualified
        if not self._inspector.has_table(name.name, schema=name.schema):
            self.problems.append(f"{path}.table: there is no table {lines.table}; name the one with the order lines")
            return None
        types = {one["name"]: plain(one["type"]) for one in self._inspector.get_columns(name.name, schema=name.schema)}
        if not self._all_there(path, lines, types):
            return None
        # A MetaData of its own: the same table may be described as the orders' or an asset's too.
        names = dict.fromkeys(column for _, column in _columns(lines))
        table = Table(name.name, MetaData(), *(Column(one, types[one]) for one in names), schema=name.schema)
        found = LineTable(lines, table, name == self._orders.qualified)
        self._join(path, found)
        for ref in found.refs:
            why_not = no_name(ref.type)
            if why_not is not None:
                self.problems.append(f"{path}.ref: column {ref.name} is {why_not}")
        quantity = found.quantity
        if quantity is not None and not isinstance(quantity.type, Numeric | Integer):
            self.problems.append(f"{path}.quantity: column {quantity.name} is {quantity.type}; a number is needed")
        return found

    def _all_there(self, path: str, lines: FromLines, types: Mapping[str, TypeEngine[Any]]) -> bool:
        missing = [(role, column) for role, column in _columns(lines) if column not in types]
        for role, column in missing:
            self.problems.append(
                f"{path}.{role}: table {lines.table} has no column {column}; it has {', '.join(types)}"
            )
        return not missing

    def _join(self, path: str, found: LineTable) -> None:
        role = "order_no" if found.settings.order_no is not None else "order_id"
        column = found.order
        ours = self._order_table.c[self._orders.order_no if role == "order_no" else self._orders.id]
        if _class(column.type) is not _class(ours.type):
            self.problems.append(
                f"{path}.{role}: column {column.name} of table {found.settings.table} is {column.type}, but "
                f"{self._orders.table}.{ours.name} is {ours.type}: the one can never equal the other; "
                f"name the column that holds {self._orders.table}.{ours.name}"
            )
        if not self._served(found.settings.qualified, column.name):
            table = found.settings.table
            quoted = self._inspector.dialect.identifier_preparer
            index = quoted.quote(f"{found.table.name}_{column.name}")
            create = f"CREATE INDEX {index} ON {quoted.format_table(found.table)} ({quoted.quote(column.name)})"
            self.problems.append(
                f"{path}.{role}: no index of table {table} begins with column {column.name}, so every close would "
                f"read the whole table: {create}"
            )

    def _served(self, name: TableName, column: str) -> bool:
        inspect = self._inspector
        if name.name in inspect.get_view_names(schema=name.schema):
            return True
        keys = inspect.get_pk_constraint(name.name, schema=name.schema).get("constrained_columns") or []
        indexes = inspect.get_indexes(name.name, schema=name.schema, include_auto_indexes=True)
        uniques = inspect.get_unique_constraints(name.name, schema=name.schema)
        named: list[Sequence[str | None]] = [keys]
        named += [one["column_names"] for one in indexes]
        named += [one["column_names"] for one in uniques]
        return any(columns[:1] == [column] for columns in named)


def _columns(lines: FromLines) -> list[tuple[str, str]]:
    named = [("order_no", lines.order_no), ("order_id", lines.order_id), ("quantity", lines.quantity)]
    return [(role, name) for role, name in (*named, *(("ref", one) for one in lines.ref)) if name is not None]


def _class(kind: TypeEngine[Any]) -> type:
    for known in (UuidType, Integer, Numeric, String):
        if isinstance(kind, known):
            return known
    return type(kind)
