"""Instants as the shop's columns hold them.

A ``TimeForm`` says both: which value stands for an instant, and how SQL compares the column with it. Statements never
compare a column of time themselves.

* ``written``: the value to store, never one that means an earlier instant. A column coarser than a microsecond is
  rounded **up**: rounded down, or to the nearest as databases do by themselves, an order could close before the
  deadline that its customer was shown.
* ``bound``: the largest value such that it *and every smaller one* has passed in every reading, so that an index can
  be read up to it and nothing before it is early.
* ``read``: the instant that a stored value means. What is none is no deadline: one row that nobody can read (MySQL's
  zero date, 0 in a column of seconds, text that is no date) must not stop all others.

What each form does in the two hours of a year that are not like others:

====================  =============================================  ==========================================
form                  the hour that comes twice                      the hour that is skipped
====================  =============================================  ==========================================
instant, epoch        nothing happens                                nothing happens
MySQL ``TIMESTAMP``   read right; written up to one hour late        nothing happens
a zone's local time   counts as the second pass: up to an hour late  what follows waits for it: up to an hour late
====================  =============================================  ==========================================
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Dialect,
    Numeric,
    String,
    TypeDecorator,
    and_,
    func,
    literal_column,
    or_,
    text,
    type_coerce,
)
from sqlalchemy.dialects import sqlite

from duetime.stores.sql.dialect import bind, unindexed
from duetime.stores.sql.zones import TICK, first_unpassed, instant_of, local_of

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SECOND_DIGITS: Final = 6
HOUR_SECONDS: Final[ColumnElement[Any]] = literal_column("3600")
NOTHING: Final[ColumnElement[Any]] = literal_column("0")
FIRST_DATE: Final[ColumnElement[Any]] = literal_column("'0001-01-03'")
LAST_DATE: Final[ColumnElement[Any]] = literal_column("'9999-12-29'")
"""What can be read as a date in every zone lies between."""

SECOND_DAY: Final[ColumnElement[Any]] = literal_column("'1970-01-02'")
"""Later than a ``TIMESTAMP`` of 0, whatever the zone."""


class TimeForm(ABC):
    """How one column holds instants."""

    # Values

    @abstractmethod
    def written(self, instant: datetime) -> Any:  # noqa: ANN401 - whatever the column holds
        """Answer the value to store for ``instant``, never one that means an earlier one."""

    @abstractmethod
    def bound(self, instant: datetime) -> Any:  # noqa: ANN401 - as above
        """Answer the largest value such that it and every smaller one is not after ``instant`` in any reading."""

    def latest(self, instant: datetime) -> Any:  # noqa: ANN401 - as above
        """Answer the largest value that is not after ``instant``: smaller ones can be, in a skipped hour."""
        return self.bound(instant)

    @abstractmethod
    def since(self, instant: datetime) -> Any:  # noqa: ANN401 - as above
        """Answer the smallest value that can mean ``instant`` or a later one."""

    @abstractmethod
    def read(self, value: Any) -> datetime | None:  # noqa: ANN401 - as above
        """Answer the instant that a stored value means, or None where it means none."""

    def page_key_of(self, instant: datetime) -> Any:  # noqa: ANN401 - as above
        """Answer a ``page_key`` before which everything is at or before ``instant``."""
        return self.bound(instant)

    # SQL

    def passed(self, column: Column[Any], name: str, *, indexed: bool = True) -> ColumnElement[bool]:
        """Say that the column's instant has passed by the ``bound`` bound as ``name``.

        Without ``indexed`` no index is offered: the rows are found by something else (see ``dialect.unindexed``).
        """
        place: ColumnElement[Any] = column if indexed else unindexed(column)
        return place <= self._bind(column, name)

    def reached(self, column: Column[Any], name: str) -> ColumnElement[bool]:
        """Say that the column's value is not before the ``since`` bound as ``name``."""
        return column >= self._bind(column, name)

    def page_key(self, column: Column[Any]) -> ColumnElement[Any]:
        """Answer the column as pages are sorted by it, to be given back to ``beyond``."""
        return column

    def beyond(self, column: Column[Any], name: str, tie: ColumnElement[bool]) -> ColumnElement[bool]:
        """Say that a row comes after the ``page_key`` bound as ``name``; ``tie`` decides between equals."""
        place = self.page_key(column)
        start = bind(name, place.type)
        return and_(place >= start, or_(place > start, tie))

    def absent(self, column: Column[Any]) -> tuple[ColumnElement[bool], ...]:
        """Answer conditions, one index range each and no row in two, of rows that have no instant."""
        return (column.is_(None),)

    def _bind(self, column: Column[Any], name: str) -> ColumnElement[Any]:
        return bind(name, column.type)


def _null(column: Column[Any]) -> tuple[ColumnElement[bool], ...]:
    """Say that a column is NULL; of one that cannot be MySQL would answer its zero dates."""
    return (column.is_(None),) if column.nullable else ()


@dataclass(frozen=True, slots=True)
class Instants(TimeForm):
    """The instant itself (``zoned``: a column with a time zone), or UTC in a column without one."""

    zoned: bool
    digits: int = SECOND_DIGITS

    def written(self, instant: datetime) -> datetime:
        """Round up to the column's digits."""
        return self._stored(_up(instant.astimezone(UTC), self.digits))

    def bound(self, instant: datetime) -> datetime:
        """Round down: the column holds nothing between."""
        return self._stored(_down(instant.astimezone(UTC), self.digits))

    def since(self, instant: datetime) -> datetime:
        """Round up: the column holds nothing between."""
        return self.written(instant)

    def read(self, value: Any) -> datetime | None:  # noqa: ANN401 - whatever the driver made of it
        """Take an instant in whatever zone the driver gave it."""
        if not isinstance(value, datetime):
            return None
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)

    def _stored(self, utc: datetime) -> datetime:
        return utc if self.zoned else utc.replace(tzinfo=None)


@dataclass(frozen=True, slots=True)
class LocalTimes(TimeForm):
    """What the clocks of a zone show, in a column without a zone."""

    zone: tzinfo
    digits: int = SECOND_DIGITS

    def written(self, instant: datetime) -> datetime:
        """Round the instant up before it is told by the clock: the second after a first pass is the second pass."""
        return local_of(_up(instant, self.digits), self.zone)

    def bound(self, instant: datetime) -> datetime:
        """End before the first local time that has not passed."""
        return _down(first_unpassed(instant, self.zone) - TICK, self.digits)

    def latest(self, instant: datetime) -> datetime:
        """Answer what the clock shows, unless it shows that for the first time."""
        shown = _down(local_of(instant, self.zone), self.digits)
        return shown if instant_of(shown, self.zone) <= instant else self.bound(instant)

    def since(self, instant: datetime) -> datetime:
        """Begin with the first local time that is not before."""
        return _up(first_unpassed(instant - TICK, self.zone), self.digits)

    def read(self, value: Any) -> datetime | None:  # noqa: ANN401 - whatever the driver made of it
        """Take the later of the instants that it can mean."""
        if not isinstance(value, datetime) or value.tzinfo is not None:
            return None
        try:
            return instant_of(value, self.zone)
        except OverflowError:
            return None


@dataclass(frozen=True, slots=True)
class Epochs(TimeForm):
    """Seconds or milliseconds since 1970 (``unit``), as whole numbers or with ``digits`` after the point.

    0 and less are no instant: that is what shops write for *never*.
    """

    unit: timedelta
    digits: int = 0

    def written(self, instant: datetime) -> int | Decimal:
        """Round up."""
        return self._number(-(-self._steps(instant) // self._unit))

    def bound(self, instant: datetime) -> int | Decimal:
        """Round down: the column holds nothing between."""
        return self._number(self._steps(instant) // self._unit)

    def since(self, instant: datetime) -> int | Decimal:
        """Round up: the column holds nothing between."""
        return self.written(instant)

    def read(self, value: Any) -> datetime | None:  # noqa: ANN401 - int or Decimal
        """Count from 1970, where that is a year that can be written."""
        try:
            return EPOCH + timedelta(microseconds=_up_to_int(value * self._unit)) if value > 0 else None
        except (TypeError, OverflowError, ArithmeticError):
            return None

    def passed(self, column: Column[Any], name: str, *, indexed: bool = True) -> ColumnElement[bool]:
        """Leave out what is no instant."""
        place: ColumnElement[Any] = column if indexed else unindexed(column)
        return and_(place > NOTHING, place <= self._bind(column, name))

    def absent(self, column: Column[Any]) -> tuple[ColumnElement[bool], ...]:
        """Count 0 and less among them."""
        return (column.is_(None), column <= NOTHING)

    def _bind(self, column: Column[Any], name: str) -> ColumnElement[Any]:
        # An integer column of 32 bits must not cut what it is compared with.
        return bind(name, column.type if self.digits else BigInteger())

    @property
    def _unit(self) -> int:
        return self.unit // TICK

    def _steps(self, instant: datetime) -> int:
        scale: int = 10**self.digits
        return ((instant - EPOCH) // TICK) * scale

    def _number(self, steps: int) -> int | Decimal:
        return Decimal(steps).scaleb(-self.digits) if self.digits else steps


class UnixTime(TypeDecorator[Decimal]):
    """A MySQL ``TIMESTAMP`` as seconds since 1970: read right in any session zone, and in the hour that comes twice.

    Written through the session's zone there is no way to say which pass is meant. The server takes one of them; where
    that one is earlier than what was asked for, an hour later is written, which comes only once.
    """

    impl = Numeric
    cache_ok = True

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Read it as a number."""
        return func.unix_timestamp(column, type_=self)

    def bind_expression(self, bindvalue: Any) -> ColumnElement[Any]:  # noqa: ANN401 - as SQLAlchemy declares it
        """Write the first value that does not mean an earlier instant."""
        at = type_coerce(bindvalue, Numeric())
        told = func.from_unixtime(at)
        return func.if_(func.unix_timestamp(told) < at, func.from_unixtime(at + HOUR_SECONDS), told)


@dataclass(frozen=True, slots=True)
class MySQLTimestamps(TimeForm):
    """MySQL's ``TIMESTAMP``: an instant, but seen through the session's zone, which stays the server's own.

    Compared as a number it is right at any time, and no index serves. So an index range comes first, wide enough for
    whatever the session's clock shows: in the hour after a change all that the clock showed before, else exact.
    """

    digits: int = 0

    def written(self, instant: datetime) -> Decimal:
        """Round up."""
        return _unix(_up(instant, self.digits))

    def bound(self, instant: datetime) -> Decimal:
        """Round down: the column holds nothing between."""
        return _unix(_down(instant, self.digits))

    def since(self, instant: datetime) -> Decimal:
        """Round up: the column holds nothing between."""
        return self.written(instant)

    def read(self, value: Any) -> datetime | None:  # noqa: ANN401 - int or Decimal
        """Count from 1970; the zero date is 0."""
        return EPOCH + timedelta(microseconds=int(value * 1_000_000)) if value else None

    def passed(self, column: Column[Any], name: str, *, indexed: bool = True) -> ColumnElement[bool]:
        """Compare the numbers, within an index range that leaves nothing out."""
        at, number = bind(name, Numeric()), func.unix_timestamp(column)
        exact = and_(number > NOTHING, number <= at)
        return and_(column <= _latest_shown(at), exact) if indexed else exact

    def reached(self, column: Column[Any], name: str) -> ColumnElement[bool]:
        """Compare the numbers, within an index range that leaves nothing out."""
        at = bind(name, Numeric())
        return and_(column >= _earliest_shown(at), func.unix_timestamp(column) >= at)

    def page_key(self, column: Column[Any]) -> ColumnElement[Any]:
        """Answer the number, which grows as the index does."""
        return func.unix_timestamp(column, type_=Numeric())

    def beyond(self, column: Column[Any], name: str, tie: ColumnElement[bool]) -> ColumnElement[bool]:
        """Compare the numbers, within an index range that leaves nothing out."""
        at, number = bind(name, Numeric()), func.unix_timestamp(column)
        return and_(column >= _earliest_shown(at), or_(number > at, and_(number == at, tie)))

    def absent(self, column: Column[Any]) -> tuple[ColumnElement[bool], ...]:
        """Count the zero date among them."""
        return (*_null(column), and_(column < SECOND_DAY, func.unix_timestamp(column) == NOTHING))


@dataclass(frozen=True, slots=True)
class _Wrapped(TimeForm):
    """A form that is another one, but for what a subclass says."""

    form: TimeForm

    def written(self, instant: datetime) -> Any:  # noqa: ANN401 - as the other form does
        return self.form.written(instant)

    def bound(self, instant: datetime) -> Any:  # noqa: ANN401 - as above
        return self.form.bound(instant)

    def latest(self, instant: datetime) -> Any:  # noqa: ANN401 - as above
        return self.form.latest(instant)

    def since(self, instant: datetime) -> Any:  # noqa: ANN401 - as above
        return self.form.since(instant)

    def read(self, value: Any) -> datetime | None:  # noqa: ANN401 - as above
        return self.form.read(value)

    def page_key_of(self, instant: datetime) -> Any:  # noqa: ANN401 - as above
        return self.form.page_key_of(instant)

    def passed(self, column: Column[Any], name: str, *, indexed: bool = True) -> ColumnElement[bool]:
        return self.form.passed(column, name, indexed=indexed)

    def reached(self, column: Column[Any], name: str) -> ColumnElement[bool]:
        return self.form.reached(column, name)

    def page_key(self, column: Column[Any]) -> ColumnElement[Any]:
        return self.form.page_key(column)

    def beyond(self, column: Column[Any], name: str, tie: ColumnElement[bool]) -> ColumnElement[bool]:
        return self.form.beyond(column, name, tie)

    def absent(self, column: Column[Any]) -> tuple[ColumnElement[bool], ...]:
        return self.form.absent(column)


@dataclass(frozen=True, slots=True)
class Shifted(_Wrapped):
    """Deadlines that are another column's instants and a time (``plus``): counted between instants, not on clocks."""

    plus: timedelta

    def written(self, instant: datetime) -> Any:  # noqa: ANN401 - as the other form does
        """Write the instant from which the time counts."""
        return self.form.written(instant - self.plus)

    def bound(self, instant: datetime) -> Any:  # noqa: ANN401 - as above
        """Bound the instant from which the time counts."""
        return self.form.bound(instant - self.plus)

    def latest(self, instant: datetime) -> Any:  # noqa: ANN401 - as above
        """Bound the instant from which the time counts."""
        return self.form.latest(instant - self.plus)

    def since(self, instant: datetime) -> Any:  # noqa: ANN401 - as above
        """Bound the instant from which the time counts."""
        return self.form.since(instant - self.plus)

    def read(self, value: Any) -> datetime | None:  # noqa: ANN401 - as above
        """Add the time."""
        began = self.form.read(value)
        try:
            return None if began is None else began.astimezone(UTC) + self.plus
        except OverflowError:
            return None

    def page_key_of(self, instant: datetime) -> Any:  # noqa: ANN401 - as above
        """Answer the other form's key."""
        return self.form.page_key_of(instant - self.plus)


@dataclass(frozen=True, slots=True)
class Dates(_Wrapped):
    """A form in a column of dates, where some are none: MySQL's zero date, PostgreSQL's infinities and years BC.

    Shops write them for *never*. ``above``: there are some above all others, too.
    """

    above: bool

    def passed(self, column: Column[Any], name: str, *, indexed: bool = True) -> ColumnElement[bool]:
        """Leave out those below, where the index begins: they would be read anew by every sweep."""
        place: ColumnElement[Any] = column if indexed else unindexed(column)
        return and_(place >= FIRST_DATE, self.form.passed(column, name, indexed=indexed))

    def absent(self, column: Column[Any]) -> tuple[ColumnElement[bool], ...]:
        """Count what is no date among them."""
        above = (column > LAST_DATE,) if self.above else ()
        return (*_null(column), column < FIRST_DATE, *above)


@dataclass(frozen=True, slots=True)
class Texts(_Wrapped):
    """A form whose values SQLite keeps as text. Pages go by the text: one instant can be written in several."""

    def page_key_of(self, instant: datetime) -> str:
        """Answer the text that SQLAlchemy stores."""
        stored: datetime = self.form.bound(instant)
        return stored.isoformat(" ", "microseconds")

    def page_key(self, column: Column[Any]) -> ColumnElement[Any]:
        """Answer the text."""
        return type_coerce(column, String())

    def beyond(self, column: Column[Any], name: str, tie: ColumnElement[bool]) -> ColumnElement[bool]:
        """Compare the texts."""
        return TimeForm.beyond(self, column, name, tie)


class SQLiteText(TypeDecorator[datetime]):
    """SQLite's text as a date and time; text that is none is read as NULL instead of failing the whole page."""

    impl = sqlite.DATETIME
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:  # noqa: ANN401 - as SQLAlchemy declares it
        """Read what can be read."""
        strict = self.impl_instance.result_processor(dialect, coltype)

        def read(value: object) -> datetime | None:
            try:
                return strict(value) if strict is not None else None
            except (ValueError, TypeError):
                return None

        return read


def _up(moment: datetime, digits: int) -> datetime:
    return moment + timedelta(microseconds=-moment.microsecond % 10 ** (SECOND_DIGITS - digits))


def _down(moment: datetime, digits: int) -> datetime:
    return moment - timedelta(microseconds=moment.microsecond % 10 ** (SECOND_DIGITS - digits))


def _up_to_int(number: int | Decimal) -> int:
    return -int(-number // 1)


def _unix(instant: datetime) -> Decimal:
    return Decimal((instant - EPOCH) // TICK).scaleb(-SECOND_DIGITS)


def _latest_shown(at: ColumnElement[Any]) -> ColumnElement[Any]:
    """Answer the latest that the session's clock showed up to a number of seconds, or in the hour before."""
    before = func.date_add(func.from_unixtime(at - HOUR_SECONDS), text("INTERVAL 1 HOUR"))
    return func.greatest(func.from_unixtime(at), before)


def _earliest_shown(at: ColumnElement[Any]) -> ColumnElement[Any]:
    """Answer the earliest that the session's clock will show from a number of seconds on."""
    later = func.date_sub(func.from_unixtime(at + HOUR_SECONDS), text("INTERVAL 1 HOUR"))
    return func.least(func.from_unixtime(at), later)
