"""The store's URL: which databases are served, by which driver, and what to install for it."""

import re
from importlib.util import find_spec
from typing import Final, NamedTuple

from pydantic import SecretStr
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from duetime.errors import ConfigError
from duetime.units import read_text

ALLOWED: Final = "allowed are postgresql://, mysql://, mariadb:// and sqlite:///"

_SCHEME: Final = re.compile(r"([a-z]+)(?:\+([a-z0-9_]+))?://")
_FORM: Final = 'a URL is needed, as in "postgresql://user:password@host:5432/shop"'
_NO_DATABASE: Final = "the database's name is missing at the end of the URL"


class _Server(NamedTuple):
    driver: str
    module: str
    extra: str | None
    others: frozenset[str]


_POSTGRESQL: Final = _Server(
    "postgresql+psycopg",
    "psycopg",
    "postgresql",
    frozenset({"psycopg", "psycopg_async", "psycopg2", "psycopg2cffi", "asyncpg", "pg8000"}),
)
_MYSQL: Final = _Server(
    "mysql+asyncmy",
    "asyncmy",
    "mysql",
    frozenset({"asyncmy", "aiomysql", "pymysql", "mysqldb", "mysqlconnector", "mariadbconnector", "cymysql"}),
)
_SQLITE: Final = _Server("sqlite+aiosqlite", "aiosqlite", None, frozenset({"aiosqlite", "pysqlite"}))
_SERVERS: Final = {
    "postgresql": _POSTGRESQL,
    "postgres": _POSTGRESQL,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "sqlite": _SQLITE,
}


def async_url(text: str) -> URL:
    """Return the URL with the asyncio driver that duetime works with, whichever driver it named.

    Raises ``ValueError`` for another database, an unknown driver, a URL that cannot be read or names no database.
    The sentence never contains any part of the URL.
    """
    server = _server(text)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ValueError(f"{_FORM}; characters such as @ : / in a password are written as %40 %3A %2F") from None
    if server is _SQLITE and (url.host or url.database == ":memory:"):
        raise ValueError(
            'a file is needed that every process can open: "sqlite:///shop.db" or "sqlite:////srv/shop.db"'
        )
    if not url.database:
        raise ValueError(_NO_DATABASE)
    return url.set(drivername=server.driver)


def _server(text: str) -> _Server:
    match = _SCHEME.match(text)
    if match is None:
        raise ValueError(f"{_FORM}; {ALLOWED}")
    server = _SERVERS.get(match.group(1))
    if server is None:
        raise ValueError(ALLOWED)
    if match.group(2) and match.group(2) not in server.others:
        raise ValueError(f"this driver is not known; leave it out, or name one of {', '.join(sorted(server.others))}")
    return server


def read_url(value: object) -> SecretStr:
    """Read the store's URL and keep it as it was written. Raises ``ValueError``."""
    text = read_text(value.get_secret_value() if isinstance(value, SecretStr) else value)
    async_url(text)
    return SecretStr(text)


def check_driver(url: URL) -> None:
    """Raise ``ConfigError`` with the line to type where the driver that the URL needs is not installed."""
    server = _SERVERS[url.get_backend_name()]
    if find_spec(server.module) is None:
        package = f"duetime[{server.extra}]" if server.extra else server.module
        raise ConfigError((f"store.url: the driver {server.module} is not installed; pip install '{package}'",))
