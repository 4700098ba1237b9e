"""The page about the command line: every command with its options, as the program itself describes them."""

import inspect
from collections.abc import Iterator
from typing import Any, Final

from duetime.cli.app import command

_HEAD: Final = """\
# Command line

<!-- Written by scripts/generate_docs.py cli; change the commands in src/duetime/cli. -->

`duetime` and `python -m duetime` are the same. `duetime COMMAND --help` says what stands here.

**Config.** `--config FILE`, before or after the command, else what `DUETIME_CONFIG` names, else `./duetime.toml`; every
key can be set by the environment as well ([config](config.md)).

**Exit codes**

| code | means |
|---|---|
| 0 | done |
| 1 | a check or a promise failed, somebody else had won the order, or the database did not answer |
| 2 | wrong usage or config, or an order that does not exist |
| 130 | stopped by Ctrl-C, before it was done |

**Errors** are a sentence on standard error, or one JSON object where `--json` was given:
`{"error": {"kind": ..., "message": ..., "problems": [...]}}`. A mistake of duetime's own is a sentence too; `--debug`
before the command, or `DUETIME_DEBUG=1`, shows the traceback.

**Output.** Tables are for people; where standard output is not a terminal, columns are parted by tabs. `--json` prints
JSON: instants in UTC, durations in seconds.

**Logs** go to standard error, as JSON unless that is a terminal: one line for a sweep run that found something, a sign
of life once a minute otherwise, a warning for an order that failed, an error for one that went to quarantine. Floods
are cut to some lines and a count. `--verbose` adds a line for each batch.
"""


def cli() -> str:
    """Return the reference of all commands."""
    return "\n".join([_HEAD, *_commands(command(), "duetime")])


def _commands(group: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - the parser's own class
    for name, one in group.commands.items():
        below = getattr(one, "commands", None)
        if below is None:
            yield from _command(one, f"{path} {name}")
        else:
            yield from _commands(one, f"{path} {name}")


def _command(one: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - the parser's own class
    arguments = " ".join(_metavar(part) for part in one.params if part.param_type_name == "argument")
    yield f"## `{path}{' ' * bool(arguments)}{arguments}`\n"
    yield f"{inspect.cleandoc(one.help)}\n"
    rows = [_option(part) for part in one.params if part.param_type_name == "option" and part.name != "config"]
    if rows:
        yield "| option | default | meaning |"
        yield "|---|---|---|"
        yield from rows
        yield ""


def _option(part: Any) -> str:  # noqa: ANN401 - the parser's own class
    value = "" if part.is_flag else f" {_metavar(part)}"
    names = ", ".join(f"`{name}{value}`" for name in part.opts)
    nothing = part.is_flag or part.default is None or part.required
    default = "" if nothing else f"`{getattr(part.default, 'value', part.default)}`"
    cells = (cell.replace("|", "\\|") for cell in (names, default, part.help))
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _metavar(part: Any) -> str:  # noqa: ANN401 - the parser's own class
    return str(part.metavar or part.name.upper())
