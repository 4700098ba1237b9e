"""What becomes of holds when the shop pays, closes or deletes orders by itself; on every database."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from duetime.app import Duetime
from duetime.following import Following, FollowingOptions
from duetime.hold import Hold
from duetime.observer import Followed, Met
from duetime.order import Closed, Placed
from duetime.wiring import wire
from tests.support.databases import DatabaseKind, FreshDatabase
from tests.support.shop_database import Section
from tests.support.small_shop import a_shop, run

pytestmark = pytest.mark.services

AFTER_PAID: Section = {"states": {"after_paid": ["shipped"]}}
HOLD = "INSERT INTO duetime_hold (order_no, kind, ref, quantity, state) VALUES"
Rows = list[tuple[object, ...]]


@asynccontextmanager
async def held_shop(url: str, *, count: int = 4, **sections: Section) -> AsyncIterator[tuple[Duetime, AsyncEngine]]:
    """Orders so-0, so-1, … that are not due, each with two units of sku-1 and a coupon of its own."""
    described: dict[str, Section] = {"orders": AFTER_PAID, **sections}
    async with a_shop(url, tables=(), **described) as (duetime, engine):
        await run(engine, "INSERT INTO stock (sku_id, available, held) VALUES ('sku-1', 1000, 0)")
        coupons = ", ".join(f"('c-{n}', 'unused')" for n in range(count))
        await run(engine, f"INSERT INTO coupon (coupon_id, state) VALUES {coupons}")
        for n in range(count):
            placed = await duetime.place(f"so-{n}", [Hold("stock", "sku-1", 2), Hold("coupon", f"c-{n}")])
            assert isinstance(placed, Placed)
        yield duetime, engine


async def rows(engine: AsyncEngine, query: str) -> Rows:
    async with engine.connect() as connection:
        return [tuple(row) for row in (await connection.exec_driver_sql(query)).all()]


async def stock(engine: AsyncEngine) -> tuple[object, ...]:
    return (await rows(engine, "SELECT available, held FROM stock"))[0]


async def hold_states(engine: AsyncEngine) -> dict[object, set[object]]:
    found: dict[object, set[object]] = {}
    for order_no, state in await rows(engine, "SELECT order_no, state FROM duetime_hold"):
        found.setdefault(order_no, set()).add(state)
    return found


async def settled(duetime: Duetime) -> Followed:
    """One pass of everything, as ``sweep --once`` does it."""
    return (await duetime.wired.service.one_pass()).followed


@pytest.mark.parametrize("status", ["paid", "shipped"])
async def test_paid_by_the_shop_uses_up_and_leaves_assets_alone(database_url: str, status: str) -> None:
    async with held_shop(database_url) as (duetime, engine):
        before = await stock(engine), await rows(engine, "SELECT * FROM coupon ORDER BY coupon_id")
        await run(engine, f"UPDATE orders SET status = '{status}' WHERE order_no = 'so-1'")
        followed = await settled(duetime)
        assert followed.met == followed.settled == Counter({Met.PAID: 1})
        assert await hold_states(engine) == {"so-0": {"held"}, "so-1": {"consumed"}, "so-2": {"held"}, "so-3": {"held"}}
        assert (await stock(engine), await rows(engine, "SELECT * FROM coupon ORDER BY coupon_id")) == before


@pytest.mark.parametrize("deed", ["UPDATE orders SET status = 'closed'", "DELETE FROM orders"])
@pytest.mark.parametrize(
    "choice, state, units",
    [("report", "held", (992, 8)), ("release", "released", (994, 6)), ("forget", "released", (992, 8))],
)
async def test_closed_by_the_shop_is_settled_as_configured(
    database_url: str, deed: str, choice: str, state: str, units: tuple[int, int]
) -> None:
    async with held_shop(database_url, closing={"foreign_close": choice}) as (duetime, engine):
        await run(engine, f"{deed} WHERE order_no = 'so-1'")
        followed = await settled(duetime)
        met = Met.DELETED if "DELETE" in deed else Met.CLOSED
        assert followed.met == {met: 1}
        assert followed.samples == {met: ["so-1"]}
        assert followed.settled == ({} if choice == "report" else {met: 1})
        assert (await hold_states(engine))["so-1"] == {state}
        assert await stock(engine) == units
        assert not await rows(engine, "SELECT * FROM duetime_outbox WHERE type = 'order.closed'")
        again = await settled(duetime)
        assert again.met == ({met: 1} if choice == "report" else {})
        assert await stock(engine) == units


async def test_what_was_held_after_our_close_is_given_back(database_url: str) -> None:
    async with held_shop(database_url) as (duetime, engine):
        assert isinstance(await duetime.close("so-1", reason="customer"), Closed)
        late = f"{HOLD} ('so-1', 'stock', 'sku-2', 3, 'held')"
        await run(engine, "INSERT INTO stock (sku_id, available, held) VALUES ('sku-2', 7, 3)", late)
        followed = await settled(duetime)
        assert followed.settled == {Met.LATE_HOLD: 1}
        assert await rows(engine, "SELECT available, held FROM stock WHERE sku_id = 'sku-2'") == [(10, 0)]


async def test_an_unknown_status_is_told_and_never_touched(database_url: str) -> None:
    async with held_shop(database_url, closing={"foreign_close": "release"}) as (duetime, engine):
        await run(engine, "UPDATE orders SET status = 'on hold' WHERE order_no = 'so-1'")
        followed = await settled(duetime)
        assert (followed.met, followed.settled, followed.unknown) == ({Met.UNKNOWN: 1}, {}, {"on hold": 1})
        assert (await hold_states(engine))["so-1"] == {"held"}
        assert await stock(engine) == (992, 8)


async def test_set_back_to_pending_it_closes_again_and_gives_nothing_back_twice(database_url: str) -> None:
    async with held_shop(database_url) as (duetime, engine):
        assert isinstance(await duetime.close("so-1", reason="customer"), Closed)
        assert await stock(engine) == (994, 6)
        await run(
            engine, "UPDATE orders SET status = 'pending', expire_at = '2020-01-01 00:00:00' WHERE order_no = 'so-1'"
        )
        await settled(duetime)
        assert await rows(engine, "SELECT status FROM orders WHERE order_no = 'so-1'") == [("closed",)]
        facts = await rows(engine, "SELECT type FROM duetime_outbox WHERE order_no = 'so-1' AND type = 'order.closed'")
        assert len(facts) == 2
        assert await stock(engine) == (994, 6)


async def test_brought_back_and_cancelled_by_the_shop_is_the_shops_own_close(database_url: str) -> None:
    """Our close was another life of the order; the shop has given back what it took again."""
    async with held_shop(database_url) as (duetime, engine):
        assert isinstance(await duetime.close("so-1", reason="customer"), Closed)
        await run(
            engine,
            "UPDATE orders SET status = 'pending' WHERE order_no = 'so-1'",
            "UPDATE duetime_hold SET state = 'held', generation = generation + 1, released_at = NULL "
            "WHERE order_no = 'so-1'",
            "UPDATE orders SET status = 'closed' WHERE order_no = 'so-1'",
        )
        followed = await settled(duetime)
        assert (followed.met, followed.settled) == ({Met.CLOSED: 1}, {})
        assert await stock(engine) == (994, 6)


async def test_another_hands_asset_kind_blocks_only_its_own_order(database_url: str) -> None:
    async with held_shop(database_url, closing={"foreign_close": "release"}) as (duetime, engine):
        seat = f"{HOLD} ('so-1', 'seat', 'A1', 1, 'held')"
        await run(engine, seat, "UPDATE orders SET status = 'closed' WHERE order_no IN ('so-1', 'so-2')")
        followed = await settled(duetime)
        assert set(followed.blocked) == {"so-1"}
        assert "seat" in followed.blocked["so-1"]
        assert (await hold_states(engine))["so-2"] == {"released"}


async def test_the_walk_goes_on_where_it_ended_and_begins_again(database_url: str) -> None:
    async with held_shop(database_url, count=12) as (duetime, engine):
        assets = {asset.kind: asset for asset in duetime.settings.assets}
        following = Following(duetime.wired.store, FollowingOptions(assets, rows_at_once=4, pages_at_once=2))
        await run(engine, "UPDATE orders SET status = 'paid'")
        settled_by_pass = [(await following.run_once()).settled[Met.PAID] for _ in range(4)]
        assert sum(settled_by_pass) == 12
        assert max(settled_by_pass) < 12


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
async def test_two_walkers_and_a_busy_shop_settle_once(fresh_database: FreshDatabase, kind: DatabaseKind) -> None:
    async with held_shop(fresh_database(kind), count=60, closing={"foreign_close": "release"}) as (duetime, engine):
        others = [wire(duetime.settings) for _ in range(2)]
        try:

            async def shop() -> None:
                for n in range(60):
                    word = ("paid", "closed")[n % 2]
                    await run(engine, f"UPDATE orders SET status = '{word}' WHERE order_no = 'so-{n}'")

            async def walk(following: Following) -> None:
                for _ in range(30):
                    await following.run_once()

            async with asyncio.TaskGroup() as group:
                group.create_task(shop())
                for other in others:
                    group.create_task(walk(other.following))
            await settled(duetime)
            await settled(duetime)
        finally:
            for other in others:
                await other.store.aclose()
        states = await hold_states(engine)
        assert {no: states[no] for no in states} == {f"so-{n}": {("consumed", "released")[n % 2]} for n in range(60)}
        assert await stock(engine) == (1000 - 120 + 60, 60)
