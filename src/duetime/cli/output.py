"""What commands print: tables for people on a terminal, columns parted by tabs for other programs, JSON on demand."""

import dataclasses
import io
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, TextIO

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from duetime.event import instant_json
from duetime.sweep import UNDATED_AT_MOST

if TYPE_CHECKING:
    from typing_extensions import Buffer

Cell = object


class _Outliving(io.FileIO):
    """Writes where the process was told to; once nobody reads there any more, nowhere."""

    def write(self, data: "Buffer", /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes


def outlive_readers() -> None:
    """Let a reader that goes away (``| head``) fail nothing, whoever prints: commands, their help, the log."""
    sys.stdout, sys.stderr = _outliving(sys.stdout), _outliving(sys.stderr)


def _outliving(stream: TextIO) -> TextIO:
    try:
        at = stream.fileno()
    except (AttributeError, OSError):  # none was given to the process
        return stream
    stream.flush()
    raw = io.BufferedWriter(_Outliving(at, "w", closefd=False))
    lines = stream is sys.stderr or stream.isatty()
    return io.TextIOWrapper(raw, encoding=stream.encoding, errors=stream.errors, line_buffering=lines)


def on_terminal() -> bool:
    """Say whether a person reads standard output."""
    return sys.stdout.isatty()


def say(text: str = "") -> None:
    """Print a line on standard output."""
    typer.echo(text)


def complain(text: str) -> None:
    """Print a line on standard error."""
    typer.echo(text, err=True)


def print_json(value: object) -> None:
    """Print a value as JSON, indented where a person reads it."""
    say(json.dumps(plain(value), ensure_ascii=False, indent=2 if on_terminal() else None))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print rows under their columns' names."""
    written = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if not on_terminal():
        say("\t".join(columns))
        for row in written:
            say("\t".join(" ".join(cell.split()) for cell in row))
        return
    table = Table(*columns, title=Text(title), title_justify="left")
    for row in written:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def plain(value: object) -> object:  # noqa: PLR0911 - one form for each kind
    """Turn a value of ours into what JSON knows: instants in UTC, durations in seconds."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return instant_json(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if dataclasses.is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(one) for key, one in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(one) for one in value]
    return value.isoformat() if isinstance(value, date) else str(value)


def say_without_deadline(count: int) -> None:
    """Say how many pending orders can never become due, where there are any."""
    if count:
        many = f"{UNDATED_AT_MOST} or more" if count >= UNDATED_AT_MOST else f"{count}"
        say(f"{many} pending {'order has' if count == 1 else 'orders have'} no deadline, and are never closed by it")
