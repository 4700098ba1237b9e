"""What duetime knows about the shop's own tables: where orders are, and where what they hold is.

The description names things; it never quotes them (the database's dialect does) and never looks at a database.
The defaults describe the sample shop.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, model_validator

from duetime.sql_text import checked_sql
from duetime.units import (
    CombinationError,
    Kind,
    Name,
    OptionalDuration,
    OptionalName,
    optional,
    read_name,
    read_text,
)

StateValue = int | str

_BIGINT: Final = 2**63
_STATE: Final = "an integer or text in quotes is allowed, as the status column holds it"
_TABLE: Final = '"table" or "schema.table" is allowed; a name that has a dot of its own stands in double quotes'
_TIME_FORM: Final = 'allowed are "instant", "epoch_s", "epoch_ms" and the name of a time zone such as "Asia/Shanghai"'
_PART: Final = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')
_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ZONE: Final = re.compile(r"UTC|[A-Z][A-Za-z_]*(/[A-Za-z0-9_+-]+){1,2}")


class TableName(NamedTuple):
    """A table's name in its two parts, without any quotes; ``schema`` is ``None`` where none was named."""

    schema: str | None
    name: str


def split_table(text: str) -> TableName:
    """Split "schema.table" at its first dot outside double quotes. Raises ``ValueError`` for an empty part."""
    first = _PART.match(text)
    if first is None:
        raise ValueError(_TABLE)
    if first.end() == len(text):
        return TableName(None, _unquoted(text))
    if text[first.end()] != "." or first.end() + 1 == len(text):
        raise ValueError(_TABLE)
    return TableName(_unquoted(first.group()), _unquoted(text[first.end() + 1 :]))


def _unquoted(part: str) -> str:
    match = _PART.fullmatch(part)
    return match.group(1).replace('""', '"') if match and match.group(1) else part


def join_ref(values: Sequence[str]) -> str:
    """Write the values of an asset's key as one reference: alone as it is, several as a JSON array.

    All of them are text there and no space is added, whatever the columns hold: ``["w1","42"]``.
    """
    return values[0] if len(values) == 1 else _COMPACT(list(values))


def split_ref(ref: str, count: int) -> tuple[str, ...] | None:
    """Read the values of a key of ``count`` columns from a reference, as ``join_ref`` or any program wrote it.

    Spaces in the array and whole numbers without quotes make no difference. None where it is no such array.
    """
    if count == 1:
        return (ref,)
    try:
        found = json.loads(ref)
    except ValueError:
        return None
    if not isinstance(found, list) or len(found) != count:
        return None
    fits = all(isinstance(one, str | int) and not isinstance(one, bool) for one in found)
    return tuple(str(one) for one in found) if fits else None


def _read_table(value: object) -> str:
    text = read_name(value)
    split_table(text)
    return text


def _read_state(value: object) -> StateValue:
    if isinstance(value, int) and not isinstance(value, bool) and -_BIGINT <= value < _BIGINT:
        return value
    if not isinstance(value, str):
        raise ValueError(_STATE)  # noqa: TRY004 -- pydantic only collects ValueError
    return read_name(value)


def _read_optional_state(value: object) -> StateValue | None:
    return None if value in ("", None) else _read_state(value)


def _read_states(value: object) -> tuple[StateValue, ...]:
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not values:
        raise ValueError("at least one value is needed")
    return tuple(_read_state(one) for one in values)


def _read_more_states(value: object) -> tuple[StateValue, ...]:
    return () if value in ("", None, [], ()) else _read_states(value)


def _read_key(value: object) -> tuple[str, ...] | None:
    if value in ("", None):
        return None
    names = tuple(read_name(one) for one in value) if isinstance(value, list | tuple) else (read_name(value),)
    if not names or len(set(names)) < len(names):
        raise ValueError("a column, or a list of different columns, is allowed")
    return names


def _read_reference(value: object) -> tuple[str, ...]:
    names = _read_key(value)
    if names is None:
        raise ValueError("a column, or a list of different columns, is needed")
    return names


def _read_form(value: object) -> str:
    text = read_name(value)
    if text in {"instant", "epoch_s", "epoch_ms"}:
        return text
    if not _ZONE.fullmatch(text):
        raise ValueError(_TIME_FORM)
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, OSError):
        raise ValueError(f"there is no such time zone; {_TIME_FORM}") from None
    return text


def _read_time_form(value: object) -> str | dict[str, str]:
    if isinstance(value, dict):
        return {read_name(column): _read_form(form) for column, form in value.items()}
    return _read_form(value)


def _read_currency(value: object) -> str:
    text = read_name(value)
    if text == "=":
        raise ValueError('a column, or "=" and a currency such as "=CNY", is allowed')
    return text


def _read_sql(value: object) -> str:
    text = read_text(value)
    if not text.strip():
        raise ValueError("an empty SQL expression is not allowed")
    return checked_sql(text)


Table = Annotated[str, Kind("table", _read_table)]
OptionalTable = Annotated[str | None, Kind('table or ""', optional(_read_table))]
State = Annotated[StateValue, Kind("integer or text", _read_state, as_text=False)]
OptionalState = Annotated[StateValue | None, Kind('integer, text or ""', _read_optional_state, as_text=False)]
StateList = Annotated[tuple[StateValue, ...], Kind("integer or text, or a list", _read_states, as_text=False)]
MoreStates = Annotated[
    tuple[StateValue, ...], Kind("integer or text, or a list, or empty", _read_more_states, as_text=False)
]
Key = Annotated[tuple[str, ...] | None, Kind("column, or a list of columns", _read_key, as_text=False)]
Reference = Annotated[tuple[str, ...], Kind("column, or a list of columns", _read_reference, as_text=False)]
TimeForm = Annotated[str | dict[str, str], Kind("time form, or a table by column", _read_time_form, as_text=False)]
Currency = Annotated[str | None, Kind('column, "=" and a constant, or ""', optional(_read_currency))]
Sql = Annotated[str, Kind("SQL expression", _read_sql)]
Condition = Annotated[str | None, Kind('SQL condition or ""', optional(_read_sql))]


def _refuse_repeats(named: Iterable[tuple[str, StateValue]], sentence: str) -> None:
    seen: set[StateValue] = set()
    problems = []
    for key, value in named:
        if value in seen:
            problems.append((key, f"found {json.dumps(value)} again; {sentence}"))
        seen.add(value)
    if problems:
        raise CombinationError(*problems)


class Described(BaseModel):
    """A part of the description: it cannot be changed, and a key that it does not know is an error."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class States(Described):
    """The values that the status column holds, as integers or as text: never the one for the other."""

    pending: StateList = Field(default=("pending",), description="Not paid yet; several values may mean that.")
    paid: State = Field(default="paid", description="Paid; the order is never closed.")
    closed: State = Field(default="closed", description="Written when an order closes.")
    closing: OptionalState = Field(default=None, description='While a payment provider is asked; "" if never.')
    after_paid: MoreStates = Field(
        default=(), description="What follows paid: shipped, finished, refunded. What such orders held is used up."
    )

    @property
    def written(self) -> tuple[StateValue, ...]:
        """The values that the status column has to be able to hold."""
        return (*self.pending, self.paid, self.closed, *(() if self.closing is None else (self.closing,)))

    @model_validator(mode="after")
    def _differ(self) -> Self:
        named = [*(("pending", value) for value in self.pending), ("paid", self.paid), ("closed", self.closed)]
        if self.closing is not None:
            named.append(("closing", self.closing))
        named += [("after_paid", value) for value in self.after_paid]
        if len({type(value) for _, value in named}) > 1:
            raise CombinationError(
                ("", "one column holds integers or text, not both: write all states in the same way")
            )
        _refuse_repeats(named, "a value must stand for one state only; the same one is given for another state above")
        return self


class OrdersTable(Described):
    """The shop's table of orders as it is."""

    table: Table = Field(default="orders", description='The table, or "schema.table".')
    id: Name = Field(default="id", description="Primary key: integer, text or UUID.")
    order_no: Name = Field(default="order_no", description="The order's number, unique.")
    status: Name = Field(default="status", description="The column that holds one of `states`.")
    expire_at: Name = Field(default="expire_at", description="The stored deadline, one absolute instant.")
    expire_plus: OptionalDuration = Field(
        default=None,
        description="Added to `expire_at` where the table has no deadline but a time of creation.",
    )
    time_form: TimeForm = Field(
        default="instant",
        description="How the table holds time: instant, epoch_s, epoch_ms or a time zone for naive local time.",
    )
    only: Condition = Field(
        default=None,
        description="SQL condition on the rows that duetime may close; it has no say about paying.",
    )
    closed_at: OptionalName = Field(default="closed_at", description="Written when an order closes.")
    close_reason: OptionalName = Field(default="close_reason", description="Why it closed.")
    close_source: OptionalName = Field(default="close_source", description="Who closed it.")
    paid_at: OptionalName = Field(
        default=None, description="When it was paid. Only read, by observe mode: it tells who is closed though paid."
    )
    category: OptionalName = Field(default="category", description="Chooses the time-out in `timeouts.category`.")
    amount: OptionalName = Field(default="amount_minor", description="What is to be paid.")
    amount_form: Literal["minor", "decimal"] = Field(default="minor", description="Whole cents, or a decimal number.")
    currency: Currency = Field(default="currency", description='The column, or one currency for all: "=CNY".')
    states: States = Field(default=States(), description="The values of the status column.")
    set: dict[Name, Sql] = Field(
        default={}, description="More columns to write when an order closes, each as an SQL expression."
    )

    @property
    def qualified(self) -> TableName:
        """Schema and name of the table."""
        return split_table(self.table)

    @property
    def currency_column(self) -> str | None:
        """The column that holds the currency, if there is one."""
        return None if self.currency is None or self.currency.startswith("=") else self.currency

    @property
    def currency_constant(self) -> str | None:
        """The one currency of all orders, if the description names one."""
        return self.currency[1:] if self.currency is not None and self.currency.startswith("=") else None


class FromLines(Described):
    """The shop's own rows, from which holds are read where the shop records none: order lines most of the time."""

    table: Table = Field(description='The table of the lines, or "schema.table".')
    order_no: OptionalName = Field(default=None, description="Column with the order's number.")
    order_id: OptionalName = Field(default=None, description="Column with the order's primary key, instead.")
    ref: Reference = Field(description="Column that names the unit, coupon or seat; or a list, one for each of `key`.")
    quantity: OptionalName = Field(default=None, description='Column with the quantity; "" counts each line as one.')

    @property
    def qualified(self) -> TableName:
        """Schema and name of the table."""
        return split_table(self.table)

    @model_validator(mode="after")
    def _one_way_to_the_order(self) -> Self:
        if (self.order_no is None) == (self.order_id is None):
            raise CombinationError(("", "exactly one of order_no and order_id is needed"))
        return self


_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "counter": ("table", "key", "available"),
    "instance": ("table", "key", "state", "held_value", "free_value"),
    "remote": (),
}
_ALLOWED: Final[dict[str, frozenset[str]]] = {
    "counter": frozenset({"held", "release", "from"}),
    "instance": frozenset({"expired_value", "used_value", "valid_until", "release", "from"}),
    "remote": frozenset({"publisher", "from"}),
}


class Asset(Described):
    """One kind of thing that orders hold: a counter, single instances, or something kept by another service."""

    kind: Name = Field(description="The kind's name, as `duetime_hold.kind` holds it.")
    storage: Literal["counter", "instance", "remote"] = Field(
        description="A row that counts units, a row for each piece, or another service.",
    )
    table: OptionalTable = Field(default=None, description="counter, instance: the table.")
    key: Key = Field(default=None, description="counter, instance: the column or columns that `ref` names.")
    available: OptionalName = Field(default=None, description="counter: units that can be sold.")
    held: OptionalName = Field(
        default=None,
        description='counter: units held by pending orders; "held" unless given, "" if there is no such column.',
    )
    release: Literal["with", "after"] = Field(
        default="with",
        description="counter, instance: given back with the close, or always right after it.",
    )
    from_lines: FromLines | None = Field(
        default=None,
        alias="from",
        description="Order lines to read holds from, where the shop records none.",
    )
    state: OptionalName = Field(default=None, description="instance: the column that holds one of the values below.")
    held_value: OptionalState = Field(default=None, description="instance: held by a pending order.")
    free_value: OptionalState = Field(default=None, description="instance: free again.")
    expired_value: OptionalState = Field(default=None, description="instance: given back after its own validity.")
    used_value: OptionalState = Field(default=None, description="instance: what paying writes.")
    valid_until: OptionalName = Field(default=None, description="instance: the end of its own validity.")
    publisher: OptionalName = Field(default=None, description="remote: who asks the other service.")

    @property
    def qualified(self) -> TableName:
        """Schema and name of the table. Raises ``ValueError`` for a remote asset, which has none."""
        if self.table is None:
            raise ValueError(f"{self.kind} is kept by another service: there is no table")
        return split_table(self.table)

    @model_validator(mode="before")
    @classmethod
    def _held_unless_denied(cls, data: Any) -> Any:  # noqa: ANN401 -- whatever the config held
        # A counter whose second column was merely forgotten would drift for ever: only "" says that there is none.
        if isinstance(data, dict) and data.get("storage") == "counter" and "held" not in data:
            return {**data, "held": "held"}
        return data

    @model_validator(mode="after")
    def _fits_storage(self) -> Self:
        problems = [*self._missing(), *self._misplaced(), *self._contradictions()]
        if problems:
            raise CombinationError(*problems)
        return self

    def _missing(self) -> Iterable[tuple[str, str]]:
        for key in _NEEDED[self.storage]:
            if getattr(self, key) is None:
                yield key, f'is missing; storage = "{self.storage}" needs it'

    def _misplaced(self) -> Iterable[tuple[str, str]]:
        allowed = {"kind", "storage", *_NEEDED[self.storage], *_ALLOWED[self.storage]}
        for attribute in sorted(self.model_fields_set):
            key = "from" if attribute == "from_lines" else attribute
            if key not in allowed and getattr(self, attribute) is not None:
                yield key, f'does not belong to storage = "{self.storage}"'

    def _contradictions(self) -> Iterable[tuple[str, str]]:
        columns = () if self.from_lines is None else self.from_lines.ref
        if columns and self.key is not None and len(columns) != len(self.key):
            yield "from.ref", f"has {len(columns)} columns, key has {len(self.key)}: one for each, in the same order"
        if self.valid_until is not None and self.expired_value is None:
            yield "expired_value", "is missing; valid_until needs the value that is written when it is over"
        for key in ("free_value", "expired_value", "used_value"):
            if self.held_value is not None and getattr(self, key) == self.held_value:
                yield key, "must differ from held_value"


def sample_assets() -> tuple[Asset, ...]:
    """Return what orders of the sample shop hold: units of stock, and coupons."""
    stock = {"kind": "stock", "storage": "counter", "table": "stock", "key": "sku_id", "available": "available"}
    coupon = {"kind": "coupon", "storage": "instance", "table": "coupon", "key": "coupon_id", "state": "state"}
    values = {"held_value": "locked", "free_value": "unused", "expired_value": "expired", "used_value": "used"}
    return Asset.model_validate(stock), Asset.model_validate({**coupon, **values, "valid_until": "valid_until"})
