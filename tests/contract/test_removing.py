"""What `retention` lets go, on every database; and what stays whatever its age."""

import pytest

from duetime.hold import Hold
from duetime.order import Closed, Paid
from tests.contract.test_following import held_shop, hold_states, rows
from tests.support.small_shop import run

pytestmark = pytest.mark.services

LONG_AGO = "2020-01-01 00:00:00"
AT_ONCE = {"facts": "1d", "holds": "1d", "sweep_runs": "1d", "observed": "1d"}
OBSERVED = (
    "INSERT INTO duetime_observed (order_no, expire_at, first_seen_at, seen, followed) "
    f"VALUES ('old', '{LONG_AGO}', '{LONG_AGO}', 'closed', 0), ('young', '2999-01-01', '{LONG_AGO}', 'pending', 1)"
)


async def test_what_is_old_and_settled_goes_and_all_else_stays(database_url: str) -> None:
    async with held_shop(database_url, retention=AT_ONCE) as (duetime, engine):
        assert isinstance(await duetime.close("so-1", reason="customer"), Closed)
        assert isinstance(await duetime.pay("so-2", payment_id="p-2", amount_minor=1, currency="CNY"), Paid)
        assert isinstance(await duetime.close("so-3", reason="customer"), Closed)
        await run(
            engine,
            f"UPDATE duetime_hold SET released_at = '{LONG_AGO}' WHERE order_no IN ('so-0', 'so-1', 'so-2')",
            f"UPDATE duetime_outbox SET created_at = '{LONG_AGO}' WHERE order_no IN ('so-0', 'so-1')",
        )
        done = await duetime.wired.service.one_pass()
        assert (done.removed.holds, done.removed.facts) == (4, 3)
        assert await hold_states(engine) == {"so-0": {"held"}, "so-3": {"released"}}
        kept = await rows(engine, "SELECT DISTINCT order_no FROM duetime_outbox ORDER BY order_no")
        assert kept == [("so-2",), ("so-3",)]


async def test_finished_holds_of_an_order_that_is_pending_again_stay(database_url: str) -> None:
    """They are what keeps its units from being given back twice."""
    async with held_shop(database_url, retention=AT_ONCE) as (duetime, engine):
        assert isinstance(await duetime.close("so-1", reason="customer"), Closed)
        await run(
            engine,
            f"UPDATE duetime_hold SET released_at = '{LONG_AGO}' WHERE order_no = 'so-1'",
            "UPDATE orders SET status = 'pending' WHERE order_no = 'so-1'",
        )
        assert (await duetime.wired.service.one_pass()).removed.holds == 0


async def test_old_observations_go_whatever_the_mode(database_url: str) -> None:
    async with held_shop(database_url, retention=AT_ONCE) as (duetime, engine):
        await run(engine, OBSERVED)
        assert (await duetime.wired.service.one_pass()).removed.observed == 1
        assert await rows(engine, "SELECT order_no FROM duetime_observed") == [("young",)]


async def test_for_ever_keeps_everything(database_url: str) -> None:
    for_ever = dict.fromkeys(AT_ONCE, "forever")
    async with held_shop(database_url, retention=for_ever) as (duetime, engine):
        assert isinstance(await duetime.close("so-1", reason="customer"), Closed)
        await duetime.place("so-9", [Hold("stock", "sku-1", 1)])
        await duetime.wired.service.one_pass()
        await run(
            engine,
            f"UPDATE duetime_hold SET released_at = '{LONG_AGO}' WHERE state = 'released'",
            f"UPDATE duetime_outbox SET created_at = '{LONG_AGO}'",
            f"UPDATE duetime_sweep_run SET started_at = '{LONG_AGO}'",
            OBSERVED,
        )
        removed = (await duetime.wired.service.one_pass()).removed
        assert (removed.holds, removed.facts, removed.sweep_runs, removed.observed) == (0, 0, 0, 0)
