"""Which rows are closed and what is written on them: several pending values, the shop's own condition, more columns."""

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest

from duetime.errors import StoreConflict
from duetime.order import AlreadyClosed, Blocked, Closed, Extended, NotYetDue, Paid, State
from duetime.store import OrderWrite
from tests.support.found_orders import FoundOrders
from tests.support.shop_database import ShopDatabase

PLAIN = ("id bigint PRIMARY KEY", "sn varchar(64) NOT NULL UNIQUE", "state smallint NOT NULL", "pay_by INSTANT")
TWO = {"states": {"pending": [0, 7], "paid": 1, "closed": 4}}
ONLY = "is_deleted = 0 and kind <> 'cod' and note not like '10%:off'"


async def two_pending(shop: ShopDatabase) -> FoundOrders:
    found = FoundOrders(shop, PLAIN, TWO)
    await found.create()
    return found


async def test_each_of_several_pending_values_is_closed_at_its_deadline(empty_shop: ShopDatabase) -> None:
    found = await two_pending(empty_shop)
    states = {1: 0, 2: 7, 3: 7, 4: 0, 5: 1, 6: 4, 7: 2}
    await found.add(*({"id": n, "sn": f"so-{n}", "state": state, "pay_by": "due"} for n, state in states.items()))
    await found.add({"id": 8, "sn": "so-8", "state": 7, "pay_by": "later"})
    assert await found.sweep() == {
        1: {"state": (0, 4)},
        2: {"state": (7, 4)},
        3: {"state": (7, 4)},
        4: {"state": (0, 4)},
    }


async def test_pages_over_several_pending_values_miss_and_repeat_none(empty_shop: ShopDatabase) -> None:
    found = await two_pending(empty_shop)
    rows = [
        {"id": n, "sn": f"so-{n}", "state": 7 * (n % 2), "pay_by": "due" if n % 3 else "older"} for n in range(1, 30)
    ]
    await found.add(*rows)
    sections = found.sections | {"sweep": {"page_size": 4, "pause": "0ms"}}
    async with empty_shop.duetime(**sections) as duetime:
        run = await duetime.wired.sweep.run_once()
    assert (run.due_found, run.closed, run.pending_seen) == (29, 29, False)


async def test_paying_and_extending_leave_and_find_any_pending_value(empty_shop: ShopDatabase) -> None:
    found = await two_pending(empty_shop)
    await found.add(*({"id": n, "sn": f"so-{n}", "state": 7, "pay_by": "later"} for n in (1, 2, 3)))
    until = datetime.now(UTC) + timedelta(minutes=90)
    async with empty_shop.duetime(**found.sections) as duetime:
        outcomes = [
            await duetime.pay("so-1", payment_id="p", amount_minor=1, currency="EUR"),
            await duetime.extend("so-2", until),
            await duetime.close("so-3"),
        ]
    assert [type(outcome) for outcome in outcomes] == [Paid, Extended, Closed]
    assert {key: row["state"] for key, row in (await found.rows()).items()} == {1: 1, 2: 7, 3: 4}


async def with_condition(shop: ShopDatabase) -> FoundOrders:
    more = ("is_deleted smallint NOT NULL DEFAULT 0", "kind varchar(8) NOT NULL DEFAULT 'web'")
    found = FoundOrders(shop, (*PLAIN, *more, "note varchar(20) DEFAULT ''"), {"only": ONLY})
    await found.create()
    due = {"state": 0, "pay_by": "due"}
    await found.add(
        {"id": 1, "sn": "so-1", **due},
        {"id": 2, "sn": "so-2", **due, "is_deleted": 1},
        {"id": 3, "sn": "so-3", **due, "kind": "cod"},
        {"id": 4, "sn": "so-4", **due, "note": "10 %:off"},
        {"id": 5, "sn": "so-5", **due, "note": "9%:off"},
        {"id": 6, "sn": "so-6", **due, "note": None},
    )
    return found


async def test_condition_leaves_rows_out_whatever_is_in_its_text(empty_shop: ShopDatabase) -> None:
    found = await with_condition(empty_shop)
    assert await found.sweep() == {1: {"state": (0, 4)}, 5: {"state": (0, 4)}}
    async with empty_shop.duetime(**found.sections) as duetime:
        run = await duetime.wired.sweep.run_once()
    assert (run.due_found, run.pending_seen) == (0, False)


async def test_who_asks_for_a_row_that_is_left_out_is_told_so(empty_shop: ShopDatabase) -> None:
    found = await with_condition(empty_shop)
    before = await found.rows()
    async with empty_shop.duetime(**found.sections) as duetime:
        asked = await duetime.close_many(["so-2", "so-3", "so-6"], reason="staff")
        by_clock = await duetime.close("so-2", reason="timeout")
    assert all(isinstance(one, Blocked) and "orders.only" in one.why for one in asked)
    assert by_clock == NotYetDue("so-2", None)
    assert await found.rows() == before
    assert await empty_shop.number("SELECT count(*) FROM duetime_quarantine") == 0


async def test_what_is_left_out_can_be_paid(empty_shop: ShopDatabase) -> None:
    found = await with_condition(empty_shop)
    async with empty_shop.duetime(**found.sections) as duetime:
        outcome = await duetime.pay("so-2", payment_id="p", amount_minor=1, currency="EUR")
    assert isinstance(outcome, Paid)


async def test_closing_write_repeats_the_condition_and_trusts_nothing_that_was_read_before(
    empty_shop: ShopDatabase,
) -> None:
    found = await with_condition(empty_shop)
    async with empty_shop.duetime(**found.sections) as duetime:
        for to, refused in ((State.CLOSED, pytest.raises(StoreConflict)), (State.PAID, nullcontext())):
            with refused:
                async with duetime.wired.store.transaction() as tx:
                    (order,) = await tx.lock_orders(["so-2"])
                    await tx.write_if_pending([OrderWrite(order, to)])
    assert (await found.rows())[2]["state"] == 1


async def test_more_columns_are_written_with_the_close_and_with_nothing_else(empty_shop: ShopDatabase) -> None:
    more = ("version integer NOT NULL", "was integer", "note varchar(40)", "touched INSTANT", "other integer")
    own = {"version": "version + 1", "was": "state", "note": "concat('100%, a:b, ', '''', sn)", "touched": "now()"}
    found = FoundOrders(empty_shop, (*PLAIN, *more), {"set": own})
    await found.create()
    due = {"state": 0, "pay_by": "due", "other": 5}
    await found.add(
        {"id": 1, "sn": "so-1", "version": 3, **due},
        {"id": 2, "sn": "so-2", "version": 8, **due, "state": 1},
        {"id": 3, "sn": "so-3", "version": 5, **due, "pay_by": "later"},
    )
    changed = await found.sweep()
    touched = changed[1].pop("touched")
    assert touched[0] is None
    assert touched[1] is not None
    assert changed == {1: {"state": (0, 4), "version": (3, 4), "was": (None, 0), "note": (None, "100%, a:b, 'so-1")}}, (
        "an expression sees the row as it was before the close, on every database"
    )
    async with empty_shop.duetime(**found.sections) as duetime:
        assert isinstance(await duetime.pay("so-3", payment_id="p", amount_minor=1, currency="EUR"), Paid)
        assert isinstance(await duetime.close("so-1"), AlreadyClosed)
    assert (await found.rows())[3]["version"] == 5, "the shop's own writes at payment are the shop's"


async def test_more_columns_are_written_in_the_order_of_the_config(empty_shop: ShopDatabase) -> None:
    """Where a database sets columns one after the other, an expression sees those that stand before it as new."""
    own = {"version": "version + 1", "copied": "version", "was": "state"}
    found = FoundOrders(empty_shop, (*PLAIN, "copied integer", "version integer", "was integer"), {"set": own})
    await found.create()
    await found.add({"id": 1, "sn": "so-1", "state": 0, "pay_by": "due", "version": 3})
    copied = 3 if empty_shop.words.sets_at_once else 4
    assert await found.sweep() == {1: {"state": (0, 4), "version": (3, 4), "copied": (None, copied), "was": (None, 0)}}


@pytest.mark.parametrize(
    "described, sentence",
    [
        ({"only": "is_deletd = 0"}, "orders.only: the database does not take 'is_deletd = 0': "),
        ({"only": "state ="}, "orders.only: the database does not take 'state =': "),
        ({"set": {"version": "versoin + 1"}}, "orders.set.version: the database does not take 'versoin + 1': "),
        ({"set": {"versoin": "1"}}, "orders.set.versoin: table t_order has no such column; it has id, sn, state"),
        ({"set": {"sn": "'x'"}}, "orders.set.sn: this column is orders.order_no, which duetime writes itself"),
        ({"set": {"doubled": "1"}}, "orders.set.doubled: the database computes this column itself; leave it out"),
    ],
)
async def test_sql_that_the_database_does_not_take_is_an_error_of_the_configuration(
    empty_shop: ShopDatabase, described: dict[str, object], sentence: str
) -> None:
    more = ("version integer NOT NULL", "doubled integer GENERATED ALWAYS AS (id * 2) STORED")
    found = FoundOrders(empty_shop, (*PLAIN, *more))
    await found.create()
    found.described = described
    (problem,) = await found.problems()
    assert problem.startswith(sentence)
