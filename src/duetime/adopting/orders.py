"""Which table holds the orders, and which column plays which role there.

What is proposed without a mark must be right: wherever the words leave two readings, the line is marked.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from duetime.adopting import words
from duetime.adopting.found import FoundColumn, FoundShop, FoundTable, Sample
from duetime.adopting.proposal import Line, Section

_SECONDS_AT_MOST: Final = 10**11
"""A point in time in seconds since 1970 is below this, in milliseconds above it."""
_LATELY: Final = timedelta(minutes=20)
_QUARTER: Final = timedelta(minutes=15)
_SHOWN: Final = 20
_ENOUGH: Final = 6
"""Below this score nothing is taken for a table of orders."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A table that may hold the orders, and how much speaks for it; ``named`` where somebody said so."""

    table: FoundTable
    score: int = 0
    named: bool = False


def candidates(shop: FoundShop) -> list[Candidate]:
    """Answer the tables that may hold orders, the likeliest first."""
    scored = [Candidate(table, _score(shop, table)) for table in shop.tables]
    return sorted((one for one in scored if one.score >= _ENOUGH), key=lambda one: -one.score)


def _score(shop: FoundShop, table: FoundTable) -> int:
    name = words.spelled(table.name.name)
    parts = 4 * bool(words.PART_OF_ORDER.search(name)) + 4 * bool(words.PIECES.search(name))
    named = 4 * bool(words.ORDER_TABLE.search(name)) or 3 * bool(words.ORDER_TABLE.search(table.comment))
    referred = any(key.table == table.name for other in shop.tables for key in other.foreign_keys)
    has_state = bool(status_columns(table))
    has_deadline = bool(words.best(time_columns(table), words.DEADLINE))
    has_time = bool(time_columns(table))
    has_amount = bool(words.best(table.of_kind("integer", "decimal"), words.AMOUNT))
    has_number = bool(words.best(table.columns, words.ORDER_NO))
    return named - parts + 3 * has_state + 3 * has_deadline + has_time + has_amount + has_number + referred


def status_columns(table: FoundTable) -> list[FoundColumn]:
    """Answer the columns that may hold the order's state."""
    kinds = [column for column in table.of_kind("integer", "text") if column.name not in table.primary_key]
    return words.best([column for column in kinds if not words.says(column, words.REASON)], words.STATUS)


def time_columns(table: FoundTable) -> list[FoundColumn]:
    """Answer the columns that may hold an instant; an integer needs a name that says so."""
    counted = [column for column in table.of_kind("integer") if _is_time(column)]
    return [*table.of_kind("instant", "naive"), *counted]


def _is_time(column: FoundColumn) -> bool:
    name = words.spelled(column.name)
    ending = name.endswith(("_ms", "_ts", "_time", "_at", "_until", "_epoch", "deadline", "_by"))
    return ending and not words.says(column, words.AMOUNT)


def orders_section(shop: FoundShop, chosen: Candidate, others: list[Candidate]) -> Section:
    """Propose ``[orders]``."""
    return Section("orders", tuple(_OrderReader(shop, chosen.table).lines(_why_this_table(chosen, others))))


def _why_this_table(chosen: Candidate, others: list[Candidate]) -> tuple[str, bool]:
    if chosen.named:
        return "named with --table", True
    rivals = ", ".join(f"{one.table.written} ({one.score} points)" for one in others[:3])
    close = [one for one in others if one.score >= chosen.score - 1]
    words_of_it = f"{chosen.score} points by its name and columns" + (f"; also looked at: {rivals}" if rivals else "")
    return words_of_it + ("; if it is another one, begin again with --table" if close else ""), not close


class _OrderReader:
    def __init__(self, shop: FoundShop, table: FoundTable) -> None:
        self._shop, self._table, self._sample = shop, table, shop.sample(table)

    def lines(self, why: tuple[str, bool]) -> Iterator[Line]:
        yield Line("table", self._table.written, *why)
        yield self._id()
        yield self._number()
        yield from self._status()
        deadline = self._deadline()
        yield from deadline
        closed_at = self._closed_at()
        times = [line.value for line in (deadline[0], closed_at) if line.value]
        yield self._time_form([self._table.column(str(name)) for name in times])
        yield from self._only(str(deadline[0].value))
        yield closed_at
        yield self._text("close_reason", words.REASON, words.MAYBE_REASON, "why an order closed")
        yield self._text("close_source", words.CLOSED_BY, words.MAYBE_CLOSED_BY, "who closed an order")
        yield self._category()
        yield from self._money()
        yield from self._version()

    def _id(self) -> Line:
        key = self._table.primary_key
        if len(key) == 1 and self._table.column(key[0]).identifies:
            return Line("id", key[0], "the primary key")
        why = f"the primary key is made of {', '.join(key)}" if key else "the table has no primary key"
        if len(key) == 1:
            why = f"the primary key, {key[0]}, is no integer, text or UUID"
        return Line("id", "", f"{why}: another single column that is unique is needed", sure=False)

    def _number(self) -> Line:
        single = [columns[0] for columns in self._table.unique if len(columns) == 1]
        single = [name for name in single if self._table.column(name).names]
        named = words.best([self._table.column(name) for name in single], words.ORDER_NO)
        found = [column.name for column in named] or single
        if len(found) == 1:
            return Line("order_no", found[0], "unique")
        if found:
            return Line("order_no", found[0], f"unique are {', '.join(found)}", sure=False)
        likely = words.best([column for column in self._table.columns if column.names], words.ORDER_NO)
        guess = likely[0].name if likely else ""
        return Line(
            "order_no", guess, "no single column but the primary key is unique and can name an order", sure=False
        )

    # The states

    def _status(self) -> Iterator[Line]:
        found = status_columns(self._table)
        if not found:
            yield Line("status", "", "no column is named like a state", sure=False)
            yield Line("states", {"pending": "", "paid": "", "closed": ""}, "no state was found", sure=False)
            return
        preferred = [column for column in found if words.ORDER_TABLE.search(words.spelled(column.name))] or found
        column = preferred[0]
        others = ", ".join(one.name for one in found)
        yield Line("status", column.name, f"named like a state: {others}", sure=len(preferred) == 1)
        yield self._states(column)

    def _states(self, column: FoundColumn) -> Line:
        labels = labels_of(self._shop, self._table, column)
        chosen = {state: words.meant(labels, state) for state in ("pending", "paid", "closed")}
        sure = all(certain and (len(values) == 1) for values, certain in chosen.values())
        value: dict[str, Any] = {
            state: (values if len(values) > 1 and state == "pending" else values[0] if values else "")
            for state, (values, _) in chosen.items()
        }
        seen = values_seen(self._sample, column, labels)
        verdict = "" if sure else f"{self._unread}which values mean pending, paid and closed is for you to say\n"
        return Line("states", value, f"{verdict}values {self._sample.how}:\n{seen}", sure=sure)

    @property
    def _unread(self) -> str:
        return f"the rows could not be read ({self._sample.refused}): " if self._sample.refused else ""

    # Time

    def _deadline(self) -> list[Line]:
        times = time_columns(self._table)
        found = [column for column in words.best(times, words.DEADLINE) if not words.says(column, words.CLOSED_AT)]
        if len(found) == 1:
            return [Line("expire_at", found[0].name, f"named like a deadline; {self._range(found[0])}")]
        if found:
            names = ", ".join(column.name for column in found)
            return [Line("expire_at", found[0].name, f"named like a deadline: {names}", sure=False)]
        created = words.best(times, words.CREATED)
        guess = created[0].name if created else ""
        why = "no column is named like a deadline: a time of creation and expire_plus can take its place"
        return [
            Line("expire_at", guess, why, sure=False),
            Line("expire_plus", "30m", "how long an order may stay unpaid", sure=False),
        ]

    def _range(self, column: FoundColumn) -> str:
        values = self._sample.values(column.name)
        empty = len(self._sample.rows) - len(values)
        return f"{min(values)} to {max(values)}, {empty} empty {self._sample.how}" if values else "no value was seen"

    def _closed_at(self) -> Line:
        times = time_columns(self._table)
        found = words.best(times, words.CLOSED_AT)
        if len(found) == 1:
            return Line("closed_at", found[0].name, "named like the time of closing")
        perhaps = found or words.best(times, words.MAYBE_CLOSED_AT)
        if perhaps:
            names = ", ".join(column.name for column in perhaps)
            return Line("closed_at", perhaps[0].name, f"may be the time of closing: {names}", sure=False)
        return Line("closed_at", "", "no such column")

    def _time_form(self, columns: list[FoundColumn]) -> Line:
        if not columns:
            return Line("time_form", "instant", "how times are held follows from the columns", sure=False)
        read = {column.name: self._form_of(column) for column in columns}
        forms = {form for form, _, _ in read.values()}
        why = "\n".join(f"{name}: {words_of_it}" for name, (_, words_of_it, _) in read.items())
        value = forms.pop() if len(forms) == 1 else {name: form for name, (form, _, _) in read.items()}
        return Line("time_form", value, why, sure=all(certain for _, _, certain in read.values()))

    def _form_of(self, column: FoundColumn) -> tuple[str, str, bool]:
        if column.kind == "instant":
            return "instant", "the column keeps the zone", True
        if column.kind == "integer":
            return self._epoch(column)
        return self._naive()

    def _epoch(self, column: FoundColumn) -> tuple[str, str, bool]:
        values = [value for value in self._sample.values(column.name) if value]
        if not values:
            guess = "epoch_ms" if words.spelled(column.name).endswith("ms") else "epoch_s"
            return guess, f"{self._unread}an integer without any value to judge by", guess == "epoch_ms"
        form = "epoch_ms" if max(values) > _SECONDS_AT_MOST else "epoch_s"
        return form, f"values such as {max(values)}", True

    def _naive(self) -> tuple[str, str, bool]:
        """Judge by the newest order: a local clock is some quarters of an hour apart from UTC."""
        created = words.best(self._table.of_kind("naive"), words.CREATED)
        values = [one for column in created for one in self._sample.values(column.name) if isinstance(one, datetime)]
        if not values:
            why = f"{self._unread}no zone in the column, and no time of creation to judge by: UTC, or a zone?"
            return "instant", why, False
        ahead = max(values) - self._shop.clock.replace(tzinfo=None)
        if -_LATELY < ahead <= timedelta(seconds=5):
            return "instant", f"{created[0].name} of the newest order is {max(values)}, as UTC is now", True
        quarters = -(-ahead // _QUARTER)
        hours = quarters / 4
        if ahead > timedelta(0) and quarters * _QUARTER - ahead < _LATELY:
            return "Area/City", f"local time, {hours:g} hours ahead of UTC or more: name its zone", False
        return "instant", f"the newest order is of {max(values)}: too old to tell UTC from local time", False

    def _only(self, deadline: str) -> Iterator[Line]:
        deleted = [column for column in self._table.columns if words.says(column, words.SOFT_DELETE)]
        conditions = [
            f"{column.name} = 0" if column.kind == "integer" else f"{column.name} is null" for column in deleted
        ]
        if deadline and 0 in self._sample.values(deadline):
            conditions.append(f"{deadline} > 0")
        if conditions:
            why = "rows that look deleted, or 0 for no deadline, should not be closed"
            yield Line("only", " and ".join(conditions), why, sure=False)

    # The rest

    def _text(self, role: str, sure: Any, perhaps: Any, what: str) -> Line:  # noqa: ANN401 -- compiled patterns
        texts = [column for column in self._table.of_kind("text") if column.name not in _keys(self._table)]
        found = words.best(texts, sure)
        if len(found) == 1:
            return Line(role, found[0].name, f"named like {what}")
        maybe = found or words.best(texts, perhaps)
        if maybe:
            return Line(role, maybe[0].name, f'may be {what}; "" for no such column', sure=False)
        return Line(role, "", "no such column")

    def _category(self) -> Line:
        named = [
            column
            for column in self._table.of_kind("text", "integer")
            if words.CATEGORY.search(words.spelled(column.name))
        ]
        found = [column for column in named if not words.says(column, words.NO_CATEGORY)]
        if found:
            why = 'chooses the time-out where duetime places orders; "" if it means something else'
            return Line("category", found[0].name, why, sure=False)
        return Line("category", "", "no such column")

    def _money(self) -> Iterator[Line]:
        counted = [
            column for column in self._table.of_kind("integer", "decimal") if column.name not in _keys(self._table)
        ]
        named = words.best([column for column in counted if not _is_time(column)], words.AMOUNT)
        to_pay = [column for column in named if words.says(column, words.TO_PAY)]
        found = to_pay if len(to_pay) == 1 else named
        if not found:
            yield Line("amount", "", "no such column")
            yield Line("currency", "", "no amount, no currency")
            return
        others = ", ".join(column.name for column in named)
        yield Line("amount", found[0].name, f"named like an amount: {others}", sure=len(found) == 1)
        form = "decimal" if found[0].kind == "decimal" else "minor"
        yield Line("amount_form", form, f"{found[0].name} is {found[0].kind}", sure=len(found) == 1)
        money = words.best(self._table.of_kind("text"), words.CURRENCY)
        if money:
            yield Line("currency", money[0].name, "named like a currency", sure=len(money) == 1)
        else:
            yield Line("currency", "=EUR", "no such column: name the one currency of all orders", sure=False)

    def _version(self) -> Iterator[Line]:
        counted = [column for column in self._table.of_kind("integer") if column.name not in _keys(self._table)]
        found = words.best(counted, words.VERSION)
        if found:
            values = {column.name: f"{column.quoted} + 1" for column in found}
            why = "a program that compares it at every write has to notice ours; {} if it means something else"
            yield Line("set", values, why, sure=False)


def _keys(table: FoundTable) -> set[str]:
    unique = {columns[0] for columns in table.unique if len(columns) == 1}
    return {*table.primary_key, *unique, *(name for key in table.foreign_keys for name in key.columns)}


def labels_of(shop: FoundShop, table: FoundTable, column: FoundColumn) -> dict[str | int, str]:
    """Answer what a column's values mean: by a table that it points to, by its comment, or by themselves."""
    key = table.key_of(column.name)
    named = shop.table(key.table) if key is not None else None
    if key is not None and named is not None and named.of_kind("text"):
        label = named.of_kind("text")[0].name
        rows = shop.sample(named).rows
        return {row[key.target[0]]: str(row[label]) for row in rows if row.get(label) is not None}
    commented = words.labels_in(column.comment)
    if commented and column.kind == "integer":
        return commented
    values = [*column.choices, *shop.sample(table).values(column.name)]
    texts = dict.fromkeys(value.rstrip() for value in values if isinstance(value, str))
    return {**{value: value for value in texts}, **{value: commented[value] for value in texts if value in commented}}


def values_seen(sample: Sample, column: FoundColumn, labels: dict[str | int, str]) -> str:
    """List the values of a column with their counts and what they are called, a line each."""
    counted = Counter(value.rstrip() if isinstance(value, str) else value for value in sample.values(column.name))
    rows = [f"  {_said(value, labels)}: {count}" for value, count in counted.most_common(_SHOWN)]
    unseen = [_said(value, labels) for value in labels if value not in counted]
    return "\n".join([*rows, *([f"  not seen: {', '.join(unseen)}"] if unseen else [])])


def _said(value: object, labels: dict[str | int, str]) -> str:
    label = labels.get(value) if isinstance(value, str | int) else None
    return f"{value} ({label})" if label and label != value else str(value)
