"""The shop's own connection by each synchronous driver, with the settings and kinds of row that shops choose."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import psycopg
import psycopg2
import psycopg2.extras
import pymysql
import pymysql.cursors
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

from tests.support.databases import DatabaseKind

DUE: Final[dict[DatabaseKind, str]] = {
    "postgresql": "now() - interval '10 seconds'",
    "mariadb": "UTC_TIMESTAMP(6) - INTERVAL 10 SECOND",
    "sqlite": "datetime('now', '-10 seconds')",
}
"""A deadline that passed ten seconds ago, as the sample shop holds it."""


def parts(url: str) -> dict[str, Any]:
    """Answer host, port, user, password and database of a server's URL."""
    found = urlsplit(url)
    return {
        "host": found.hostname,
        "port": found.port,
        "user": unquote(found.username or ""),
        "password": unquote(found.password or ""),
        "database": found.path.removeprefix("/"),
    }


def path(url: str) -> str:
    """Answer the file that a SQLite URL names."""
    return url.removeprefix("sqlite:///")


def by_pymysql(url: str, **options: object) -> Any:  # noqa: ANN401 -- each driver has its own
    return pymysql.connect(**parts(url), charset="utf8mb4", **options)


def by_psycopg2(url: str, **options: object) -> Any:  # noqa: ANN401 -- each driver has its own
    return psycopg2.connect(url, **options)


def psycopg_as_text(url: str) -> Any:  # noqa: ANN401 -- as above
    """A shop that reads rows as dictionaries, and JSON and instants as text."""
    connection = psycopg.connect(url, row_factory=dict_row)
    for name in ("json", "jsonb", "timestamptz"):
        connection.adapters.register_loader(name, TextLoader)
    return connection


def psycopg2_own_json(url: str) -> Any:  # noqa: ANN401 -- as above
    """A shop that reads rows as dictionaries, and JSON as a thing of its own."""
    connection = by_psycopg2(url, cursor_factory=psycopg2.extras.RealDictCursor)
    psycopg2.extras.register_default_json(connection, loads=lambda text: [text])
    return connection


def nothing(_: object) -> None:
    """The driver opens the transaction by itself."""


@dataclass(frozen=True)
class Way:
    """One way for a shop to have a connection, and to begin a transaction on it."""

    name: str
    kind: DatabaseKind
    connect: Callable[[str], Any]
    begin: Callable[[Any], object] = nothing


WAYS: Final = (
    Way("psycopg", "postgresql", psycopg.connect),
    Way("psycopg-dicts", "postgresql", psycopg_as_text),
    Way(
        "psycopg-begun-by-hand",
        "postgresql",
        lambda url: psycopg.connect(
            url, autocommit=True, cursor_factory=psycopg.ClientCursor, options="-c TimeZone=Asia/Shanghai"
        ),
        lambda connection: connection.execute("BEGIN"),
    ),
    Way("psycopg2", "postgresql", by_psycopg2),
    Way("psycopg2-dicts", "postgresql", psycopg2_own_json),
    Way("pymysql", "mariadb", by_pymysql),
    Way("pymysql-dicts", "mariadb", lambda url: by_pymysql(url, cursorclass=pymysql.cursors.DictCursor)),
    Way(
        "pymysql-begun-by-hand",
        "mariadb",
        lambda url: by_pymysql(
            url, autocommit=True, cursorclass=pymysql.cursors.SSCursor, init_command="SET time_zone = '+08:00'"
        ),
        lambda connection: connection.begin(),
    ),
    Way("sqlite3", "sqlite", lambda url: sqlite3.connect(path(url))),
    Way(
        "sqlite3-begun-by-hand",
        "sqlite",
        lambda url: sqlite3.connect(path(url), isolation_level=None),
        lambda connection: connection.execute("BEGIN IMMEDIATE"),
    ),
)


@dataclass
class ShopConnection:
    """A connection of the shop's with its transaction open; statements without parameters, which every driver takes."""

    way: Way
    url: str
    raw: Any

    @property
    def due(self) -> str:
        return DUE[self.way.kind]

    def begin(self) -> "ShopConnection":
        self.way.begin(self.raw)
        return self

    def run(self, *statements: str) -> None:
        cursor = self.raw.cursor()
        for statement in statements:
            cursor.execute(statement)
        cursor.close()

    def order(self, order_no: str = "so-1", status: str = "pending") -> str:
        return f"INSERT INTO orders (order_no, status, expire_at) VALUES ('{order_no}', '{status}', {self.due})"

    def rows(self, query: str) -> Sequence[tuple[Any, ...]]:
        """Read what was committed, on a connection of the judge's own."""
        plain = next(way for way in WAYS if way.kind == self.way.kind)
        connection = plain.connect(self.url)
        try:
            cursor = connection.cursor()
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]
        finally:
            connection.close()

    def holds(self) -> list[tuple[Any, ...]]:
        return list(self.rows("SELECT order_no, kind, ref, quantity FROM duetime_hold ORDER BY order_no, kind, ref"))
