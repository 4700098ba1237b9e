"""Holds: what may happen to them, what a quantity is, and how they add up."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.errors import InvalidInput
from duetime.hold import (
    DONE,
    HOLD_MOVES,
    LARGEST_QUANTITY,
    LATER,
    UNFINISHED,
    Effect,
    HeldHold,
    Hold,
    HoldMove,
    HoldState,
    by_order,
    summed,
)

ALLOWED = {
    "held": {
        "release": "released",
        "release later": "releasing",
        "consume": "consumed",
        "consume later": "consuming",
    },
    "releasing": {"finish": "released"},
    "consuming": {"finish": "consumed"},
    "released": {},
    "consumed": {},
}
"""The whole product written out by hand: what is not here is forbidden."""

holds = st.builds(
    Hold, st.sampled_from(["stock", "coupon"]), st.sampled_from("abc"), st.integers(1, LARGEST_QUANTITY // 100)
)


@pytest.mark.parametrize("state, move", list(itertools.product(HoldState, HoldMove)))
def test_every_move_from_every_state_leads_where_it_should_or_nowhere(state: HoldState, move: HoldMove) -> None:
    before = dict(HOLD_MOVES)
    wanted = ALLOWED[state].get(move)
    assert HOLD_MOVES.get((state, move)) == (None if wanted is None else HoldState(wanted))
    assert dict(HOLD_MOVES) == before


@given(st.lists(st.sampled_from(HoldMove), max_size=20))
def test_no_sequence_of_moves_gives_back_twice(moves: list[HoldMove]) -> None:
    state, ends = HoldState.HELD, 0
    for move in moves:
        to = HOLD_MOVES.get((state, move))
        ends += to in {HoldState.RELEASED, HoldState.CONSUMED}
        state = to or state
    assert ends <= 1


def test_what_is_promised_is_what_finishing_keeps() -> None:
    for effect in (Effect.RELEASE, Effect.CONSUME):
        assert HOLD_MOVES[LATER[effect], HoldMove.FINISH] is DONE[effect]
        assert UNFINISHED[LATER[effect]] is effect


@pytest.mark.parametrize("table", [HOLD_MOVES, LATER, DONE])
def test_the_tables_cannot_be_written(table: dict[object, object]) -> None:
    with pytest.raises(TypeError):
        table["x"] = "y"


@pytest.mark.parametrize("quantity", [1, 2, 10**9, LARGEST_QUANTITY])
def test_a_quantity_is_a_whole_number_above_zero(quantity: int) -> None:
    assert Hold("stock", "sku-1", quantity).quantity == quantity


@pytest.mark.parametrize("quantity", [0, -1, LARGEST_QUANTITY + 1, 1.0, 1.5, "1", None, True])
def test_anything_else_is_refused_with_what_was_found(quantity: object) -> None:
    with pytest.raises(InvalidInput, match=r"stock sku-1 .*found"):
        Hold("stock", "sku-1", quantity)  # type: ignore[arg-type]  # what callers without a type checker pass


@pytest.mark.parametrize("kind, ref", [("", "sku-1"), ("stock", ""), ("k" * 191, "x"), ("stock", "a\0"), ("stock", 1)])
def test_a_name_that_cannot_be_stored_is_refused(kind: str, ref: object) -> None:
    with pytest.raises(InvalidInput):
        Hold(kind, ref)  # type: ignore[arg-type]  # what callers without a type checker pass


@given(st.lists(holds, max_size=20))
def test_holds_on_one_asset_add_up_and_come_in_the_order_of_locking(taken: list[Hold]) -> None:
    total = summed(taken)
    expected = Counter[tuple[str, str]]()
    for hold in taken:
        expected[hold.kind, hold.ref] += hold.quantity
    assert {(hold.kind, hold.ref): hold.quantity for hold in total} == dict(expected)
    assert list(total) == sorted(total)


@given(st.lists(st.builds(HeldHold, st.sampled_from(["so-1", "so-2"]), holds), max_size=20))
def test_holds_are_grouped_by_order_and_none_is_lost(rows: list[HeldHold]) -> None:
    grouped = by_order(rows)
    flat = [HeldHold(order_no, hold) for order_no, held in grouped.items() for hold in held]
    assert Counter(flat) == Counter(HeldHold(row.order_no, row.hold) for row in rows)
