"""Holds that are read from the shop's own rows: recorded in the closing transaction and given back exactly once."""

from collections.abc import AsyncIterator
from decimal import Decimal

import pytest

from duetime import Blocked, Closed, Hold, Paid
from duetime.errors import ConfigError
from duetime.event import holds_from_json
from duetime.store import Stage
from duetime.testing.faults import ANSWER_LOST, COMMIT, FaultsAt, FaultyStore
from tests.support.judge import read_facts
from tests.support.line_shop import CLOSED, COUPON, ITEMS, PAID, PENDING, STOCK, LineShop, line_shop


@pytest.fixture
async def shop(database_url: str) -> AsyncIterator[LineShop]:
    """A shop that records no holds, on each database."""
    made = line_shop(database_url)
    await made.create()
    await made.skus("a", "b")
    yield made
    await made.db.aclose()


async def test_everything_that_the_shops_own_rows_name_is_recorded_and_given_back(shop: LineShop) -> None:
    await shop.coupon(7, "SO-1")
    await shop.coupon(8, None)
    await shop.coupon(9, None)
    key = await shop.order("SO-1", [("a", 2), ("b", 1), ("a", 3), ("b", 0)], voucher=8)
    await shop.db.execute("INSERT INTO t_points VALUES (:key, 'acc-1')", key=key)
    await shop.order("SO-2", voucher=0)
    await shop.order("SO-3", [("b", 4)])
    async with shop.duetime() as duetime:
        await shop.sweep(duetime)
        story = await duetime.story("SO-1")
    assert await shop.states() == dict.fromkeys(("SO-1", "SO-2", "SO-3"), CLOSED)
    assert await shop.stock() == {"a": (100, 0), "b": (100, 0)}
    assert await shop.coupons() == {7: 0, 8: 0, 9: 1}
    assert await shop.holds() == {
        ("SO-1", "stock", "a"): (5, "released"),
        ("SO-1", "stock", "b"): (1, "released"),
        ("SO-1", "coupon", "7"): (1, "released"),
        ("SO-1", "voucher", "8"): (1, "released"),
        ("SO-1", "points", "acc-1"): (1, "releasing"),
        ("SO-3", "stock", "b"): (4, "released"),
    }
    told = {one.order_no: one.payload for one in await read_facts(shop.db.rows) if one.type == "order.closed"}
    assert set(holds_from_json(told["SO-1"]["released"])) == {
        Hold("stock", "a", 5), Hold("stock", "b", 1),
        Hold("coupon", "7"), Hold("voucher", "8"), Hold("points", "acc-1"),
    }  # fmt: skip
    assert told["SO-2"]["released"] == [], "an order without lines holds nothing"
    assert story is not None
    assert len(story.holds) == 5
    ended = await shop.db.number("SELECT count(*) FROM duetime_hold WHERE released_at IS NOT NULL")
    assert ended == 5, "what was given back says when"


WRONG = {
    "null": (("a", None), "its line for stock a in t_item has num = NULL, "),
    "negative": (("a", -1), "its line for stock a in t_item has num = -1"),
    "fraction": (("a", Decimal("1.5")), "its line for stock a in t_item has num = 1.5"),
    "no ref": ((None, 1), "a line in t_item names no stock: sku is NULL or empty"),
    "gone": (("gone", 1), "stock gone has no row in t_sku"),
    "too long": (("x" * 200, 1), "a stock line in t_item cannot be recorded"),
}


async def test_a_line_that_says_nothing_clear_blocks_its_order_and_no_other(shop: LineShop) -> None:
    for number, (line, _) in WRONG.items():
        await shop.order(number, [("b", 1), line])
    await shop.order("GOOD", [("a", 2), ("b", 1)])
    async with shop.duetime(STOCK) as duetime:
        await shop.sweep(duetime)
        outcome = await duetime.close("gone", reason="customer")
        assert isinstance(outcome, Blocked)
        assert "stock gone has no row in t_sku" in outcome.why
    assert await shop.states() == {**dict.fromkeys(WRONG, PENDING), "GOOD": CLOSED}
    assert set(await shop.holds()) == {("GOOD", "stock", "a"), ("GOOD", "stock", "b")}
    assert await shop.stock() == {"a": (100, 0), "b": (94, 6)}
    errors = {row[0]: row[1] for row in await shop.db.rows("SELECT order_no, error FROM duetime_quarantine")}
    assert set(errors) == set(WRONG)
    for number, (_, sentence) in WRONG.items():
        assert sentence in errors[number]


async def test_an_order_set_back_by_hand_after_its_close_gives_back_nothing_again(shop: LineShop) -> None:
    await shop.order("SO-1", [("a", 2)])
    async with shop.duetime(STOCK) as duetime:
        await shop.sweep(duetime)
        await shop.db.execute("UPDATE t_order SET state = 0")
        await shop.sweep(duetime)
    assert await shop.states() == {"SO-1": CLOSED}
    assert await shop.stock() == {"a": (100, 0), "b": (100, 0)}
    assert await shop.holds() == {("SO-1", "stock", "a"): (2, "released")}


async def test_recorded_holds_of_a_kind_go_before_its_lines(shop: LineShop) -> None:
    """The shop records some orders' stock itself: what is recorded counts, the lines are not read as well."""
    await shop.coupon(7, "SO-1")
    await shop.order("SO-1", [("a", 2)])
    await shop.db.execute("INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES ('SO-1', 'stock', 'a', 2)")
    async with shop.duetime(STOCK, COUPON) as duetime:
        await shop.sweep(duetime)
    assert await shop.stock() == {"a": (100, 0), "b": (100, 0)}
    assert await shop.coupons() == {7: 0}, "the other kind is still read"


async def test_a_lost_answer_to_the_commit_gives_back_once(shop: LineShop) -> None:
    await shop.order("SO-1", [("a", 2)])
    async with shop.duetime(STOCK) as duetime:
        closing = duetime.wired.closing
        closing._store = FaultyStore(duetime.wired.store, FaultsAt({COMMIT: [ANSWER_LOST]}))
        outcome = await duetime.close("SO-1", reason="customer")
    assert isinstance(outcome, Closed)
    assert outcome.released == (Hold("stock", "a", 2),)
    assert await shop.stock() == {"a": (100, 0), "b": (100, 0)}
    assert len(await read_facts(shop.db.rows)) == 1


async def test_release_after_leaves_lines_to_the_releaser(shop: LineShop) -> None:
    await shop.order("SO-1", [("a", 2)])
    async with shop.duetime({**STOCK, "release": "after"}) as duetime:
        await duetime.wired.sweep.run_once()
        assert await shop.holds() == {("SO-1", "stock", "a"): (2, "releasing")}
        assert (await shop.stock())["a"] == (98, 2)
        await duetime.wired.releasing.run_once()
    assert await shop.holds() == {("SO-1", "stock", "a"): (2, "released")}
    assert (await shop.stock())["a"] == (100, 0)


async def test_a_busy_row_is_left_to_the_releaser(shop: LineShop) -> None:
    await shop.order("SO-1", [("a", 2), ("b", 1)])
    async with shop.duetime(STOCK) as duetime:
        if not duetime.wired.store.capabilities.row_locks:
            pytest.skip("whoever writes locks everything, so nobody holds a single row")
        async with shop.db.engine.begin() as cart:
            await shop.db.run(cart, "SELECT * FROM t_sku WHERE sku = 'a' FOR UPDATE")
            await duetime.wired.sweep.run_once()
            found = await shop.holds()
        assert found == {("SO-1", "stock", "a"): (2, "releasing"), ("SO-1", "stock", "b"): (1, "released")}
        await duetime.wired.releasing.run_once()
    assert await shop.stock() == {"a": (100, 0), "b": (100, 0)}


async def test_paying_uses_up_what_the_lines_say(shop: LineShop) -> None:
    await shop.coupon(7, "SO-1")
    await shop.order("SO-1", [("a", 2), ("a", 1)])
    async with shop.duetime(STOCK, COUPON) as duetime:
        outcome = await duetime.pay("SO-1", payment_id="p-1", amount_minor=1, currency="CNY")
        assert isinstance(outcome, Paid)
        await shop.sweep(duetime)
    assert await shop.stock() == {"a": (97, 0), "b": (100, 0)}
    assert await shop.coupons() == {7: 2}
    assert await shop.holds() == {
        ("SO-1", "stock", "a"): (3, "consumed"), ("SO-1", "coupon", "7"): (1, "consumed"),
    }  # fmt: skip


async def test_money_is_not_refused_for_a_line_and_a_person_is_told(shop: LineShop) -> None:
    await shop.order("SO-1", [("a", 2), ("b", None)])
    async with shop.duetime(STOCK) as duetime:
        outcome = await duetime.pay("SO-1", payment_id="p-1", amount_minor=1, currency="CNY")
    assert isinstance(outcome, Paid)
    assert await shop.states() == {"SO-1": PAID}
    assert await shop.stock() == {"a": (98, 0), "b": (100, 0)}
    rows = await shop.db.rows("SELECT stage, state, error FROM duetime_quarantine")
    assert [(row[0], row[1]) for row in rows] == [(Stage.RELEASE.value, "quarantined")]
    assert rows[0][2].startswith("paid, but not used up: its line for stock b in t_item has num = NULL")


async def test_a_dry_run_shows_what_the_lines_would_give_back(shop: LineShop) -> None:
    await shop.order("SO-1", [("a", 2), ("a", 1)])
    await shop.order("SO-2", [("b", None)])
    async with shop.duetime(STOCK) as duetime:
        found = await duetime.wired.sweep.dry_run()
    assert dict(found.units) == {("stock", "a"): 3}
    assert list(found.blocked) == ["SO-2"]
    assert "its line for stock b in t_item has num = NULL" in found.blocked["SO-2"]
    assert await shop.holds() == {}


MISFITS = {
    "table": ({**ITEMS, "table": "t_itms"}, "assets[0].from.table: there is no table t_itms"),
    "column": ({**ITEMS, "quantity": "qty"}, "assets[1].from.quantity: table t_item has no column qty; it has id, "),
    "ref": ({**ITEMS, "ref": "sku_id"}, "assets[2].from.ref: table t_item has no column sku_id"),
    "type": (
        {"table": "t_points", "order_no": "order_id", "ref": "account"},
        "assets[3].from.order_no: column order_id of table t_points is BIGINT, but t_order.order_sn is VARCHAR(64)",
    ),
    "index": (
        {"table": "t_plain", "order_no": "order_sn", "ref": "sku"},
        "CREATE INDEX t_plain_order_sn ON t_plain (order_sn)",
    ),
    "quantity": (
        {**ITEMS, "quantity": "sku"},
        "assets[5].from.quantity: column sku is VARCHAR(250); a number is needed",
    ),
}


async def test_a_description_that_does_not_fit_is_refused_at_start(shop: LineShop) -> None:
    await shop.db.execute("CREATE TABLE t_plain (id bigint PRIMARY KEY, order_sn varchar(64), sku varchar(64))")
    assets = [{**STOCK, "kind": kind, "from": lines} for kind, (lines, _) in MISFITS.items()]
    async with shop.duetime(*assets) as duetime:
        with pytest.raises(ConfigError) as refused:
            await duetime.wired.store.check()
    assert len(refused.value.problems) == len(MISFITS)
    for problem, (_, sentence) in zip(refused.value.problems, MISFITS.values(), strict=True):
        assert sentence in problem
