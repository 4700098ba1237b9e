"""What is wrong with a config, in sentences: the key's path, what was found, what is allowed. Never a secret."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from difflib import get_close_matches
from typing import Final, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from duetime.config.keys import EACH, Key, dotted, pattern
from duetime.config.keys import Path as KeyPath
from duetime.units import CombinationError, format_duration

_LONGEST_SHOWN: Final = 80
_BIGINT: Final = 2**63
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}(?=://)")
_KEY_OF_TABLE: Final = "[key]"


def sentences(error: ValidationError, known: Mapping[KeyPath, Key], origins: Mapping[str, str]) -> list[str]:
    """Return a sentence for each thing that is wrong; ``origins`` names the variables that set keys."""
    found = []
    for detail in error.errors(include_url=False):
        for path, sentence in _explained(detail, known):
            origin = _origin(path, origins)
            found.append(f"{path}: {sentence}" + (f" (set by {origin})" if origin else ""))
    return found


def shown(value: object, *, secret: bool = False) -> str:
    """Write what was found so that a person recognises it; of a URL only the scheme, of a secret nothing."""
    if isinstance(value, str):
        return _shown_text(value, secret=secret)
    if secret:
        return "***"
    if isinstance(value, int) and abs(value) >= _BIGINT:
        return "a number beyond 64 bits"
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, timedelta) and value >= timedelta():
        return f'"{format_duration(value)}"'
    return str(value) if isinstance(value, date | time | datetime) else _kind_of(value)


def _shown_text(text: str, *, secret: bool) -> str:
    scheme = _SCHEME.match(text)
    if scheme or secret or "://" in text:
        return f"{scheme.group()}://***" if scheme else "***"
    cut = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
    return json.dumps(cut, ensure_ascii=not cut.isprintable())


def _kind_of(value: object) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    return "text" if isinstance(value, str) else f"a value of the kind {type(value).__name__}"


def _explained(detail: ErrorDetails, known: Mapping[KeyPath, Key]) -> Iterator[tuple[str, str]]:
    location = tuple(part for part in detail["loc"] if part != _KEY_OF_TABLE)
    key = known.get(pattern(location))
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, CombinationError):
        yield from ((_joined(location, sub), sentence) for sub, sentence in cause.problems)
    elif detail["type"] == "extra_forbidden":
        yield dotted(location), _unknown(pattern(location), known)
    elif detail["type"] == "missing":
        yield dotted(location), f"is missing; {_allowed(key)}"
    elif cause is not None:
        yield dotted(location), f"found {_found(detail, key, known)}; {cause}"
    else:
        yield dotted(location), f"found {_found(detail, key, known)}; {_allowed(key)}{_near_value(detail, key)}"


def _found(detail: ErrorDetails, key: Key | None, known: Mapping[KeyPath, Key]) -> str:
    # A section given as a single value may hold what belongs into one of its secret keys: only its kind is told.
    if key is not None and key.below is not None:
        return _kind_of(detail["input"])
    within = key or known.get(pattern(detail["loc"])[:-1])
    return shown(detail["input"], secret=within is not None and within.secret)


def _allowed(key: Key | None) -> str:
    if key is None:
        return "a table is allowed"
    if key.many:
        return f"a list of tables is allowed: [[{dotted(key.path)}]]"
    if key.kind is not None:
        return f"allowed is: {key.kind.words}"
    if get_origin(key.field.annotation) is Literal:
        return f"allowed: {listed(get_args(key.field.annotation))}"
    return "a table is allowed"


def listed(values: Iterable[str]) -> str:
    """Write choices in quotes: "a", "b" or "c"."""
    *first, last = (f'"{value}"' for value in values)
    return f"{', '.join(first)} or {last}" if first else last


def _near_value(detail: ErrorDetails, key: Key | None) -> str:
    if key is None or get_origin(key.field.annotation) is not Literal or not isinstance(detail["input"], str):
        return ""
    near = get_close_matches(detail["input"].lower(), get_args(key.field.annotation), n=1)
    return f'; did you mean "{near[0]}"?' if near else ""


def _unknown(path: KeyPath, known: Mapping[KeyPath, Key]) -> str:
    siblings = _siblings(path, known)
    near = get_close_matches(path[-1].lower(), siblings, n=1)
    if near:
        return f"no such key; did you mean {near[0]}?"
    elsewhere = [dotted(other) for other in known if other[-1] == path[-1] and EACH not in other]
    if elsewhere:
        return f"no such key; did you mean {' or '.join(elsewhere)}?"
    return f"no such key; known here: {', '.join(siblings)}"


def _siblings(path: KeyPath, known: Mapping[KeyPath, Key]) -> list[str]:
    return [other[-1] for other in known if other[:-1] == path[:-1] and other[-1] != EACH]


def _joined(location: tuple[str | int, ...], sub: str) -> str:
    base = dotted(location)
    return f"{base}.{sub}" if base and sub else base or sub


def _origin(path: str, origins: Mapping[str, str]) -> str | None:
    return next((name for key, name in origins.items() if path == key or path.startswith((f"{key}.", f"{key}["))), None)
