"""Observe mode writes its own table and nothing else, on every database; what it does not do is refused."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from duetime.app import Duetime
from duetime.errors import ConfigError, InvalidInput
from duetime.hold import Hold
from duetime.observation import Verdict
from duetime.stores.sql.schema import OwnTables
from duetime.wiring import reporting
from tests.contract.test_following import Rows, held_shop, rows
from tests.support.small_shop import a_shop, orders, run
from tests.support.waiting import eventually

pytestmark = pytest.mark.services

OBSERVE = {"mode": "observe"}
TABLES = sorted({table.name for table in OwnTables().metadata.sorted_tables} | {"orders", "stock", "coupon"})


def ago(duration: timedelta) -> str:
    return (datetime.now(UTC) - duration).strftime("%Y-%m-%d %H:%M:%S")


@asynccontextmanager
async def observed_shop(url: str, **orders_section: object) -> AsyncIterator[tuple[Duetime, AsyncEngine]]:
    """A shop of due and of forgotten orders that hold something, observed."""
    async with held_shop(url, count=4) as (_, engine):
        hour, year = ago(timedelta(hours=1)), ago(timedelta(days=365))
        for late, number in ((hour, "so-0"), (hour, "so-1"), (year, "so-3")):
            await run(engine, f"UPDATE orders SET expire_at = '{late}' WHERE order_no = '{number}'")
        async with a_shop(url, closing=OBSERVE, orders=orders_section) as (duetime, _):
            yield duetime, engine


async def everything(engine: AsyncEngine, *, but: str = "") -> dict[str, Rows]:
    return {table: sorted(await rows(engine, f"SELECT * FROM {table}"), key=repr) for table in TABLES if table != but}


async def counts(duetime: Duetime) -> dict[Verdict, int]:
    return dict((await reporting(duetime.wired).report()).counts)


async def test_passes_and_the_report_write_nothing_but_what_they_remember(database_url: str) -> None:
    async with observed_shop(database_url) as (duetime, engine):
        before = await everything(engine, but="duetime_observed")
        for _ in range(3):
            await duetime.wired.service.one_pass()
        async with duetime.running():
            pass
        assert await rows(engine, "SELECT order_no FROM duetime_observed ORDER BY order_no") == [("so-0",), ("so-1",)]
        whole = await everything(engine)
        assert await counts(duetime) == {Verdict.MISSED: 2}
        assert await everything(engine) == whole
        assert await everything(engine, but="duetime_observed") == before


async def test_triggers_close_nothing_where_they_are_only_configured(database_url: str) -> None:
    async with a_shop(database_url, closing=OBSERVE, triggers=[{"type": "database"}], sweep={"interval": "100ms"}) as (
        duetime,
        engine,
    ):
        await orders(engine, "soon", expire_at=ago(-timedelta(seconds=2)))
        async with duetime.running():
            query = "SELECT order_no FROM duetime_observed WHERE would_close_at IS NOT NULL OR seen <> 'pending'"

            async def found() -> bool:
                return bool(await rows(engine, query))

            await eventually("a pass finds the order due", found)
        assert await rows(engine, "SELECT status FROM orders") == [("pending",)]
        assert await rows(engine, "SELECT seen FROM duetime_observed") == [("pending",)]


async def test_what_the_shop_does_is_seen_in_every_form(database_url: str) -> None:
    async with observed_shop(database_url, paid_at="paid_at") as (duetime, engine):
        soon = ago(-timedelta(minutes=1))
        await orders(engine, "paid", "shipped", "closed", "deleted", "both", "left", expire_at=soon)
        await duetime.wired.service.one_pass()
        await run(
            engine,
            "UPDATE orders SET status = 'paid' WHERE order_no IN ('paid', 'shipped')",
            "DELETE FROM orders WHERE order_no = 'deleted'",
            f"UPDATE orders SET status = 'closed', closed_at = '{soon}' WHERE order_no = 'closed'",
            f"UPDATE orders SET status = 'closed', closed_at = '{soon}', paid_at = '{ago(timedelta(0))}' "
            "WHERE order_no = 'both'",
            f"UPDATE orders SET status = 'closed', closed_at = '{ago(timedelta(minutes=30))}' WHERE order_no = 'so-0'",
        )
        await duetime.wired.service.one_pass()
        await run(engine, f"UPDATE orders SET status = 'closed', closed_at = '{soon}' WHERE order_no = 'shipped'")
        await duetime.wired.service.one_pass()
        assert await counts(duetime) == {
            Verdict.PAID: 1, Verdict.CLOSED_PAID: 2, Verdict.IN_TIME: 1, Verdict.LATE: 1,
            Verdict.DELETED: 1, Verdict.OPEN: 1, Verdict.MISSED: 1,
        }  # fmt: skip


async def test_orders_that_the_shop_keeps_from_us_are_not_observed(database_url: str) -> None:
    async with observed_shop(database_url, only="order_no <> 'so-1'") as (duetime, engine):
        await duetime.wired.service.one_pass()
        assert await rows(engine, "SELECT order_no FROM duetime_observed") == [("so-0",)]


@pytest.mark.parametrize("mode", ["observe", "close"])
async def test_what_is_looked_at_again_is_not_removed_however_short_it_is_kept(database_url: str, mode: str) -> None:
    keep = {"observed": "1s"}
    async with observed_shop(database_url) as (duetime, engine):
        await duetime.wired.service.one_pass()
        week_ago = ago(timedelta(days=7, minutes=1))
        await run(engine, f"UPDATE duetime_observed SET followed = 0, expire_at = '{week_ago}' WHERE order_no = 'so-0'")
        await run(engine, "UPDATE orders SET status = 'closed' WHERE order_no IN ('so-0', 'so-3')")
        async with a_shop(database_url, closing={"mode": mode}, retention=keep) as (keeping, _):
            removed = (await keeping.wired.service.one_pass()).removed
        assert removed.observed == 1
        assert await rows(engine, "SELECT order_no FROM duetime_observed") == [("so-1",)]


async def test_the_first_run_that_closes_is_guarded_as_if_nothing_had_been_observed(database_url: str) -> None:
    async with observed_shop(database_url) as (duetime, engine):
        await duetime.refuse_backlog()
        await duetime.wired.service.one_pass()
        assert (await reporting(duetime.wired).report()).too_old == 1
        async with a_shop(database_url) as (closing, _):
            with pytest.raises(ConfigError, match="nothing was ever swept here"):
                await closing.refuse_backlog()
        assert await rows(engine, "SELECT order_no FROM orders WHERE status <> 'pending'") == []


DEEDS: dict[str, Callable[[Duetime], Awaitable[object]]] = {
    "close order so-2": lambda duetime: duetime.close("so-2"),
    "extend order so-2": lambda duetime: duetime.extend("so-2", datetime.now(UTC) + timedelta(hours=1)),
    "take a payment for order so-2": lambda duetime: duetime.pay(
        "so-2", payment_id="p-1", amount_minor=1, currency="CNY"
    ),
    "place order so-9": lambda duetime: duetime.place("so-9", [Hold("stock", "sku-1", 1)]),
    "try again what failed": lambda duetime: duetime.retry(),
    "resolve order so-2": lambda duetime: duetime.resolve(["so-2"], why="by hand"),
}


@pytest.mark.parametrize("deed", DEEDS)
async def test_what_would_write_is_refused_with_a_sentence(database_url: str, deed: str) -> None:
    async with observed_shop(database_url) as (duetime, engine):
        before = await everything(engine)
        with pytest.raises(InvalidInput, match=f'^will not {deed}: closing.mode is "observe", .* set closing.mode = '):
            await DEEDS[deed](duetime)
        assert await everything(engine) == before


async def test_a_hold_is_refused_inside_the_shops_transaction(database_url: str) -> None:
    async with observed_shop(database_url) as (duetime, engine), engine.begin() as tx:
        with pytest.raises(InvalidInput, match="will not hold for order so-2"):
            await duetime.hold(tx, "so-2", [Hold("stock", "sku-1", 1)])
