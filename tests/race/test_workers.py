"""Worker processes over one backlog: killed, frozen, woken late, and replaced."""

import random
from pathlib import Path

import pytest

from tests.support.figures import Figures
from tests.support.shop_database import Filling, Section, ShopDatabase
from tests.support.waiting import eventually, let_pass
from tests.support.worker import Worker, workers

ORDERS = 10_000
LONGER_THAN_THE_SERVER_WAITS = 6.0
BATCH = 50
SLOW: dict[str, Section] = {
    "closing": {"batch_size": BATCH},
    "sweep": {"interval": "300ms", "page_size": BATCH, "pause": "30ms"},
}


async def until_closed(shop: ShopDatabase, count: int) -> None:
    async def reached() -> bool:
        return await shop.count("closed") >= count

    await eventually(f"{count} orders are closed", reached, seconds_max=60)


@pytest.mark.timeout(180)
async def test_one_killed_and_one_frozen_leave_nothing_undone(
    shop: ShopDatabase, tmp_path: Path, figures: Figures
) -> None:
    await shop.fill(Filling(orders=ORDERS, skus=50))
    config = shop.config(**SLOW)
    with workers(config, tmp_path, "killed", "frozen") as (killed, frozen):
        await until_closed(shop, ORDERS // 3)
        killed.kill()
        await until_closed(shop, ORDERS // 2)
        frozen.freeze()
        closed_by_then = await shop.count("closed")
        await let_pass(LONGER_THAN_THE_SERVER_WAITS, because="the server ends the transaction of a frozen worker")
        assert await shop.count("closed") - closed_by_then <= BATCH, "somebody else closes too"
        frozen.wake()
        await eventually("the woken worker closes the rest", shop.settled, seconds_max=60)
        assert frozen.terminate() == 0
        figures(f"the woken worker {frozen.report}")
    books = await shop.judge()
    assert books.count("closed") == ORDERS
    assert not books.quarantine


@pytest.mark.timeout(180)
async def test_frozen_worker_that_wakes_is_harmless(shop: ShopDatabase, tmp_path: Path, figures: Figures) -> None:
    """Its orders were closed by others in the meantime; it finds that out, and takes nothing back."""
    await shop.fill(Filling(orders=2000, skus=5))
    config = shop.config(**SLOW)
    with (
        Worker(config, tmp_path, "frozen", freeze_at="write_if_pending ... commit").start().until_ready() as frozen,
        workers(config, tmp_path, "other") as (other,),
    ):
        await frozen.until_frozen()
        await eventually("the other worker closes everything", shop.settled, seconds_max=60)
        frozen.wake()
        await shop.fill(Filling(orders=500, first=2000, skus=5))
        await eventually("both go on", shop.settled, seconds_max=60)
        assert (frozen.terminate(), other.terminate()) == (0, 0)
        figures(f"the woken worker {frozen.report}; the other one {other.report}")
        assert frozen.report["outcomes"].get("already closed", 0) > 0, "it was not overtaken in the middle of a close"
    books = await shop.judge()
    assert books.count("closed") == 2500


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_many_kills(shop: ShopDatabase, tmp_path: Path, figures: Figures) -> None:
    """Killed at random moments, again and again, until nothing is left."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    figures(f"seed {seed}")
    await shop.fill(Filling(orders=ORDERS, skus=50, coupons=True))
    rounds = 0
    while not await shop.settled():
        with workers(shop.config(**SLOW), tmp_path, "one", "two") as started:
            for worker in started:
                await let_pass(chance.uniform(0.05, 0.6), because="the kill comes at any moment")
                worker.kill()
        rounds += 1
    figures(f"{rounds} rounds of kills")
    assert (await shop.judge()).count("closed") == ORDERS
