"""Every key that the config knows, found by walking the models: one list for sources, errors and the reference."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from duetime.units import Kind

EACH: Final = "[]"
"""Stands in a path for any place in a list."""

_BARE: Final = re.compile("[A-Za-z0-9_-]+")

Path = tuple[str, ...]


class Key(NamedTuple):
    """One key: where it is, how it is declared, and the model below it if it is a section or a list of sections."""

    path: Path
    field: FieldInfo
    attribute: str
    below: type[BaseModel] | None

    @property
    def many(self) -> bool:
        """True for a list of sections, ``[[name]]`` in TOML."""
        return get_origin(self.field.annotation) is tuple and self.below is not None

    @property
    def table(self) -> bool:
        """True where the value may be a table whose keys the operator chooses."""
        return any(part is dict or get_origin(part) is dict for part in _parts(self.field.annotation))

    @property
    def kind(self) -> Kind | None:
        """The kind of a single value, where it is one of ours."""
        return next((item for item in self.field.metadata if isinstance(item, Kind)), None)

    @property
    def as_text(self) -> bool:
        """True where an environment variable is taken letter by letter."""
        kind = self.kind
        return kind.as_text if kind else get_origin(self.field.annotation) is Literal

    @property
    def secret(self) -> bool:
        """True where the value is never shown."""
        return self.kind is not None and self.kind.secret


def known_keys(model: type[BaseModel]) -> dict[Path, Key]:
    """Return every key of the model and of the models below it, by path, in the order of declaration."""
    return {key.path: key for key in _walk(model, ())}


def _walk(model: type[BaseModel], prefix: Path) -> Iterator[Key]:
    for attribute, field in model.model_fields.items():
        key = Key((*prefix, field.alias or attribute), field, attribute, _model_in(field.annotation))
        yield key
        if key.below is not None:
            yield from _walk(key.below, (*key.path, EACH) if key.many else key.path)


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 -- an annotation may be anything
    models = (part for part in _parts(annotation) if isinstance(part, type) and issubclass(part, BaseModel))
    return next(models, None)


def _parts(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401 -- an annotation may be anything
    return (annotation,) if get_origin(annotation) in {None, dict} else get_args(annotation)


def dotted(location: Sequence[str | int]) -> str:
    """Write a path as an operator would say it: ``assets[1].storage``."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part == EACH:
            text += EACH
        else:
            text += "." * bool(text) + (part if _BARE.fullmatch(part) else json.dumps(part))
    return text


def pattern(location: Sequence[str | int]) -> Path:
    """Return the path under which ``known_keys`` lists a place in the config."""
    return tuple(EACH if isinstance(part, int) else part for part in location)


def variable(path: Path) -> str:
    """Return the environment variable of a key."""
    return "DUETIME_" + "__".join(part.upper() for part in path)
