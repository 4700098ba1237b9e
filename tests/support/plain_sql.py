"""A program in another language, as far as a database can tell: it runs what ``duetime sql NAME --json`` has printed.

Nothing here imports duetime, and no statement is written here: the printed text with its parameters turned into the
driver's own form, in the printed order, with the printed numbers of rows looked at.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.parse import unquote, urlsplit

_PARAMETER = re.compile(r"""('[^']*'|"[^"]*"|`[^`]*`)|:([a-z_]+)""")

Row = Sequence[Any]


class Cursor(Protocol):
    rowcount: int

    def execute(self, sql: str, parameters: Any = ..., /) -> Any: ...  # noqa: ANN401 -- a driver's own

    def fetchone(self) -> Any: ...  # noqa: ANN401 -- as above


class RolledBack(Exception):
    """A statement changed another number of rows than it must."""

    def __init__(self, step: str) -> None:
        super().__init__(step)
        self.step = step


@dataclass
class PlainSql:
    """The printed transactions of one shop."""

    recipes: Mapping[str, Mapping[str, Any]]
    native: bool = False
    """The driver knows ``:name`` by itself."""
    made: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """Statements as the driver takes them, and the parameters that each names."""

    @classmethod
    def read(cls, path: Path, *, native: bool = False) -> Self:
        return cls(json.loads(path.read_text()), native)

    def _sql(self, text: str) -> tuple[str, tuple[str, ...]]:
        if text not in self.made:
            by_name = _PARAMETER.sub(lambda found: found[1] or f"%({found[2]})s", text.replace("%", "%%"))
            named = tuple(dict.fromkeys(found[2] for found in _PARAMETER.finditer(text) if not found[1]))
            self.made[text] = (text if self.native else by_name, named)
        return self.made[text]

    def steps(self, name: str) -> list[Mapping[str, Any]]:
        return [step for step in self.recipes[name]["steps"] if step["name"] not in {"begin", "commit"}]

    def opening(self, name: str) -> str:
        return str(self.recipes[name]["steps"][0]["sql"])

    def run(self, cursor: Cursor, step: Mapping[str, Any], values: Mapping[str, Any]) -> int:
        """Run one statement; it must change as many rows as is printed."""
        statement, named = self._sql(step["sql"])
        # A driver in Python writes out every value that it is given, also those that the statement does not name.
        cursor.execute(statement, {name: values[name] for name in named})
        if step["rows"] is not None and cursor.rowcount != step["rows"]:
            raise RolledBack(step["name"])
        return cursor.rowcount

    def place(self, cursor: Cursor, values: Mapping[str, Any], taken: Sequence[tuple[str, str, int]]) -> None:
        """Place an order with kinds, references and quantities, in the caller's transaction."""
        for step in self.steps("place"):
            for kind, ref, quantity in taken if step["repeat"] else [("", "", 0)]:
                if not step["repeat"] or step["name"].partition("_")[2] == kind:
                    self.run(cursor, step, {**values, "ref": ref, "quantity": quantity})

    def pay(self, cursor: Cursor, values: Mapping[str, Any]) -> tuple[str, bool]:
        """Take a notice; answer its resolution, and whether it was taken before."""
        for step in self.steps("pay"):
            self.run(cursor, step, values)
            if step["name"] == "seen":
                first = cursor.fetchone()
                if first is not None:
                    return str(first[0]), True
            elif step["name"] == "lock":
                cursor.fetchone()
        return str(cursor.fetchone()[0]), False

    def cancel(self, cursor: Cursor, values: Mapping[str, Any]) -> None:
        """Cancel an order, or raise because it is not pending."""
        for step in self.steps("cancel"):
            self.run(cursor, step, values)
            if step["name"] == "lock":
                cursor.fetchone()


def connected(url: str) -> Any:  # noqa: ANN401 -- a connection of one of three drivers
    """Connect as a shop's program does, with the server's own settings."""
    at = urlsplit(url)
    if at.scheme == "sqlite":
        import sqlite3  # noqa: PLC0415 -- of three drivers only one is used

        return sqlite3.connect(at.path, isolation_level=None, timeout=5)
    if at.scheme == "postgresql":
        import psycopg  # noqa: PLC0415 -- an extra

        return psycopg.connect(url, autocommit=True)
    import pymysql  # noqa: PLC0415 -- an extra

    return pymysql.connect(
        host=at.hostname,
        port=at.port or 3306,
        user=unquote(at.username or ""),
        password=unquote(at.password or ""),
        database=at.path.strip("/"),
        autocommit=True,
    )
