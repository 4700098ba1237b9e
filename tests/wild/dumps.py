"""Every row and column of a shop, and in what two such dumps differ."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from tests.wild.hands import ShopHand

MINUTE: Final = timedelta(minutes=1)
MILLISECONDS: Final = 10**11
"""A point in time counted since 1970 is above this in milliseconds, and below it in seconds."""

Row = Mapping[str, Any]
Dump = dict[tuple[str, tuple[Any, ...]], Row]
"""Rows by table and primary key."""


def dump(hand: ShopHand) -> Dump:
    """Read every row of every table of the shop."""
    found: Dump = {}
    for schema, table in hand.tables():
        names, rows = hand.rows(f"SELECT * FROM {hand.quote(schema)}.{hand.quote(table)}")
        key = hand.primary_key(schema, table)
        assert key, f"table {table} has no primary key: its rows could not be compared"
        for row in rows:
            values = dict(zip(names, row, strict=True))
            found[table, tuple(values[name] for name in key)] = values
    hand.rollback()
    return found


def differences(expected: Dump, found: Dump, now_columns: frozenset[tuple[str, str]]) -> list[str]:
    """Answer a sentence for each value that is not as expected."""
    said = [f"{table} {key} is gone" for table, key in expected.keys() - found.keys()]
    said += [f"{table} {key} is new: {found[table, key]}" for table, key in found.keys() - expected.keys()]
    for place in sorted(expected.keys() & found.keys(), key=repr):
        table, key = place
        said += [f"{table} {key}: {words}" for words in _in_row(table, expected[place], found[place], now_columns)]
    return said


def _in_row(table: str, expected: Row, found: Row, now_columns: frozenset[tuple[str, str]]) -> Iterator[str]:
    for column, wanted in expected.items():
        value = found[column]
        if value != wanted and not ((table, column) in now_columns and _near(wanted, value)):
            yield f"{column} should be {wanted!r} and is {value!r}"


def _near(wanted: object, value: object) -> bool:
    if isinstance(wanted, datetime) and isinstance(value, datetime):
        return abs(value - wanted) < MINUTE
    if isinstance(wanted, int) and isinstance(value, int):
        return abs(value - wanted) < (60_000 if wanted > MILLISECONDS else 60)
    return False
