"""The fixtures that run one test body on every server."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from duetime.settings import load_settings
from duetime.wiring import migrator
from tests.support.databases import FreshDatabase, fresh_name
from tests.support.servers import DatabaseServer, run_apart
from tests.support.shop_database import WORDS, ShopDatabase

SERVERS = [pytest.param(name, marks=pytest.mark.services) for name in WORDS]

NewShop = Callable[[], ShopDatabase]


@pytest.fixture(params=SERVERS)
async def new_shop(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[NewShop]:
    """A function that makes a new database without any table."""
    made: list[ShopDatabase] = []

    def make() -> ShopDatabase:
        made.append(ShopDatabase(fresh_database(request.param), WORDS[request.param]))
        return made[-1]

    yield make
    for shop in made:
        await shop.aclose()


@pytest.fixture
def empty_shop(new_shop: NewShop) -> ShopDatabase:
    """A new database without any table."""
    return new_shop()


@pytest.fixture
async def shop(empty_shop: ShopDatabase) -> ShopDatabase:
    """A new database with the sample shop, ready to be worked on."""
    await empty_shop.create()
    return empty_shop


@pytest.fixture(scope="session")
def shared_shop(request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """A function from a server to the URL of a sample shop that many tests use in turn."""
    made: dict[str, tuple[DatabaseServer, str, str]] = {}

    def url(kind: str) -> str:
        if kind not in made:
            server: DatabaseServer = request.getfixturevalue(f"{kind}_server")
            name = fresh_name()
            made[kind] = (server, name, server.create(name))
            run_apart(_create(made[kind][2], kind))
        return made[kind][2]

    yield url
    for server, name, _ in made.values():
        server.drop(name)


@pytest.fixture(scope="session")
def shop_url(shared_shop: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """As ``shared_shop``, on SQLite too."""
    file: list[str] = []

    def url(kind: str) -> str:
        if kind != "sqlite":
            return shared_shop(kind)
        if not file:
            file.append(f"sqlite:///{tmp_path_factory.mktemp('shop') / 'shop.db'}")
            run_apart(migrator(load_settings(environ={}, store={"url": file[0]})).run(sample_shop=True))
        return file[0]

    return url


@pytest.fixture(params=SERVERS)
async def clean_shop(request: pytest.FixtureRequest, shared_shop: Callable[[str], str]) -> AsyncIterator[ShopDatabase]:
    """A sample shop without rows, for tests that change no table; it takes a tenth of the time of a new database."""
    shop = ShopDatabase(shared_shop(request.param), WORDS[request.param])
    await shop.clear()
    yield shop
    await shop.aclose()


async def _create(url: str, kind: str) -> None:
    shop = ShopDatabase(url, WORDS[kind])
    await shop.create()
    await shop.aclose()
