"""A worker that freezes in the middle of a transaction keeps the shop's rows as long as the server allows, no longer.

The process stops itself between two statements, with rows locked, as a machine does that goes to sleep. Every place
where a close or a release can freeze is tried, each in a database of its own.
"""

import asyncio
import time
from pathlib import Path

import pytest

from tests.support.figures import Figures
from tests.support.shop_database import Filling, Section, ShopDatabase, sku
from tests.support.shops import NewShop
from tests.support.waiting import eventually
from tests.support.worker import Worker

PROMISED_SECONDS = 5.0
MARGIN_SECONDS = 3.0
"""Servers look at idle sessions once in a while, and this machine has other things to do."""

IN_A_CLOSE = (
    "lock_orders ... add_facts",
    "lock_orders ... write_if_pending",
    "write_if_pending ... move_holds",
    "write_if_pending ... change_assets",
    "write_if_pending ... commit",
)
IN_A_RELEASE = ("lock_holds ... move_holds", "lock_holds ... commit")
RIGHT_AFTER: dict[str, Section] = {
    "assets": [{"kind": "stock", "storage": "counter", "table": "stock", "key": "sku_id", "available": "available",
                "release": "after"}]
}  # fmt: skip


async def waited_for(shop: ShopDatabase, statement: str, **values: object) -> float:
    """Answer how long the shop waited for a row."""
    started = time.monotonic()
    await shop.execute(shop.words.patience, statement, **values)
    return time.monotonic() - started


async def longest_wait(shop: ShopDatabase, folder: Path, place: str) -> float:
    """Let a worker freeze with one order in hand; answer how long the shop then waited for its rows."""
    await shop.fill(Filling(orders=1, skus=1, holds=1))
    config = shop.config(**(RIGHT_AFTER if place in IN_A_RELEASE else {}))
    with Worker(config, folder, place.replace(" ", ""), freeze_at=place) as worker:
        await worker.until_frozen()
        # A payment of the shop's own would take the order; here it only looks, so that the books add up afterwards.
        waits = await asyncio.gather(
            waited_for(shop, "UPDATE orders SET channel = 'looked at' WHERE order_no = 'o0'"),
            waited_for(shop, "UPDATE stock SET available = available + 0 WHERE sku_id = :sku", sku=sku(0)),
        )
    async with shop.duetime() as app, app.wired.service.running():
        await eventually("somebody else does what was left", shop.settled, seconds_max=30)
    await shop.judge()
    return max(waits)


@pytest.mark.timeout(180)
async def test_shop_waits_for_a_frozen_worker_no_longer_than_promised(
    new_shop: NewShop, tmp_path: Path, figures: Figures
) -> None:
    places = IN_A_CLOSE + IN_A_RELEASE
    shops = [new_shop() for _ in places]
    for shop in shops:
        await shop.create()
    pairs = zip(shops, places, strict=True)
    waits = await asyncio.gather(*(longest_wait(shop, tmp_path, place) for shop, place in pairs))
    for place, seconds in zip(places, waits, strict=True):
        figures(f"frozen at {place}: the shop waited {seconds:.1f} s")
    assert min(waits) > 1, "a worker froze that held nothing"
    assert max(waits) < PROMISED_SECONDS + MARGIN_SECONDS
