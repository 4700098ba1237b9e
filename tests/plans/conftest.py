"""Filled shops: each is filled once, and all tests look at it before the next one is filled."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from benchmarks.benching.shop import Shop
from duetime.clock import SystemClock
from duetime.config.database_url import async_url
from duetime.shop import OrdersTable, sample_assets
from duetime.stores.sql.statements import Statements
from duetime.stores.sql.store import SqlOptions, SqlStore
from tests.plans.population import LONG_STATISTICS, STATISTICS, Population, Shape, gather_statistics, populate
from tests.support.databases import DatabaseKind, fresh_name
from tests.support.servers import DatabaseServer

CI_ROWS = 200_000
LONG_ROWS = 1_000_000
FILLING_SECONDS_MAX = 900


@dataclass(frozen=True)
class Filled:
    """A filled shop and where it is."""

    shape: Shape
    url: str
    _known: dict[tuple[str, str | None], Statements] = field(default_factory=dict)

    @asynccontextmanager
    async def opened(self, orders: OrdersTable | None = None) -> AsyncIterator[SqlStore]:
        """A store that has looked its tables up already."""
        url = async_url(self.url).render_as_string(hide_password=False)
        orders = orders or OrdersTable()
        store = SqlStore(SqlOptions(url, orders, sample_assets()), clock=SystemClock())
        # Looking the shop's tables up takes longer than most tests, and they are the same in all of them.
        described = (orders.table, orders.only)
        store._statements = self._known.get(described)
        try:
            self._known[described] = await store.statements()
            yield store
        finally:
            await store.aclose()


def shapes() -> Iterator[object]:
    """All shops, small enough for CI; and all again with a million rows, marked long."""
    for rows, states in ((CI_ROWS, STATISTICS), (LONG_ROWS, LONG_STATISTICS)):
        for kind in get_args(DatabaseKind):
            for population in get_args(Population):
                for statistics in states[kind]:
                    shape = Shape(kind, population, statistics, rows)
                    marks = [] if kind == "sqlite" else [pytest.mark.services]
                    long = [pytest.mark.long, pytest.mark.timeout(FILLING_SECONDS_MAX)] if rows == LONG_ROWS else []
                    yield pytest.param(shape, marks=[*marks, *long], id=str(shape))


class Shops:
    """One filled database at a time: the one that is wanted, made from the one before where that is possible."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._filled: Filled | None = None
        self._server: DatabaseServer | None = None

    def get(self, shape: Shape, server: DatabaseServer | None) -> Filled:
        """Fill a shop, or bring the statistics of the last one up to date."""
        last = self._filled
        if last is not None and shape == replace(last.shape, statistics="fresh"):
            apart(gather_statistics(Shop(shape.kind, last.url)))
            self._filled = Filled(shape, last.url)
            return self._filled
        self.drop()
        self._server, name = server, fresh_name()
        url = server.create(name) if server else f"sqlite:///{self._folder / name}.db"
        self._filled = Filled(shape, url)
        apart(populate(url, shape))
        return self._filled

    def drop(self) -> None:
        """Drop what is filled."""
        filled, self._filled = self._filled, None
        if filled is None:
            return
        database = async_url(filled.url).database or ""
        if self._server:
            self._server.drop(database)
        else:
            Path(database).unlink()


def apart(work: Coroutine[Any, Any, None]) -> None:
    """Run in a thread with an event loop of its own."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(asyncio.run, work).result(timeout=FILLING_SECONDS_MAX)


@pytest.fixture(scope="session")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shops]:
    made = Shops(tmp_path_factory.mktemp("plans"))
    yield made
    made.drop()


@pytest.fixture(scope="module", params=shapes())
def filled(request: pytest.FixtureRequest, shops: Shops) -> Filled:
    shape: Shape = request.param
    server = None if shape.kind == "sqlite" else request.getfixturevalue(f"{shape.kind}_server")
    return shops.get(shape, server)


@pytest.fixture
async def store(filled: Filled) -> AsyncIterator[SqlStore]:
    async with filled.opened() as store:
        yield store
