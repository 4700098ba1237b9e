"""Instants of the shop's columns in plain SQL: a deadline to write, and what a stored one says in a fact.

What SQL cannot say on every server (local time of a zone with summer time, where MySQL may have no zone tables) is left
to the program, as a parameter; the text says so.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from duetime.stores.sql.plain.words import FORMAT, Words
from duetime.stores.sql.times import Dates, Epochs, Instants, LocalTimes, MySQLTimestamps, Shifted, Texts, TimeForm

_EPOCHS: Final = {"epoch_s": 1, "epoch_ms": 1000}

_SESSION_AFTER: Final = (
    "(SELECT IF(UNIX_TIMESTAMP(FROM_UNIXTIME(at)) < at, FROM_UNIXTIME(at + 3600), FROM_UNIXTIME(at)) "
    "FROM (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) * 0.000001 + {seconds} AS at) AS later)"
)
"""``NOW(6)`` and some minutes can be a time that is skipped, or one that comes twice and has passed already."""


@dataclass(frozen=True, slots=True)
class PlainTime:
    """One column of time: the name of its form, and whether the column itself knows the zone."""

    dialect: str
    words: Words
    form: str
    zoned: bool = False
    session: bool = False
    """A MySQL ``TIMESTAMP``, which is seen in the session's zone."""

    def after(self, seconds: str) -> str | None:
        """Say *so many seconds from now* as the column holds it; None where a program must say it."""
        scale = _EPOCHS.get(self.form)
        if self.dialect == "postgresql":
            at = f"statement_timestamp() + {seconds} * INTERVAL '1 second'"
            if scale:
                return f"CAST(ceil(extract(epoch FROM {at}) * {scale}) AS bigint)"
            return at if self.zoned else f"({at}) AT TIME ZONE {self.words.literal(self._zone)}"
        if self.dialect == "mysql":
            return self._mysql_after(seconds, scale)
        at = f"'now', '+' || {seconds} || ' seconds'"
        if scale:
            return f"CAST(strftime('%s', {at}) AS INTEGER) * {scale} + {scale}"
        return None if self._offset != 0 else f"strftime('%Y-%m-%d %H:%M:%f000', {at})"

    def _mysql_after(self, seconds: str, scale: int | None) -> str | None:
        if scale:
            now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
            return f"CEIL(({now} / 1000000 + {seconds}) * {scale})"
        if self.session:
            return _SESSION_AFTER.format(seconds=seconds)
        offset = self._offset
        if offset is None:
            return None
        local = f" + INTERVAL {offset} SECOND" if offset else ""
        return f"UTC_TIMESTAMP(6) + INTERVAL {seconds} SECOND{local}"

    def written(self, own: str) -> str | None:
        """Say an instant of our own tables as the column holds it; None where a program must say it."""
        scale = _EPOCHS.get(self.form)
        if self.dialect == "postgresql":
            if scale:
                return f"(SELECT CAST(ceil(extract(epoch FROM moment) * {scale}) AS bigint) FROM {own})"
            return (
                f"(SELECT moment{'' if self.zoned else ' AT TIME ZONE ' + self.words.literal(self._zone)} FROM {own})"
            )
        if self.dialect == "mysql":
            return self._mysql_written(own, scale)
        if scale:
            return f"(SELECT CAST(strftime('%s', moment) AS INTEGER) * {scale} FROM {own})"
        return None if self._offset != 0 else f"(SELECT moment FROM {own})"

    def _mysql_written(self, own: str, scale: int | None) -> str | None:
        if scale:
            return f"(SELECT CEIL(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', moment) * {scale} / 1000000) FROM {own})"
        if self.session:
            return f"(SELECT CONVERT_TZ(moment, '+00:00', @@session.time_zone) FROM {own})"
        offset = self._offset
        local = f" + INTERVAL {offset} SECOND" if offset else ""
        return None if offset is None else f"(SELECT moment{local} FROM {own})"

    def told(self, column: str, plus: timedelta | None = None) -> str | None:
        """Say what the column means, as facts write it; None where a program must say it."""
        more = 0 if plus is None else int(plus.total_seconds())
        scale = _EPOCHS.get(self.form)
        if self.dialect == "postgresql":
            at = f"to_timestamp({column} / {scale}.0)" if scale else column
            at = at if scale or self.zoned else f"({column} AT TIME ZONE {self.words.literal(self._zone)})"
            at = f"({at} + INTERVAL '{more} seconds')" if more else at
            return f"to_char({at} AT TIME ZONE 'UTC', {FORMAT})"
        utc = self._mysql_utc(column, scale, more) if self.dialect == "mysql" else self._sqlite_utc(column, scale, more)
        return None if utc is None else self.words.instant(utc)

    def _mysql_utc(self, column: str, scale: int | None, more: int) -> str | None:
        if self.session:
            column, scale = f"UNIX_TIMESTAMP({column})", 1
        if scale:
            return f"(TIMESTAMP('1970-01-01') + INTERVAL ({column} * {1_000_000 // scale} + {more}000000) MICROSECOND)"
        offset = self._offset
        if offset is None:
            return None
        return f"({column} + INTERVAL {more - offset} SECOND)" if more - offset else column

    def _sqlite_utc(self, column: str, scale: int | None, more: int) -> str | None:
        if scale:
            return f"strftime('%Y-%m-%d %H:%M:%f', {column} / {scale}.0 + {more}, 'unixepoch')"
        if self._offset != 0:
            return None
        return f"strftime('%Y-%m-%d %H:%M:%f', {column}, '+{more} seconds')" if more else column

    @property
    def _zone(self) -> str:
        return "UTC" if self.form == "instant" else self.form

    @property
    def _offset(self) -> int | None:
        """Seconds by which the zone is ahead of UTC; None where that changes, as with summer time."""
        if self.form in {"instant", "UTC"}:
            return 0
        zone, days = ZoneInfo(self.form), range(0, 5 * 365, 15)
        offsets = {
            (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)).astimezone(zone).utcoffset() for day in days
        }
        (offset,) = offsets if len(offsets) == 1 else (None,)
        return None if offset is None else int(offset.total_seconds())


def plain_time(dialect: str, words: Words, form: TimeForm) -> PlainTime:
    """Answer how a column of the order table holds time."""
    while isinstance(form, Dates | Shifted | Texts):
        form = form.form
    match form:
        case Epochs(unit=unit):
            return PlainTime(dialect, words, "epoch_ms" if unit < timedelta(seconds=1) else "epoch_s")
        case LocalTimes(zone=zone):
            return PlainTime(dialect, words, str(zone))
        case MySQLTimestamps():
            return PlainTime(dialect, words, "instant", session=True)
        case _:
            return PlainTime(dialect, words, "instant", zoned=isinstance(form, Instants) and form.zoned)
