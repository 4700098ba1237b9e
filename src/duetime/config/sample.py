"""A commented config with every key that there is, made of the settings' own descriptions: it cannot rot."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from textwrap import wrap
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import SecretStr

from duetime.adopting.proposal import toml
from duetime.config.keys import EACH, Key, dotted
from duetime.config.keys import Path as KeyPath
from duetime.units import format_duration

_WIDTH: Final = 110
_HEAD: Final = """\
# duetime: closes unpaid orders at their payment deadline and gives back what they held.
#
# Every key that there is, with its meaning and its default: remove the "#" before a key to change it. Each can come
# from the environment too: DUETIME_ and the path in capitals, joined by two underscores (DUETIME_STORE__URL, or
# DUETIME_STORE__URL_FILE with the name of a file). Durations have a unit: "45s" "30m" "2h" "7d". "" means: none.
# `duetime init --from-url URL` reads your database and proposes [orders] and [[assets]].
#
# Then: `duetime migrate`, `duetime doctor`, `duetime sweep --dry-run`, and `duetime run`, which closes.
"""


def sample_config(known: Mapping[KeyPath, Key], shown: Mapping[str, Sequence[Mapping[str, object]]]) -> str:
    """Write every key; ``shown`` has examples of sections that may come many times, which are written as they are."""
    sections = (key for key in known.values() if key.below is not None and len(key.path) == 1)
    return "\n".join([_HEAD, *(line for key in sections for line in _section(known, key, shown))])


def _section(
    known: Mapping[KeyPath, Key], section: Key, shown: Mapping[str, Sequence[Mapping[str, object]]]
) -> Iterator[str]:
    inside = (*section.path, EACH) if section.many else section.path
    below = [key for key in known.values() if key.path[:-1] == inside]
    yield from _comment(section.field.description or "")
    head = f"[[{dotted(section.path)}]]" if section.many else f"[{dotted(section.path)}]"
    yield f"#{head}" if section.many else head
    for key in below:
        yield from _line(known, key)
    for example in shown.get(section.path[-1], ()):
        yield f"\n{head}"
        yield from (f"{name} = {toml(value)}" for name, value in example.items())
    yield ""


def _line(known: Mapping[KeyPath, Key], key: Key) -> Iterator[str]:
    meaning = key.field.description or ""
    choices = _choices(key.field.annotation)
    if choices:
        meaning += f" Allowed: {', '.join(json.dumps(choice) for choice in choices)}."
    yield from _comment(meaning)
    for one in _inside(known, key):
        yield from _comment(f"  {one.path[-1]}: {one.field.description}")
    yield f"#{key.path[-1]} = {toml(_default(known, key))}"


def _inside(known: Mapping[KeyPath, Key], key: Key) -> list[Key]:
    return [one for one in known.values() if one.path[:-1] == (*key.path, *[EACH] * key.many)]


def _comment(words_of_it: str) -> Iterator[str]:
    yield from (f"# {line}" for line in wrap(words_of_it, _WIDTH))


def _choices(annotation: Any) -> tuple[str, ...]:  # noqa: ANN401 -- an annotation may be anything
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((found for part in get_args(annotation) if (found := _choices(part))), ())


def _default(known: Mapping[KeyPath, Key], key: Key) -> object:
    if key.below is not None:
        return {one.path[-1]: _default(known, one) for one in _inside(known, key)}
    if key.field.is_required():
        choices = _choices(key.field.annotation)
        return choices[0] if choices else ""
    return _plain(key, key.field.default)


def _plain(key: Key, value: object) -> object:
    if value is None:
        return key.kind.absent if key.kind is not None else list(_choices(key.field.annotation))
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, tuple) and len(value) == 1:
        return value[0]
    return value
