"""Ways in which orders were once skipped, lost or stopped by one row; each test went red before its repair."""

from collections.abc import Callable

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from duetime.app import Duetime
from duetime.errors import InvalidInput
from duetime.hold import Hold
from duetime.order import AlreadyPlaced, Blocked, Closed, NeedsReview, Paid, Placed
from duetime.paying import PaymentNotice
from duetime.placing import Placement
from tests.support.small_shop import a_shop, orders, run, states
from tests.support.waiting import eventually

pytestmark = pytest.mark.services


async def test_equal_deadlines_written_without_a_fraction_are_all_swept(database_url: str) -> None:
    async with a_shop(database_url) as (duetime, engine):
        await orders(engine, *(f"so-{n}" for n in range(10)))
        assert (await duetime.wired.sweep.dry_run()).orders == 10
        assert (await duetime.wired.sweep.run_once()).closed == 10


async def test_one_deadline_that_cannot_be_read_stops_no_other(sqlite_url: str) -> None:
    async with a_shop(sqlite_url) as (duetime, engine):
        await orders(engine, "bad-1", "bad-2", "bad-3", "bad-4", expire_at="")
        await orders(engine, "so-1", "so-2")
        assert (await duetime.wired.sweep.run_once()).closed == 2
        assert (await states(engine))["bad-1"] == "pending"


async def test_trigger_of_the_shop_with_a_code_of_its_own_blocks_one_order_only(
    fresh_database: Callable[[str], str],
) -> None:
    async with a_shop(fresh_database("postgresql")) as (duetime, engine):
        await orders(engine, "so-1", "so-2", "so-3", "so-4", "so-5")
        await run(
            engine,
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF OLD.order_no = 'so-2' THEN RAISE 'frozen by hand' USING ERRCODE = 'SH001'; END IF;"
            " IF OLD.order_no = 'so-4' THEN RETURN NULL; END IF; RETURN NEW; END $$",
            "CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        assert (await duetime.wired.sweep.run_once()).closed == 3
        errors = {failure.order_no: failure.error for failure in await duetime.failures()}
        assert set(errors) == {"so-2", "so-4"}
        assert "frozen by hand" in errors["so-2"]


async def test_money_that_the_shop_s_table_refuses_is_kept_for_a_person(database_url: str) -> None:
    async with a_shop(database_url) as (duetime, engine):
        await run(engine, "CREATE TABLE frozen (order_no VARCHAR(64) PRIMARY KEY)")
        await orders(engine, "so-1", "so-2", expire_at="2099-01-01 10:00:00")
        await refuse_payment(engine)
        notices = [PaymentNotice(number, f"p-{number}", 5, "CNY") for number in ("so-1", "so-2")]
        first, second = await duetime.pay_many(notices)
        assert isinstance(first, NeedsReview)
        assert "no money for so-1" in first.why
        assert second == Paid("so-2", "p-so-2")
        async with engine.connect() as connection:
            found = await connection.execute(text("SELECT payment_id, resolution FROM duetime_payment"))
            assert {row[0]: row[1] for row in found} == {"p-so-1": "manual", "p-so-2": "paid"}


ON_SQLITE = """
    CREATE TRIGGER refuse BEFORE UPDATE ON orders WHEN OLD.order_no = 'so-1'
    BEGIN SELECT RAISE(ABORT, 'no money for so-1'); END"""
ON_MARIADB = """
    CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH ROW BEGIN IF OLD.order_no = 'so-1' THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no money for so-1', MYSQL_ERRNO = 30001; END IF; END"""
ON_POSTGRESQL = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF OLD.order_no = 'so-1' THEN RAISE 'no money for so-1' USING ERRCODE = 'SH002'; END IF; RETURN NEW; END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION refuse()"""
REFUSALS = {"sqlite": [ON_SQLITE], "mysql": [ON_MARIADB], "postgresql": ON_POSTGRESQL.split("$$;")}


async def refuse_payment(engine: AsyncEngine) -> None:
    """Let a trigger of the shop refuse that so-1 is paid, in the words of the database at hand."""
    first, *more = REFUSALS[engine.dialect.name.replace("mariadb", "mysql")]
    await run(engine, f"{first}$$" if more else first, *more)


async def test_place_takes_no_deadline_and_no_state_from_its_caller(sqlite_url: str) -> None:
    async with a_shop(sqlite_url) as (duetime, engine):
        for columns in ({"expire_at": "2099-01-01"}, {"status": "paid"}, {"order_no": "so-9"}):
            with pytest.raises(InvalidInput, match=r"which \[orders\] describes"):
                await duetime.place("so-1", columns=columns)
        assert await states(engine) == {}


async def test_number_that_the_shop_keeps_in_another_form_is_refused_whole(
    fresh_database: Callable[[str], str],
) -> None:
    async with a_shop(fresh_database("postgresql")) as (duetime, engine):
        await run(
            engine,
            "ALTER TABLE orders ALTER order_no TYPE numeric USING 0",
            "INSERT INTO stock (sku_id, available) VALUES ('sku-1', 5)",
        )
        async with Duetime(duetime.settings) as anew:
            with pytest.raises(InvalidInput, match="kept in another form") as refused:
                await anew.place_many([Placement("7"), Placement("0012", [Hold("stock", "sku-1", 2)])])
            assert "'0012' is kept in another form by the shop's column (12); use that" in str(refused.value)
        async with engine.connect() as connection:
            assert (await connection.execute(text("SELECT available FROM stock"))).scalar_one() == 5


async def test_status_in_other_capitals_is_pending_where_the_database_says_so(
    fresh_database: Callable[[str], str],
) -> None:
    async with a_shop(fresh_database("mariadb")) as (duetime, engine):
        await orders(engine, "so-1")
        await run(engine, "UPDATE orders SET status = 'Pending'")
        assert (await duetime.wired.sweep.run_once()).closed == 1


async def test_repeat_of_the_same_call_recognises_its_own_order(database_url: str) -> None:
    async with a_shop(database_url) as (duetime, _):
        once = Placement("so-1")
        (placed,) = await duetime.place_many([once])
        assert isinstance(placed, Placed)
        assert await duetime.place_many([once]) == [placed]
        assert await duetime.place_many([Placement("so-1")]) == [AlreadyPlaced("so-1")]


async def test_worker_can_be_run_again_in_the_same_process(sqlite_url: str) -> None:
    async with a_shop(sqlite_url) as (duetime, engine):
        for number in ("so-1", "so-2"):
            await orders(engine, number)
            async with duetime.running(accept_backlog=True):
                await closed(duetime, number)


async def closed(duetime: Duetime, number: str) -> None:
    async def is_closed() -> bool:
        story = await duetime.story(number)
        return story is not None and story.order.status == "closed"

    await eventually(f"{number} to be closed", is_closed)


async def test_blocked_and_closed_are_told_apart_for_a_person(database_url: str) -> None:
    async with a_shop(database_url) as (duetime, engine):
        await orders(engine, "so-1", "so-2", expire_at="2099-01-01 10:00:00")
        columns = "order_no, kind, ref, quantity, state"
        await run(engine, f"INSERT INTO duetime_hold ({columns}) VALUES ('so-1', 'stock', 'gone', 1, 'held')")
        first, second = await duetime.close_many(["so-1", "so-2"])
        assert first == Blocked("so-1", "stock gone has no row in stock")
        assert isinstance(second, Closed)
