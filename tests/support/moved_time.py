"""A duetime whose database tells a time that the test chose, by the database's own words.

The store asks its database for the time, and what is asked here is the real statement on the real server; only what
it answers is moved. MariaDB has ``SET timestamp`` for this. PostgreSQL's clock cannot be moved: a function of the same
name stands before it on the database's search path. SQLite takes the time from the process.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from duetime.app import Duetime
from duetime.config.database_url import async_url
from duetime.settings import load_settings
from duetime.testing import ManualClock
from duetime.wiring import migrator
from tests.support.databases import DatabaseKind
from tests.support.shop_database import Section
from tests.support.small_shop import run

STEP: Final = timedelta(minutes=15)


class MovedTime(ABC):
    """The clock and the zone of one database."""

    def __init__(self, server_zone: str | None = None) -> None:
        """Have sessions of duetime's in this zone, as a server would by its configuration."""
        self.clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.server_zone = server_zone

    async def prepare(self, engine: AsyncEngine) -> None:  # noqa: B027 - not all have anything to do
        """Make in the database what is needed."""

    async def watch(self, duetime: Duetime) -> None:  # noqa: B027 - as above
        """Move the clock of this duetime's sessions."""

    @abstractmethod
    async def move(self, engine: AsyncEngine, to: datetime) -> None:
        """Let it be ``to``."""


class OfProcess(MovedTime):
    """SQLite."""

    async def move(self, engine: AsyncEngine, to: datetime) -> None:
        del engine
        self.clock.jump(to - self.clock.now())


class OfPostgreSQL(MovedTime):
    """A function that stands before the server's own."""

    async def prepare(self, engine: AsyncEngine) -> None:
        url = engine.url
        await run(
            engine,
            "CREATE SCHEMA moved",
            "CREATE TABLE moved.time (now timestamptz)",
            "INSERT INTO moved.time VALUES (now())",
            "CREATE FUNCTION moved.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql "
            "AS 'SELECT now FROM moved.time'",
            f'ALTER DATABASE "{url.database}" SET search_path = moved, public, pg_catalog',
            f"ALTER DATABASE \"{url.database}\" SET timezone = '{self.server_zone or 'UTC'}'",
        )

    async def move(self, engine: AsyncEngine, to: datetime) -> None:
        await run(engine, f"UPDATE moved.time SET now = '{to.astimezone(UTC).isoformat()}'")


class OfMariaDB(MovedTime):
    """The session's own variable; a session takes it when it is taken from the pool."""

    async def prepare(self, engine: AsyncEngine) -> None:
        """Know the zone by its name; the test's own sessions write in UTC, which can say every instant."""

        @event.listens_for(engine.sync_engine, "connect")
        def in_utc(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's own
            _execute(connection, "SET time_zone = '+00:00'")

        if self.server_zone is not None:
            await run(engine, *zone_rows(self.server_zone))

    async def watch(self, duetime: Duetime) -> None:
        @event.listens_for(duetime.wired.store._engine.sync_engine, "checkout")
        def set_up(connection: Any, _record: object, _proxy: object) -> None:  # noqa: ANN401 - the driver's own
            _execute(connection, f"SET timestamp = {self.clock.now().timestamp():.6f}")
            if self.server_zone is not None:
                _execute(connection, f"SET time_zone = '{self.server_zone}'")

    async def move(self, engine: AsyncEngine, to: datetime) -> None:
        del engine
        self.clock.jump(to - self.clock.now())


MOVED: Final[Mapping[DatabaseKind, type[MovedTime]]] = {
    "sqlite": OfProcess,
    "postgresql": OfPostgreSQL,
    "mariadb": OfMariaDB,
}


@asynccontextmanager
async def a_moved_shop(
    url: str, time: MovedTime, *tables: str, **sections: Section
) -> AsyncIterator[tuple[Duetime, AsyncEngine]]:
    """Make ``tables`` and what duetime needs, and open a duetime whose clock ``time`` moves."""
    full = async_url(url).render_as_string(hide_password=False)
    usual: dict[str, Section] = {
        "store": {"url": full},
        "timeouts": {"grace": "0s"},
        "sweep": {"pause": "0s", "page_size": 3},
    }
    settings = load_settings(None, environ={}, **(usual | sections))
    engine = create_async_engine(full)
    try:
        await run(engine, *tables)
        await migrator(settings).run(progress=lambda _: None)
        await time.prepare(engine)
        await engine.dispose()
        async with Duetime(settings, clock=time.clock) as duetime:
            await time.watch(duetime)
            await duetime.wired.store.aclose()  # sessions that were opened before are not moved
            yield duetime, engine
    finally:
        await engine.dispose()


def _execute(connection: Any, statement: str) -> None:  # noqa: ANN401 - the driver's own
    cursor = connection.cursor()
    cursor.execute(statement)
    cursor.close()


def zone_rows(name: str) -> list[str]:
    """Statements by which MariaDB knows a zone by its name, as ``mysql_tzinfo_to_sql`` would write them."""
    zone = ZoneInfo(name)
    number = 1_000_000 + sum(n * ord(letter) for n, letter in enumerate(name, 1))
    at = datetime(2020, 1, 1, tzinfo=UTC)
    offsets = [_offset(at, zone)]
    changes: list[tuple[datetime, timedelta]] = []
    while at < datetime(2030, 1, 1, tzinfo=UTC):
        at += STEP
        if _offset(at, zone) != (changes[-1][1] if changes else offsets[0]):
            changes.append((at, _offset(at, zone)))
    kinds = list(dict.fromkeys([offsets[0], *(offset for _, offset in changes)]))
    types = ", ".join(f"({number}, {n}, {offset.total_seconds():.0f}, 0, '')" for n, offset in enumerate(kinds))
    moves = ", ".join(f"({number}, {at.timestamp():.0f}, {kinds.index(offset)})" for at, offset in changes)
    return [
        f"REPLACE INTO mysql.time_zone VALUES ({number}, 'N')",
        f"REPLACE INTO mysql.time_zone_name VALUES ('{name}', {number})",
        f"REPLACE INTO mysql.time_zone_transition_type VALUES {types}",
        f"REPLACE INTO mysql.time_zone_transition VALUES {moves}",
    ]


def _offset(at: datetime, zone: ZoneInfo) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta(0)
