"""Reading the schema of a live database for ``duetime init --from-url``: what there is, and a sample of its rows.

Nothing is written and no table is read as a whole: each sample is at most some thousands of rows from the end of the
primary key, each statement is given up after seconds, and every session says that it only reads.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    DateTime,
    Enum,
    Inspector,
    Integer,
    Numeric,
    String,
    column,
    inspect,
    select,
    table,
    text,
)
from sqlalchemy import Uuid as UuidType
from sqlalchemy.dialects import mysql
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import TypeEngine

from duetime.adopting.found import SAMPLE_ROWS, ColumnKind, FoundColumn, FoundKey, FoundShop, FoundTable, Sample
from duetime.adopting.proposing import choose, questions
from duetime.clock import SystemClock
from duetime.errors import StoreUnavailable
from duetime.shop import TableName
from duetime.stores.sql.column_kinds import plain
from duetime.stores.sql.dialect import SqlDialect
from duetime.stores.sql.sqlite import READ_ONLY
from duetime.stores.sql.store import dialect_for

_OURS: Final = "duetime_"
_SHOW_ALL: Final = ("postgresql", "sqlite")
"""Databases that describe each table to everybody who is let in."""
_SYSTEM: Final = re.compile("information_schema|pg_.*|mysql|sys|performance_schema")
_LITERAL: Final = re.compile(r"'((?:[^']|'')*)'")
_ONE_OF: Final = re.compile(r"\b(in|any)\b", re.IGNORECASE)
_BOUNDS: Final[Mapping[str, Sequence[str]]] = {
    "postgresql": ("SET TRANSACTION READ ONLY", "SET LOCAL statement_timeout = '5s'", "SET LOCAL lock_timeout = '1s'"),
    "mariadb": ("SET SESSION TRANSACTION READ ONLY", "SET max_statement_time = 5", "SET lock_wait_timeout = 2"),
    "mysql": ("SET SESSION TRANSACTION READ ONLY", "SET max_execution_time = 5000", "SET lock_wait_timeout = 2"),
    "sqlite": (),
}


async def look(url: URL, named: str | None) -> FoundShop:
    """Read what the database of ``url`` has, and a sample of the tables that matter; ``named`` is the orders' table.

    Raises:
        ConfigError: there is no table that could hold orders.
        StoreUnavailable: the database does not answer.
    """
    dialect = dialect_for(url, SystemClock())
    engine = dialect.engine(url.render_as_string(hide_password=False), pool_size=1)
    try:
        async with _reading(engine.connect(), dialect) as connection:
            shop = await connection.run_sync(_tables, await dialect.clock(connection))
        samples = {}
        for asked, names in questions(shop, choose(shop, named)[0].table).items():
            samples[asked.name] = await _sample(engine.connect(), dialect, asked, names)
        return replace(shop, samples=samples)
    finally:
        await engine.dispose()


@asynccontextmanager
async def _reading(connecting: AsyncConnection, dialect: SqlDialect) -> AsyncIterator[AsyncConnection]:
    try:
        async with connecting as connection:
            reading = await connection.execution_options(**{READ_ONLY: True})
            server = reading.dialect
            name = "mariadb" if getattr(server, "is_mariadb", False) else server.name
            for statement in _BOUNDS[name]:
                await reading.execute(text(statement))
            yield reading
            await reading.rollback()
    except (SQLAlchemyError, OSError, EOFError) as error:
        raise dialect.failure(error) from error


async def _sample(connecting: AsyncConnection, dialect: SqlDialect, asked: FoundTable, names: Sequence[str]) -> Sample:
    found = table(asked.name.name, *map(column, dict.fromkeys(names)), schema=asked.name.schema)
    last_first: list[ColumnElement[Any]] = [column(name).desc() for name in asked.primary_key]
    query = select(*found.c).select_from(found).order_by(*last_first).limit(SAMPLE_ROWS + 1)
    try:
        async with _reading(connecting, dialect) as connection:
            rows = [dict(row) for row in (await connection.execute(query)).mappings()]
    except StoreUnavailable:
        raise
    except Exception as error:
        if not isinstance(error.__cause__, DBAPIError):
            raise
        return Sample(refused=str(error).splitlines()[0])
    return Sample(rows[:SAMPLE_ROWS], whole=len(rows) <= SAMPLE_ROWS)


def _tables(connection: Connection, clock: datetime) -> FoundShop:
    inspector = inspect(connection)
    default = inspector.default_schema_name
    schemas: list[str | None] = [None]
    if connection.dialect.name == "postgresql":
        schemas += [name for name in inspector.get_schema_names() if name != default and not _SYSTEM.fullmatch(name)]
    unseen = {schema: _unseen(inspector, schema) for schema in schemas}
    found = tuple(one for schema in schemas for one in _in_schema(inspector, schema, unseen[schema]))
    hidden = tuple(TableName(schema, name) for schema, names in unseen.items() for name in sorted(names))
    return FoundShop(found, clock, unseen=hidden, schema=default)


def _unseen(inspector: Inspector, schema: str | None) -> frozenset[str]:
    """Answer the tables that this account may know by name only: MySQL lists them and says no more."""
    if inspector.dialect.name in _SHOW_ALL:
        return frozenset()
    return frozenset(name for name in inspector.get_table_names(schema) if not _is_described(inspector, schema, name))


def _is_described(inspector: Inspector, schema: str | None, name: str) -> bool:
    try:
        inspector.get_columns(name, schema)
    except OperationalError:
        return False
    return True


def _in_schema(inspector: Inspector, schema: str | None, unseen: frozenset[str]) -> Iterable[FoundTable]:
    asked = [name for name in inspector.get_table_names(schema) if name not in unseen and not name.startswith(_OURS)]
    if not asked:
        return  # an empty filter would ask for all of them
    columns = inspector.get_multi_columns(schema, asked)
    primary = inspector.get_multi_pk_constraint(schema, asked)
    constraints = inspector.get_multi_unique_constraints(schema, asked)
    # SQLite keeps an inline UNIQUE only as an index of its own, which SQLAlchemy leaves out unless asked.
    indexes = inspector.get_multi_indexes(schema, asked, include_auto_indexes=True)
    foreign = inspector.get_multi_foreign_keys(schema, asked)
    checks = inspector.get_multi_check_constraints(schema, asked)
    comments = inspector.get_multi_table_comment(schema, asked) if inspector.dialect.supports_comments else {}
    quote = inspector.dialect.identifier_preparer.quote
    for key in sorted(columns, key=lambda key: key[1]):
        name = key[1]
        key_columns = tuple(primary[key]["constrained_columns"] if primary.get(key) else ())
        unique = [tuple(one["column_names"]) for one in constraints.get(key) or ()]
        unique += [_names(one) for one in indexes.get(key) or () if one["unique"]]
        allowed = [one["sqltext"] for one in checks.get(key) or ()]
        yield FoundTable(
            TableName(schema, name),
            tuple(_column(one, allowed, quote) for one in columns[key]),
            key_columns,
            tuple(one for one in dict.fromkeys(unique) if one and one != key_columns),
            tuple(
                FoundKey(
                    tuple(one["constrained_columns"]),
                    TableName(one["referred_schema"], one["referred_table"]),
                    tuple(one["referred_columns"]),
                )
                for one in foreign.get(key) or ()
            ),
            (comments[key]["text"] or "") if comments.get(key) else "",
        )


def _names(index: Any) -> tuple[str, ...]:  # noqa: ANN401 -- a reflected index, whose keys differ by dialect
    """Answer the columns of a unique index; none where it is partial or made of expressions."""
    partial = any(
        key.endswith("_where") and value is not None for key, value in index.get("dialect_options", {}).items()
    )
    names = index["column_names"]
    return () if partial or None in names else tuple(names)


def _column(found: ReflectedColumn, checks: Sequence[str], quote: Callable[[str], str]) -> FoundColumn:
    name, kind = found["name"], plain(found["type"])
    choices: list[str | int] = list(kind.enums) if isinstance(kind, Enum) else []
    for check in checks:
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", check) and _ONE_OF.search(check):
            choices += [literal.replace("''", "'") for literal in _LITERAL.findall(check)]
    nullable, comment = bool(found.get("nullable", True)), found.get("comment") or ""
    return FoundColumn(name, _kind(kind), nullable, comment, tuple(dict.fromkeys(choices)), quote(name))


_KINDS: Final[tuple[tuple[type[TypeEngine[Any]], ColumnKind], ...]] = (
    (mysql.SET, "other"),
    (mysql.TIMESTAMP, "instant"),
    (DateTime, "naive"),
    (UuidType, "uuid"),
    (Integer, "integer"),
    (Numeric, "decimal"),
    (String, "text"),
)


def _kind(kind: TypeEngine[Any]) -> ColumnKind:
    if isinstance(kind, DateTime) and kind.timezone:
        return "instant"
    return next((name for known, name in _KINDS if isinstance(kind, known)), "other")
