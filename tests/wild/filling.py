"""A person who settles the marked lines of a proposed config, and touches nothing else.

What the person knows stands in the shop's own ``.toml``. A marked line whose key is not there gets what the key means
when it is left out; a key of the shop that the proposal does not ask for is named, because nobody would think of it.
"""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from duetime.adopting.proposal import MARK, toml

LEFT_OUT: Final[Mapping[str, str]] = {"time_form": "instant", "amount_form": "minor", "only": ""}
"""What a person writes on a marked line for a key that the shop's description leaves out."""


def filled_in(proposed: str, truth: str) -> str:
    """Answer the proposed text with every marked line settled."""
    sections = _sections(tomllib.loads(truth))
    known: Mapping[str, Any] = {}
    lines = []
    for line in proposed.splitlines():
        if line in ("[orders]", "[[assets]]"):
            known = next(sections)
        lines.append(_settled(line.removeprefix(MARK), known) if line.startswith(MARK) else line)
    assert next(sections, None) is None, "the proposal has fewer sections than the shop"
    return "\n".join(lines) + "\n"


def unasked(settled: str, truth: str) -> list[str]:
    """Answer the keys of the shop that a settled proposal does not have."""
    pairs = zip(_sections(tomllib.loads(settled)), _sections(tomllib.loads(truth)), strict=True)
    return [f"{known.get('kind', 'orders')}: {key}" for found, known in pairs for key in known.keys() - found.keys()]


def _settled(line: str, known: Mapping[str, Any]) -> str:
    key = line.partition(" = ")[0]
    return f"{key} = {toml(known[key] if key in known else LEFT_OUT[key])}"


def _sections(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield config["orders"]
    yield from config["assets"]
