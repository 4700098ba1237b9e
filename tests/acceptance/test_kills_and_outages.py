"""``duetime run`` killed, asked to stop, and left without its database: the next one, or the same one, goes on."""

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.absence import without
from tests.support.command_line import CommandLine, Worker
from tests.support.figures import Figures
from tests.support.servers import DatabaseServer, MariaDBServer, PostgreSQLServer
from tests.support.services import Services
from tests.support.shop_database import WORDS, Filling, ShopDatabase
from tests.support.waiting import eventually, let_pass

INTERVAL = "300ms"
SMALL = {
    "DUETIME_TIMEOUTS__GRACE": "0s",
    "DUETIME_SWEEP__INTERVAL": INTERVAL,
    "DUETIME_SWEEP__PAGE_SIZE": "20",
    "DUETIME_CLOSING__BATCH_SIZE": "20",
}
AWAY_SECONDS = 20.0
SERVERS: Mapping[str, Callable[[str], DatabaseServer]] = {"postgresql": PostgreSQLServer, "mariadb": MariaDBServer}


@pytest.fixture
def command(shop: ShopDatabase, tmp_path: Path) -> Iterator[CommandLine]:
    """The commands on the shop, closing in small steps so that they can be met in the middle of one."""
    command = CommandLine(shop.url, tmp_path, dict(SMALL))
    with command.running:
        yield command


async def some_closed(shop: ShopDatabase, count: int) -> None:
    async def reached() -> bool:
        return await shop.count("closed") >= count

    await eventually(f"{count} are closed", reached, seconds_max=30)


@pytest.mark.parametrize("kills", [pytest.param(3, id="3 kills"), pytest.param(40, id="40", marks=pytest.mark.long)])
@pytest.mark.timeout(900)
async def test_killed_at_any_moment_nothing_is_half_done_and_the_next_one_finishes(
    shop: ShopDatabase, command: CommandLine, figures: Figures, kills: int
) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    await shop.fill(Filling(orders=kills * 400, coupons=True))
    for n in range(kills):
        worker = command.start("run")
        if n % 4 < 3:
            await some_closed(shop, await shop.count("closed") + chance.randint(1, 200))
        await let_pass(chance.uniform(0, 0.2), because="the kill comes at any moment, also while it starts")
        worker.process.kill()
        worker.process.wait()
        await shop.judge(settled=False)
    left = await shop.count("pending")
    last = command.start("run")
    last.until("started")
    started = time.monotonic()
    await eventually("everything due is closed and given back", shop.settled, seconds_max=60)
    figures(
        f"seed {seed}; {left} were left after {kills} kills, done {time.monotonic() - started:.1f} s after the start"
    )
    # What falls due while it runs waits for the next sweep, and no longer.
    await shop.add_orders(Filling(orders=20, first=kills * 400))
    falling_due = time.monotonic()
    await eventually("the next sweep closes it", shop.settled, seconds_max=10)
    figures(
        f"due beside a running worker: closed after {time.monotonic() - falling_due:.2f} s (sweep every {INTERVAL})"
    )
    assert last.stop() == 0
    assert (await shop.judge()).count("closed") == kills * 400 + 20


async def test_asked_to_stop_it_ends_in_time_with_nothing_half_done(
    shop: ShopDatabase, command: CommandLine, figures: Figures
) -> None:
    await shop.fill(Filling(orders=3000, coupons=True))
    worker = command.start("run")
    await some_closed(shop, 100)
    asked = time.monotonic()
    assert worker.stop() == 0
    seconds = time.monotonic() - asked
    books = await shop.judge(settled=False)
    figures(f"ended {seconds:.1f} s after SIGTERM with {books.count('closed')} of 3000 closed")
    assert books.count("pending") > 0, "there was nothing left to stop in the middle of"
    assert worker.events()[-1] == "stopped"


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.services) for name in WORDS])
def own_server(request: pytest.FixtureRequest) -> Iterator[tuple[str, Services]]:
    """A server that only this test uses, because it is stopped."""
    # Not tmp_path: when root runs the tests, the server's own account cannot enter it.
    folder = Path(tempfile.mkdtemp(prefix="duetime-services-"))
    folder.chmod(0o755)
    services = Services(folder)
    started = services.run("up", request.param)
    if started.returncode:
        without(request.param, started.stderr.strip())
    yield request.param, services
    services.run("wipe")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.timeout(180)
async def test_database_that_is_stopped_under_load_and_started_again(
    own_server: tuple[str, Services], tmp_path: Path, figures: Figures
) -> None:
    """The same process goes on by itself, and nobody lost anything."""
    name, services = own_server
    url = services.url(name)
    assert url is not None
    shop = ShopDatabase(SERVERS[name](url).create("shop"), WORDS[name])
    command = CommandLine(shop.url, tmp_path, dict(SMALL))
    try:
        await shop.create()
        await shop.fill(Filling(orders=4000, coupons=True))
        await shop.add_orders(Filling(orders=100, first=4000, late_by=timedelta(seconds=-AWAY_SECONDS)))
        with command.running:
            worker = command.start("run")
            await some_closed(shop, 200)
            await shop.engine.dispose()
            assert services.run("stop", name).returncode == 0
            await let_pass(AWAY_SECONDS, because="the database is away for so long")
            assert worker.process.poll() is None, "it gave up"
            assert services.run("start", name).returncode == 0
            back = time.monotonic()
            first, done = await goes_on(shop, worker)
            figures(
                f"away for {AWAY_SECONDS:.0f} s; closing after {first - back:.1f} s, done after {done - back:.1f} s"
            )
            assert worker.stop() == 0
        assert (await shop.judge()).count("closed") == 4100
    finally:
        await shop.aclose()


async def goes_on(shop: ShopDatabase, worker: Worker) -> tuple[float, float]:
    """Answer when it had closed more than before the outage, and when everything was done."""
    await some_closed(shop, await shop.count("closed") + 1)
    first = time.monotonic()
    await eventually("it goes on by itself", shop.settled, seconds_max=60)
    assert worker.process.poll() is None
    return first, time.monotonic()
