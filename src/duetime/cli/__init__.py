"""The command line: ``duetime`` and ``python -m duetime``.

Exit codes: 0 done; 1 a check or a promise failed, or the database did; 2 wrong usage or config; 130 stopped by Ctrl-C.
Whatever goes wrong is a sentence on standard error, or JSON where ``--json`` was given.
"""

import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, Protocol, runtime_checkable

import typer

from duetime.cli.app import command
from duetime.cli.common import FAILED, INTERRUPTED, WRONG_USAGE
from duetime.cli.output import complain, outlive_readers
from duetime.errors import (
    ConfigError,
    DuetimeError,
    InvalidInput,
    StoreConflict,
    StoreDenied,
    StoreMisfit,
    StoreRefused,
    StoreUnavailable,
)

_STORE_SAYS = {
    StoreUnavailable: "the database is away: ",
    StoreConflict: "others were in the way, try again: ",
    StoreRefused: "the database refused a row: ",
    StoreDenied: (
        "access denied (the account is the one of store.url; `duetime sql grants` prints the rights that it needs): "
    ),
    StoreMisfit: "the database is not as described: ",
}


@runtime_checkable
class _WrongUsage(Protocol):
    """What the parser of the command line raises, whichever library it comes from."""

    exit_code: int

    def format_message(self) -> str: ...


def main() -> NoReturn:
    """Run the command that the process was started with, and end the process with its exit code."""
    outlive_readers()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and answer its exit code."""
    as_json = "--json" in arguments
    try:
        result = command().main(args=list(arguments), prog_name="duetime", standalone_mode=False)
    except DuetimeError as error:
        _report(error, arguments, as_json=as_json)
        return WRONG_USAGE if isinstance(error, ConfigError | InvalidInput) else FAILED
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last place where anything can become a sentence
        return _unexpected(error, arguments, as_json=as_json)
    return result if isinstance(result, int) else 0


def _report(error: DuetimeError, arguments: Sequence[str], *, as_json: bool) -> None:
    problems = error.problems if isinstance(error, ConfigError) else (_worded(error),)
    if as_json:
        _complain_json(type(error).__name__, problems)
    else:
        several = len(problems) > 1
        complain("duetime: the config cannot be used:" if several else f"duetime: {problems[0]}")
        for problem in problems if several else ():
            complain(f"  - {problem}")
    if _debug(arguments):
        traceback.print_exception(error)


def _worded(error: DuetimeError) -> str:
    opening = next((words for kind, words in _STORE_SAYS.items() if isinstance(error, kind)), "")
    return opening + " ".join(str(error).split())


def _unexpected(error: Exception, arguments: Sequence[str], *, as_json: bool) -> int:
    if isinstance(error, _WrongUsage):
        return _wrong_usage(error, as_json=as_json)
    at = traceback.extract_tb(error.__traceback__)[-1]
    words = " ".join(str(error).split())
    told = f"{type(error).__name__} at line {at.lineno} of {Path(at.filename).name}: {words}"
    problem = f"this is a mistake in duetime itself, please report it (`--debug` shows more): {told}"
    if as_json:
        _complain_json("InternalError", (problem,))
    else:
        complain(f"duetime: {problem}")
    if _debug(arguments):
        traceback.print_exception(error)
    return FAILED


def _wrong_usage(error: _WrongUsage, *, as_json: bool) -> int:
    message = error.format_message()
    ctx = getattr(error, "ctx", None)
    if ctx is not None and message == ctx.get_help():
        complain(message)
        return WRONG_USAGE
    help_for = f"; see `{ctx.command_path} --help`" if ctx is not None else ""
    words = " ".join(message.replace("Value error, ", "").split()).rstrip(".") + help_for
    if as_json:
        _complain_json("WrongUsage", (words,))
    else:
        complain(f"duetime: {words}")
    return WRONG_USAGE


def _complain_json(kind: str, problems: Sequence[str]) -> None:
    error = {"kind": kind, "message": "\n".join(problems), "problems": list(problems)}
    complain(json.dumps({"error": error}, ensure_ascii=False))


def _debug(arguments: Sequence[str]) -> bool:
    return "--debug" in arguments or os.environ.get("DUETIME_DEBUG", "") not in {"", "0"}
