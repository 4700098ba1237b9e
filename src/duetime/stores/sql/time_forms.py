"""Which form a column of time has: what the configuration says, held against the column's type."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from sqlalchemy import Column, DateTime, Float, Integer, Numeric, String
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.types import BigInteger, TypeEngine

from duetime.stores.sql.times import (
    SECOND_DIGITS,
    Dates,
    Epochs,
    Instants,
    LocalTimes,
    MySQLTimestamps,
    SQLiteText,
    Texts,
    TimeForm,
    UnixTime,
)

INSTANT: Final = "instant"
EPOCHS: Final[Mapping[str, timedelta]] = {"epoch_s": timedelta(seconds=1), "epoch_ms": timedelta(milliseconds=1)}

_WRITE: Final = "write in orders.time_form"
_READS: Final = (
    'duetime reads timestamp and datetime columns ("instant", or the name of a time zone) and '
    'integer, bigint and decimal columns ("epoch_s", "epoch_ms")'
)


class Unfit(Exception):
    """A column's type does not fit; the words go on from "column x is …,"."""


@dataclass
class TimeForms:
    """``[orders] time_form``: one form for all columns, or a table by "column" or "table.column"."""

    said: str | Mapping[str, str]
    dialect: str

    def __post_init__(self) -> None:
        """Remember which keys of the table name a column."""
        self._used: set[str] = set()

    def of(self, column: Column[Any], tables: Sequence[str]) -> TimeForm:
        """Answer the form of a column whose table goes by any of ``tables``, and give the column the type it needs.

        Raises:
            Unfit: the column's type does not fit; the words say what would.
        """
        word = self._word(column.name, tables)
        form = _form(word, column.type, self.dialect)
        if isinstance(form, MySQLTimestamps):
            column.type = UnixTime()
        elif isinstance(form, Texts):
            column.type = SQLiteText()
        return form

    def _word(self, column: str, tables: Sequence[str]) -> str:
        if isinstance(self.said, str):
            return self.said
        names = [*(f"{table}.{column}" for table in tables), column]
        found = [name for name in names if name in self.said]
        self._used |= set(found)
        return self.said[found[0]] if found else INSTANT

    def unused(self) -> Iterator[str]:
        """Name the keys of the table that no column of time goes by."""
        if not isinstance(self.said, str):
            yield from (name for name in self.said if name not in self._used)


def _form(word: str, kind: TypeEngine[Any], dialect: str) -> TimeForm:
    if word in EPOCHS:
        return _epochs(word, kind, dialect)
    zone = None if word == INSTANT else ZoneInfo(word)
    if dialect == "sqlite" and isinstance(kind, DateTime | String):
        return Texts(Instants(zoned=False) if zone is None else LocalTimes(zone))
    if isinstance(kind, DateTime):
        return _dates(zone, kind)
    if isinstance(kind, Integer | Numeric) and not isinstance(kind, Float):
        raise Unfit(f'which is a number: {_WRITE} "epoch_s" or "epoch_ms" for it')
    raise Unfit(f"which holds no instants; {_READS}")


def _dates(zone: ZoneInfo | None, kind: DateTime) -> TimeForm:
    zoned = bool(kind.timezone)
    if zone is not None and (zoned or isinstance(kind, mysql.TIMESTAMP)):
        raise Unfit(f'which holds the instant itself, not what a clock shows: {_WRITE} "instant" for it')
    if isinstance(kind, mysql.TIMESTAMP):
        return MySQLTimestamps(kind.fsp or 0)
    digits = SECOND_DIGITS
    if isinstance(kind, mysql.DATETIME):
        digits = kind.fsp or 0
    elif isinstance(kind, postgresql.TIMESTAMP) and kind.precision is not None:
        digits = kind.precision
    form = Instants(zoned, digits) if zone is None else LocalTimes(zone, digits)
    return Dates(form, above=not isinstance(kind, mysql.DATETIME))


def _epochs(word: str, kind: TypeEngine[Any], dialect: str) -> TimeForm:
    if isinstance(kind, Integer):
        if word == "epoch_ms" and dialect != "sqlite" and not isinstance(kind, BigInteger):
            raise Unfit("which is too short for milliseconds since 1970: a bigint column holds them")
        return Epochs(EPOCHS[word])
    if isinstance(kind, Numeric) and not isinstance(kind, Float):
        scale = SECOND_DIGITS if kind.scale is None else min(kind.scale, SECOND_DIGITS)
        return Epochs(EPOCHS[word], scale)
    if isinstance(kind, DateTime):
        raise Unfit(f'which holds dates and no number: {_WRITE} "instant" or the name of a time zone for it')
    raise Unfit(f"which holds no instants; {_READS}")
