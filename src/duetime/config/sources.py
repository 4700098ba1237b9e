"""Where the config is read from: a TOML file, files named by the environment, and the environment itself."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NoReturn

from duetime.adopting.proposal import MARK
from duetime.config.keys import EACH, Key, dotted, variable
from duetime.config.keys import Path as KeyPath
from duetime.config.problems import shown

PREFIX: Final = "DUETIME_"
DEFAULT_FILE: Final = Path("duetime.toml")

_FILE: Final = "_FILE"
_OUR_TESTS: Final = "TEST_"

Layer = dict[str, Any]


@dataclass(frozen=True)
class Sources:
    """What was found, each kind in a layer of its own; ``origins`` names the variable that set a key."""

    file: Layer = field(default_factory=dict)
    secrets: Layer = field(default_factory=dict)
    environment: Layer = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def gather(path: Path | None, environ: Mapping[str, str], known: Mapping[KeyPath, Key]) -> Sources:
    """Read all sources; whatever is wrong becomes a problem and nothing is raised."""
    sources = Sources()
    _read_toml(path, environ, sources)
    for name in sorted(environ):
        if name.startswith(PREFIX):
            _read_variable(name, environ[name], known, sources)
    return sources


def _read_toml(path: Path | None, environ: Mapping[str, str], sources: Sources) -> None:
    named = path or (Path(environ["DUETIME_CONFIG"]) if environ.get("DUETIME_CONFIG") else None)
    if named is None and not DEFAULT_FILE.is_file():
        return
    file = named or DEFAULT_FILE
    try:
        text = file.expanduser().read_bytes().decode()
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        sources.problems.append(f"{file}: not valid UTF-8 (at line {line})")
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "there is no such place"
        sources.problems.append(f"{file}: the config cannot be read: {why}")
    else:
        _parse_toml(file, text, sources)


def _parse_toml(file: Path, text: str, sources: Sources) -> None:
    marked = [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.lstrip().startswith(MARK)]
    if marked:
        number, line = marked[0]
        settle = "settle each: write what is true and remove the mark, or delete the line"
        count = f'{len(marked)} {"line is" if len(marked) == 1 else "lines are"} still marked "{MARK[2:].strip()}"'
        sources.problems.append(f"{file}: {count}, the first at line {number}: {shown(line.strip())}; {settle}")
    try:
        sources.file.update(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        sources.problems.append(f"{file}: not valid TOML: {error}")
    except (RecursionError, ValueError):
        # Thousands of brackets, or a number of thousands of digits.
        sources.problems.append(f"{file}: not valid TOML: a value is too deep or too long")


def _read_variable(name: str, text: str, known: Mapping[KeyPath, Key], sources: Sources) -> None:
    key_name = name.removeprefix(PREFIX)
    path = _key_path(key_name, known)
    if path is not None:
        _put(sources.environment, path, _decoded(known.get(path), text))
        sources.origins[dotted(path)] = name
        return
    path = _key_path(key_name.removesuffix(_FILE), known) if key_name.endswith(_FILE) else None
    if path is not None:
        _read_secret(path, (name, text), known.get(path), sources)
    elif "__" in key_name and not key_name.startswith(_OUR_TESTS):
        sources.problems.append(_unknown(name, known))


def _key_path(key_name: str, known: Mapping[KeyPath, Key]) -> KeyPath | None:
    """Return the path that a variable means; sections as a whole and places in lists cannot be meant."""
    path = tuple(key_name.lower().split("__"))
    key = known.get(path)
    if key is not None:
        return path if key.many or key.below is None else None
    parent = known.get(path[:-1])
    return path if parent is not None and parent.table and path[-1] else None


def _read_secret(path: KeyPath, named: tuple[str, str], key: Key | None, sources: Sources) -> None:
    name, file = named
    try:
        text = Path(file).read_bytes().decode().rstrip("\r\n")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text file"
        sources.problems.append(f"{dotted(path)}: {name} names {shown(file)}, which cannot be read: {why}")
        return
    _put(sources.secrets, path, _decoded(key, text))
    sources.origins.setdefault(dotted(path), name)


def _decoded(key: Key | None, text: str) -> object:
    if key is None or key.as_text:
        return text
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text
    # true, false and null are what a status may be called; as values they are allowed nowhere.
    return text if value is None or isinstance(value, bool) else value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _put(layer: Layer, path: KeyPath, value: object) -> None:
    for part in path[:-1]:
        below = layer.get(part)
        if not isinstance(below, dict):
            below = layer[part] = {}
        layer = below
    layer[path[-1]] = value


def _unknown(name: str, known: Mapping[KeyPath, Key]) -> str:
    first = name.removeprefix(PREFIX).split("__")[0].lower()
    section = known.get((first,))
    if section is not None and section.many:
        return f"{name}: no such key; [[{first}]] is a list: give all of it as JSON in {variable((first,))}"
    near = get_close_matches(name.upper(), _variables(known), n=1)
    return f"{name}: no such key" + (f"; did you mean {near[0]}?" if near else "")


def _variables(known: Mapping[KeyPath, Key]) -> Iterable[str]:
    return [variable(path) for path, key in known.items() if EACH not in path and (key.many or key.below is None)]
