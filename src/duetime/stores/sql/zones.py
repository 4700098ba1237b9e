"""Local times of a zone as instants, through the changes of its clock.

Twice a year most clocks jump. Set back, an hour of local times comes twice, and a column without a zone cannot say
which pass it means; set forward, an hour never comes, but shops that add half an hour to a local time write it all
the same. One rule answers both, and never too early: of the two instants that a local time can mean, the later one.
That is the second pass of a repeated hour, and for a skipped one the offset before the change (02:15 is what 01:45
and half an hour come to).

So instants do not grow with local times: through a skipped hour 02:59 is later than 03:00. A scan up to one local
time therefore stops before the first one that has not passed (``first_unpassed``).

Zones change by whole seconds, and never twice within hours.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Final

TICK: Final = timedelta(microseconds=1)

_STEP: Final = timedelta(hours=3)
_REACH: Final = 10
"""So many steps before and after an instant: more than a day, which is the most that a clock ever jumped."""


def instant_of(local: datetime, zone: tzinfo) -> datetime:
    """Answer the later of the instants that a local time (naive) can mean."""
    readings = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return max(readings)


def local_of(instant: datetime, zone: tzinfo) -> datetime:
    """Answer what the zone's clocks show at an instant."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def first_unpassed(instant: datetime, zone: tzinfo) -> datetime:
    """Answer the earliest local time (naive, in microseconds) that means something later than ``instant``."""
    utc = instant.astimezone(UTC)
    start, offset = (utc - _REACH * _STEP).replace(tzinfo=None), _offset(utc - _REACH * _STEP, zone)
    for changed_at, after in _changes(utc, zone):
        # A skipped hour is read by the offset before the change, a repeated one by that after it: both end here.
        end = (changed_at + after).replace(tzinfo=None)
        first = max(start, (utc + offset).replace(tzinfo=None) + TICK)
        if first < end:
            return first
        start, offset = end, after
    return max(start, (utc + offset).replace(tzinfo=None) + TICK)


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta(0)


def _changes(around: datetime, zone: tzinfo) -> list[tuple[datetime, timedelta]]:
    """Answer the changes around an instant: when, and the offset from then on."""
    middle = around.replace(microsecond=0)
    looks = [middle + n * _STEP for n in range(-_REACH, _REACH + 1)]
    offsets = [_offset(look, zone) for look in looks]
    return [
        (_between(before, after, zone), new)
        for (before, old), (after, new) in pairwise(zip(looks, offsets, strict=True))
        if old != new
    ]


def _between(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """Answer the second in which the offset became what it is ``after``."""
    new = _offset(after, zone)
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        if _offset(middle, zone) == new:
            after = middle
        else:
            before = middle
    return after
