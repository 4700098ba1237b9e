"""How single values are written in the config: durations, rates, instants and names.

Every reader takes what TOML, the environment or a Python caller gave, and raises ``ValueError`` with a sentence
that says what is allowed. The sentence never repeats the value: it may be a password in the wrong place.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

LONGEST_DURATION: Final = timedelta(days=36_500)
LONGEST_NAME: Final = 128

_STEPS: Final = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("m", timedelta(minutes=1)),
    ("s", timedelta(seconds=1)),
    ("ms", timedelta(milliseconds=1)),
)
_DURATION: Final = re.compile("".join(rf"(?:([0-9]{{1,12}}){unit})?" for unit, _ in _STEPS))
_UNIT_NEEDED: Final = 'a duration needs a unit: "250ms", "45s", "30m", "2h", "7d" or a sum such as "1h30m"'
_TOO_LONG: Final = 'a duration is at most "36500d"'
_RATE: Final = 'a rate is a number above 0 (per second), or "unlimited"'
_INSTANT: Final = 'an instant needs a date, a time and a zone: "2026-01-31T08:00:00+08:00" or "2026-01-31T00:00:00Z"'


class CombinationError(ValueError):
    """Values that are right one by one and cannot stand together.

    ``problems`` pairs the key at fault, seen from the section that was checked, with a sentence.
    """

    def __init__(self, *problems: tuple[str, str]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{key}: {sentence}" if key else sentence for key, sentence in problems))


@dataclass(frozen=True)
class Kind:
    """One kind of config value.

    ``words`` name it in the reference; ``read`` turns what was written into the value or raises ``ValueError``.
    ``as_text``: an environment variable is taken letter by letter; otherwise it may also be written as JSON.
    ``secret``: the value is never shown in an error. ``absent`` is what is written where the value is ``None``.
    """

    words: str
    read: Callable[[Any], Any]
    as_text: bool = True
    secret: bool = False
    absent: str = ""

    def __get_pydantic_core_schema__(self, _source: object, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate by ``read`` alone, so that no conversion of pydantic's own comes before it."""
        return core_schema.no_info_plain_validator_function(self.read)


def parse_duration(value: object) -> timedelta:
    """Read a duration such as "45s", "30m", "2h", "7d", "250ms" or "1h30m".

    Raises ``ValueError`` for a bare number, an unknown unit, units out of order, and more than 100 years.
    """
    if isinstance(value, timedelta):
        return _bounded(value)
    match = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if match is None:
        raise ValueError(_UNIT_NEEDED)
    try:
        return _bounded(
            sum((int(n or 0) * step for n, (_, step) in zip(match.groups(), _STEPS, strict=True)), timedelta())
        )
    except OverflowError:
        raise ValueError(_TOO_LONG) from None


def _bounded(duration: timedelta) -> timedelta:
    if duration < timedelta():
        raise ValueError('a duration is never negative: "0s" or more')
    if duration > LONGEST_DURATION:
        raise ValueError(_TOO_LONG)
    return duration


def format_duration(duration: timedelta) -> str:
    """Write a duration as the config would, to the millisecond: "1h30m". Raises ``ValueError`` below zero."""
    rest = _bounded(duration)
    parts = []
    for unit, step in _STEPS:
        count, rest = divmod(rest, step)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _optional_duration(value: object) -> timedelta | None:
    return None if value in ("", None) else parse_duration(value)


def _retention(value: object) -> timedelta | None:
    if value in ("forever", None):
        return None
    try:
        return parse_duration(value)
    except ValueError as problem:
        raise ValueError(f'{problem}; "forever" is allowed too') from None


def _margin(value: object) -> timedelta | Literal["auto"]:
    if value == "auto":
        return "auto"
    try:
        return parse_duration(value)
    except ValueError as problem:
        raise ValueError(f'{problem}; "auto" is allowed too') from None


def duration(lowest: timedelta) -> Kind:
    """Return the kind of a duration that must not be below ``lowest``."""

    def read(value: object) -> timedelta:
        found = parse_duration(value)
        if found < lowest:
            raise ValueError(f'"{format_duration(lowest)}" or more is allowed')
        return found

    return Kind(f"duration, {format_duration(lowest)} or more", read)


def parse_rate(value: object) -> float | None:
    """Read a rate in units per second; ``None`` stands for "unlimited". Raises ``ValueError``."""
    if value in ("unlimited", None):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ValueError(_RATE)
    return float(value)


def parse_instant(value: object) -> datetime | None:
    """Read an instant with its zone, as UTC; ``None`` for "". Raises ``ValueError`` where the zone is missing."""
    if value in ("", None):
        return None
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
        instant = found.astimezone(UTC) if isinstance(found, datetime) and found.tzinfo else None
    except (ValueError, OverflowError):
        instant = None
    if instant is None:
        raise ValueError(_INSTANT)
    return instant


def whole(lowest: int, highest: int) -> Kind:
    """Return the kind of a whole number within both bounds."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
            raise ValueError(f"a whole number from {lowest} to {highest} is allowed")
        return value

    return Kind(f"whole number, {lowest} to {highest}", read, as_text=False)


def read_text(value: object) -> str:
    """Read text that a database can store. Raises ``ValueError`` for other kinds, NUL and broken characters."""
    if not isinstance(value, str):
        raise ValueError("text in quotes is allowed")  # noqa: TRY004 -- pydantic only collects ValueError
    if "\0" in value:
        raise ValueError("a NUL character is not allowed")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError("characters that are not valid UTF-8 are not allowed")
    return value


def read_name(value: object) -> str:
    """Read a name of 1 to 128 characters. Raises ``ValueError``."""
    text = read_text(value)
    if not text.strip():
        raise ValueError("an empty name is not allowed")
    if len(text) > LONGEST_NAME:
        raise ValueError(f"a name has at most {LONGEST_NAME} characters")
    return text


def optional(read: Callable[[object], str]) -> Callable[[object], str | None]:
    """Return a reader for which "" means that there is no such thing."""

    def read_optional(value: object) -> str | None:
        return None if value in ("", None) else read(value)

    return read_optional


Duration = Annotated[timedelta, Kind("duration", parse_duration)]
OptionalDuration = Annotated[timedelta | None, Kind('duration or ""', _optional_duration)]
Retention = Annotated[timedelta | None, Kind('duration or "forever"', _retention, absent="forever")]
Margin = Annotated[timedelta | Literal["auto"], Kind('duration or "auto"', _margin)]
Rate = Annotated[float | None, Kind('number above 0 or "unlimited"', parse_rate, as_text=False, absent="unlimited")]
Instant = Annotated[datetime | None, Kind('instant with zone or ""', parse_instant)]
Text = Annotated[str, Kind("text", read_text)]
OptionalText = Annotated[str | None, Kind('text or ""', optional(read_text))]
Name = Annotated[str, Kind("name", read_name)]
OptionalName = Annotated[str | None, Kind('name or ""', optional(read_name))]
