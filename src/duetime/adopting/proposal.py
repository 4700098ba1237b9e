"""A proposal for a config: lines with their reasons; what is unsure is marked, to be filled in by a person."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MARK: Final = "# FILL IN: "
"""Begins each line that a person has to settle: a comment, and a config with one of them is refused."""

NO_ASSETS: Final = "no table was found that counts what orders hold, or has a row for each piece"

Value = str | int | Sequence[str | int] | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Line:
    """One key: its value, or the best guess where it is not ``sure``; and why."""

    key: str
    value: Value
    why: str = ""
    sure: bool = True

    @property
    def written(self) -> str:
        """The line as TOML, below its reason."""
        reason = "".join(f"# {words}\n" for words in self.why.splitlines())
        return f"{reason}{'' if self.sure else MARK}{self.key} = {toml(self.value)}"


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the config; ``many`` for one of a list."""

    name: str
    lines: tuple[Line, ...]
    many: bool = False

    @property
    def written(self) -> str:
        """The section as TOML."""
        head = f"[[{self.name}]]" if self.many else f"[{self.name}]"
        return "\n".join([head, *(line.written for line in self.lines)])


@dataclass(frozen=True, slots=True)
class Proposal:
    """What ``duetime init --from-url`` writes."""

    sections: tuple[Section, ...]
    unseen: tuple[str, ...] = ()
    """Tables that could not be looked at."""

    @property
    def has_assets(self) -> bool:
        """False where nothing was found that orders could hold."""
        return any(section.name == "assets" for section in self.sections)

    @property
    def unsure(self) -> tuple[str, ...]:
        """A sentence for each marked line."""
        places = _numbered(self.sections)
        nothing = () if self.has_assets else (f"assets: {NO_ASSETS}",)
        return nothing + tuple(
            f"{place}.{line.key}: {line.why.splitlines()[0] if line.why else 'nothing here tells'}"
            for place, section in zip(places, self.sections, strict=True)
            for line in section.lines
            if not line.sure
        )

    @property
    def written(self) -> str:
        """The sections as TOML."""
        return "\n\n".join(section.written for section in self.sections) + "\n"


def _numbered(sections: Sequence[Section]) -> list[str]:
    names: list[str] = []
    for section in sections:
        count = sum(name.startswith(section.name) for name in names)
        names.append(f"{section.name}[{count}]" if section.many else section.name)
    return names


def toml(value: object) -> str:
    """Write a value as TOML, tables in one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {toml(one)}" for key, one in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    return (
        key
        if key.isascii() and key.replace("_", "").replace("-", "").isalnum()
        else json.dumps(key, ensure_ascii=False)
    )
