"""One order that cannot close among a thousand that can: it hurts no other, and waits in quarantine with its reason."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.figures import Figures
from tests.support.shop_database import Filling, Section, ShopDatabase
from tests.support.waiting import eventually

ORDERS = 1000
BAD = f"bad{ORDERS - 1}"
BAD_SKU = "sku-bad"
OPTIONS: dict[str, Section] = {"closing": {"quarantine_after_failures": 2}, "sweep": {"interval": "300ms"}}


@dataclass(frozen=True)
class Cause:
    """Why the order cannot close: statements that bring the cause about, and statements that end it."""

    begins: Sequence[str]
    ends: Sequence[str]
    row: str
    """The row in the way, as the reason names it."""
    says: str = ""
    units: dict[str, int] = field(default_factory=lambda: {BAD_SKU: 100})


DELETED, FREED = "its SKU was deleted", "its coupon was freed by hand"
CAUSES = {
    "a CHECK forbids it": Cause(
        ["ALTER TABLE stock ADD CONSTRAINT all_sold CHECK (sku_id <> 'sku-bad' OR available < 98)"],
        ["ALTER TABLE stock DROP CONSTRAINT all_sold"],
        "sku-bad",
        "all_sold",
    ),
    DELETED: Cause(
        ["DELETE FROM stock WHERE sku_id = 'sku-bad'"],
        ["INSERT INTO stock (sku_id, available, held) VALUES ('sku-bad', 97, 3)"],
        "stock sku-bad",
        "no row",
    ),
    FREED: Cause(
        ["UPDATE coupon SET state = 'unused' WHERE coupon_id = 'c-bad'"],
        ["UPDATE coupon SET state = 'locked' WHERE coupon_id = 'c-bad'"],
        "coupon c-bad",
        "'unused'",
    ),
}


async def place_them(shop: ShopDatabase) -> None:
    """A thousand orders, of which one also holds three units of a SKU of its own and a coupon."""
    await shop.fill(Filling(orders=ORDERS - 1))
    await shop.add_orders(Filling(orders=1, first=ORDERS - 1, prefix="bad", late_by=timedelta(seconds=9)))
    shop.units[BAD_SKU] = 100
    await shop.execute(
        "INSERT INTO stock (sku_id, available, held) VALUES ('sku-bad', 97, 3)",
        "INSERT INTO coupon (coupon_id, state) VALUES ('c-bad', 'locked')",
        f"INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES ('{BAD}', 'stock', 'sku-bad', 3)",
        f"INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES ('{BAD}', 'coupon', 'c-bad', 1)",
    )


@pytest.mark.parametrize("cause", [pytest.param(cause, id=name) for name, cause in CAUSES.items()])
@pytest.mark.timeout(120)
async def test_bad_order_hurts_only_itself(shop: ShopDatabase, tmp_path: Path, figures: Figures, cause: Cause) -> None:
    await place_them(shop)
    await shop.execute(*cause.begins)
    async with shop.duetime(**OPTIONS) as app:
        run = await app.wired.sweep.run_once()
        assert (run.due_found, run.closed) == (ORDERS, ORDERS - 1), "the others close at once"
        async with app.wired.service.running():
            await eventually("it goes to quarantine", lambda: quarantined(shop), seconds_max=30)
    ((order_no, stage, _, error),) = (await shop.books()).quarantine
    figures(f"in quarantine because: {error}")
    assert (order_no, stage) == (BAD, "close")
    assert cause.row in error
    assert cause.says in error
    assert await told(shop) == 1
    await shop.execute(*cause.ends)
    await retry(shop, tmp_path)
    books = await shop.judge()
    assert books.count("closed") == ORDERS
    assert [state for _, _, state, _ in books.quarantine] == ["resolved"]


async def retry(shop: ShopDatabase, folder: Path) -> None:
    command = CommandLine(shop.url, folder, {"DUETIME_TIMEOUTS__GRACE": "0s"})
    again = command.alone("quarantine", "retry", BAD)
    assert again.code == 0, again
    assert "settled" in again.out


@pytest.mark.parametrize("cause", [pytest.param(CAUSES[name], id=name) for name in (DELETED, FREED)])
@pytest.mark.timeout(120)
async def test_what_cannot_be_given_back_is_quarantined_and_the_order_is_closed_all_the_same(
    clean_shop: ShopDatabase, figures: Figures, cause: Cause
) -> None:
    """The same causes where units go back right after the close: the close is on time, the release waits for help."""
    shop = clean_shop
    await place_them(shop)
    await shop.execute(*cause.begins)
    stock = {"kind": "stock", "storage": "counter", "table": "stock", "key": "sku_id", "available": "available"}
    coupon = {"kind": "coupon", "storage": "instance", "table": "coupon", "key": "coupon_id", "state": "state"}
    values = {"held_value": "locked", "free_value": "unused", "used_value": "used"}
    after: dict[str, str] = {"release": "after"}
    async with (
        shop.duetime(assets=[stock | after, coupon | values | after], **OPTIONS) as app,
        app.wired.service.running(),
    ):
        await eventually("all orders are closed", lambda: all_closed(shop), seconds_max=30)
        await eventually("the release goes to quarantine", lambda: quarantined(shop), seconds_max=30)
        ((order_no, stage, _, error),) = (await shop.books()).quarantine
        figures(f"in quarantine because: {error}")
        assert (order_no, stage) == (BAD, "release")
        assert cause.row in error
        assert cause.says in error
        await eventually("everything else went back", lambda: only_one_left(shop))
        await shop.execute(*cause.ends)
        await app.retry([BAD])
        await eventually("its units are back", shop.settled)
    assert [state for _, _, state, _ in (await shop.judge()).quarantine] == ["resolved"]


async def all_closed(shop: ShopDatabase) -> bool:
    return await shop.count("closed") == ORDERS


async def only_one_left(shop: ShopDatabase) -> bool:
    return await shop.unfinished() == 1


async def quarantined(shop: ShopDatabase) -> bool:
    return await shop.number("SELECT count(*) FROM duetime_quarantine WHERE state = 'quarantined'") == 1


async def told(shop: ShopDatabase) -> int:
    return await shop.number("SELECT count(*) FROM duetime_outbox WHERE type = 'order.quarantined'")
