"""The judge of one order: where it must speak, and where an answer would need what nobody wrote down."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from duetime.order import State
from duetime.shop import Asset
from duetime.verifying.assets import AssetJudge
from duetime.verifying.orders import Terms, judge_order
from duetime.verifying.rows import AssetRow, Dossier, FactRow, FailureRow, HoldRow, OrderRow, PaymentRow

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
TERMS = Terms(
    grace=timedelta(seconds=5), kinds=frozenset({"stock", "points"}), remote=frozenset({"points"}),
    facts_kept=90 * DAY, holds_kept=90 * DAY,
)  # fmt: skip
CLOSED = OrderRow(1, "so-1", State.CLOSED, "closed", NOW - DAY, NOW - DAY, "timeout", "sweep")


def hold(state: str, kind: str = "stock") -> HoldRow:
    return HoldRow("so-1", kind, "sku-1", 2, state, NOW - 2 * DAY)


def closing(**payload: Any) -> FactRow:  # noqa: ANN401 -- JSON
    told = {"released": [{"kind": "stock", "ref": "sku-1", "quantity": 2}], "reason": "timeout"}
    return FactRow(7, "so-1", "order.closed", {**told, **payload}, NOW - DAY)


def kinds(
    order: OrderRow | None,
    *,
    holds: Sequence[HoldRow] = (),
    facts: Sequence[FactRow] = (),
    terms: Terms = TERMS,
    **more: Any,  # noqa: ANN401 -- payments, failures
) -> list[str]:
    dossier = Dossier("so-1", order, holds, facts, **more)
    return [finding.kind for finding in judge_order(dossier, NOW, terms)]


def test_a_close_that_adds_up_is_silent() -> None:
    assert kinds(CLOSED, holds=[hold("released")], facts=[closing()]) == []


def test_facts_are_missed_only_as_long_as_they_are_kept() -> None:
    assert kinds(CLOSED, holds=[hold("released")]) == ["close-without-fact"]
    assert kinds(replace(CLOSED, closed_at=NOW - 91 * DAY), holds=[hold("released")]) == []
    assert kinds(CLOSED, facts=[closing()]) == ["fact-and-holds-differ"]
    assert kinds(CLOSED, facts=[replace(closing(), created_at=NOW - 91 * DAY)]) == []


def test_an_order_that_somebody_else_closed_needs_no_fact() -> None:
    foreign = replace(CLOSED, reason="cron", source="legacy")
    assert kinds(foreign) == []
    releasing = replace(TERMS, settles_foreign=True)
    assert kinds(foreign, holds=[hold("released")], terms=releasing) == []
    assert kinds(foreign, holds=[hold("released")]) == ["close-without-fact"]


def test_an_order_that_was_reopened_has_another_life() -> None:
    reopened = FactRow(8, "so-1", "order.reopened", {}, NOW - DAY)
    pending = replace(CLOSED, state=State.PENDING, status="pending")
    assert kinds(pending, facts=[closing()]) == ["closed-by-fact-only"]
    assert kinds(pending, facts=[closing(), reopened], holds=[hold("held")]) == []
    assert kinds(CLOSED, facts=[closing(), reopened, closing()], holds=[hold("released")]) == []
    assert kinds(CLOSED, facts=[closing(), closing()], holds=[hold("released")]) == ["closed-twice"]


def test_states_that_the_config_does_not_name_are_not_judged() -> None:
    shipped = replace(CLOSED, state=None, status="shipped")
    assert kinds(shipped, holds=[hold("consumed")], facts=[closing()]) == []


def test_an_order_that_the_shop_moved_elsewhere_is_missed_only_while_it_holds() -> None:
    assert kinds(None, holds=[hold("released")], facts=[closing()]) == []
    assert kinds(None, holds=[hold("held")]) == ["hold-without-order"]


def test_a_hold_written_after_the_close_is_no_part_of_what_it_told() -> None:
    late = replace(hold("released"), ref="sku-2", held_at=NOW)
    assert kinds(CLOSED, holds=[hold("released"), late], facts=[closing()]) == []
    early = replace(late, held_at=NOW - 2 * DAY)
    assert kinds(CLOSED, holds=[hold("released"), early], facts=[closing()]) == ["fact-and-holds-differ"]


def test_the_grace_of_the_close_is_what_the_fact_says() -> None:
    """A grace that was made longer since makes no early close of an old one."""
    instants = {"expire_at": "2026-02-28T12:00:00Z", "closed_at": "2026-02-28T12:00:01Z", "lateness_ms": 0}
    order = replace(CLOSED, expire_at=datetime(2026, 2, 28, 12, tzinfo=UTC))
    assert kinds(order, holds=[hold("released")], facts=[closing(**instants)]) == []
    without = {**instants, "lateness_ms": None}
    assert kinds(order, holds=[hold("released")], facts=[closing(**without)]) == ["closed-early"]
    assert kinds(order, holds=[hold("released")], facts=[closing(**without, reason="customer")]) == []


def test_what_another_service_gives_back_takes_as_long_as_it_takes() -> None:
    told = closing(released=[{"kind": "points", "ref": "sku-1", "quantity": 2}])
    assert kinds(CLOSED, holds=[hold("releasing", "points")], facts=[told]) == []
    assert kinds(CLOSED, holds=[hold("releasing")], facts=[closing()]) == ["unfinished-for-long"]


def test_a_shop_may_cancel_what_was_paid() -> None:
    paid = PaymentRow("p-1", "so-1", "paid")
    order = replace(CLOSED, reason=None, source=None)
    assert kinds(order, holds=[hold("consumed")], payments=[paid]) == []
    assert kinds(CLOSED, holds=[hold("released")], facts=[closing()], payments=[paid]) == ["payment-of-unpaid-order"]


def test_what_fails_now_is_in_quarantine_rightly() -> None:
    waiting = FailureRow("so-1", "release", "quarantined", NOW - DAY)
    owed = kinds(CLOSED, holds=[hold("releasing")], facts=[closing()], failures=[waiting])
    assert owed == ["unfinished-for-long"]
    settled = kinds(CLOSED, holds=[hold("released")], facts=[closing()], failures=[waiting])
    assert settled == ["quarantine-of-settled-order"]
    fresh = replace(waiting, last_failed_at=NOW)
    assert kinds(CLOSED, holds=[hold("released")], facts=[closing()], failures=[fresh]) == []


def test_facts_that_somebody_else_wrote_stop_nobody() -> None:
    odd = [closing(released="nothing"), closing(released=[7]), closing(closed_at="soon", expire_at=3)]
    for fact in odd:
        assert set(kinds(CLOSED, holds=[], facts=[fact])) <= {"fact-and-holds-differ"}


def _asset(**more: object) -> Asset:
    stock = {"kind": "stock", "storage": "counter", "table": "stock", "key": "sku_id", "available": "available"}
    return Asset.model_validate({**stock, **more})


def test_a_counter_without_held_is_only_looked_up() -> None:
    judge = AssetJudge([_asset(held="")])
    judge.count([hold("held"), replace(hold("held"), ref="gone")])
    assert list(judge.judge("stock", [AssetRow("sku-1", available=3)])) == []
    assert [finding.about for finding in judge.gone("stock")] == ["stock gone"]


def test_holds_from_the_shop_s_lines_are_not_there_before_the_close() -> None:
    lines = {"table": "t_item", "order_no": "sn", "ref": "sku"}
    judge = AssetJudge([_asset(**{"from": lines})])
    assert list(judge.judge("stock", [AssetRow("sku-1", available=3, held=4)])) == []


def test_a_negative_number_is_told_once() -> None:
    judge = AssetJudge([_asset()])
    (found,) = judge.judge("stock", [AssetRow("sku-1", available=-3, held=0)])
    assert found.sentence.startswith("stock sku-1: stock.available is -3; expected: a number from zero up; count")


def test_a_reference_of_several_parts_may_be_written_in_several_ways() -> None:
    judge = AssetJudge([_asset(key=["warehouse", "sku"])])
    written = ['["7","a ü"]', '[7, "a ü"]', '["7", "a \\u00fc"]']
    judge.count([replace(hold("held"), order_no=f"so-{n}", ref=ref) for n, ref in enumerate(written)])
    assert list(judge.judge("stock", [AssetRow('[7,"a ü"]', available=3, held=6)])) == []
    assert list(judge.gone("stock")) == []
