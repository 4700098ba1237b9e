"""States, moves, the decision, and the words for what was found."""

import itertools
import string
from datetime import UTC, datetime, timedelta, timezone
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.errors import InvalidInput
from duetime.order import (
    LONGEST_NAME,
    MOVES,
    AlreadyClosed,
    AlreadyPaid,
    CloseIt,
    ComeBackAt,
    LeaveIt,
    Move,
    Order,
    Outcome,
    State,
    UnknownOrder,
    after,
    checked_instant,
    checked_name,
    decide,
    matched,
    outcome_word,
    why_not,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ALLOWED = {
    "pending": {"pay": "paid", "close": "closed", "extend": "pending", "claim": "closing"},
    "closing": {"pay": "paid", "close": "closed", "unclaim": "pending"},
    "paid": {"ship": "shipped", "refund": "refunded"},
    "closed": {"reopen": "pending", "reopen paid": "paid"},
    "shipped": {"finish": "finished", "refund": "refunded"},
    "finished": {"refund": "refunded"},
    "refunded": {},
}
"""The whole product written out by hand: what is not here is forbidden."""

# Far enough from both ends of the calendar for graces and zones.
instants = st.datetimes(timezones=st.just(UTC)).filter(lambda at: 10 < at.year < 9990)
graces = st.timedeltas(timedelta(0), timedelta(days=2))
states = st.sampled_from([*State, None])


def order(state: State | None = State.PENDING, expire_at: datetime | None = NOW, status: str = "s") -> Order:
    return Order(id=1, order_no="so-1", state=state, status=status, expire_at=expire_at)


# The table


@pytest.mark.parametrize("state, move", list(itertools.product(State, Move)))
def test_every_move_from_every_state_leads_where_it_should_or_nowhere(state: State, move: Move) -> None:
    before = dict(MOVES)
    wanted = ALLOWED[state].get(move)
    assert after(state, move) == (None if wanted is None else State(wanted))
    assert dict(MOVES) == before


def test_the_table_cannot_be_written() -> None:
    with pytest.raises(TypeError):
        MOVES[State.CLOSED, Move.PAY] = State.PAID  # type: ignore[index]  # that it cannot is the point


def test_every_state_but_the_first_can_be_reached() -> None:
    assert {State.PENDING, *MOVES.values()} == set(State)


@given(st.lists(st.sampled_from(Move), max_size=30))
def test_no_sequence_of_moves_brings_a_refunded_order_back(moves: list[Move]) -> None:
    state = State.PENDING
    for move in moves:
        was, state = state, after(state, move) or state
        assert not (was is State.REFUNDED and state is not was)
        assert state is was or MOVES[was, move] is state


@given(st.lists(st.sampled_from([Move.PAY, Move.CLOSE, Move.CLAIM, Move.UNCLAIM, Move.EXTEND]), max_size=20))
def test_of_pay_and_close_exactly_one_wins(moves: list[Move]) -> None:
    state, won = State.PENDING, list[Move]()
    for move in moves:
        to = after(state, move)
        if to in {State.PAID, State.CLOSED}:
            won.append(move)
        state = to or state
    assert len(won) <= 1


# The decision


@given(instants, graces, instants, states)
def test_nothing_is_closed_before_deadline_and_grace(
    expire_at: datetime, grace: timedelta, now: datetime, state: State | None
) -> None:
    if decide(order(state, expire_at), now=now, grace=grace) == CloseIt():
        assert now >= expire_at + grace
        assert state is State.PENDING


@given(instants, graces, instants)
def test_a_pending_order_is_closed_or_comes_back_when_it_is_due(
    expire_at: datetime, grace: timedelta, now: datetime
) -> None:
    decision = decide(order(expire_at=expire_at), now=now, grace=grace)
    assert decision == (CloseIt() if now >= expire_at + grace else ComeBackAt(expire_at + grace))


@given(instants, graces)
def test_whoever_comes_back_when_told_closes(expire_at: datetime, grace: timedelta) -> None:
    early = decide(order(expire_at=expire_at), now=expire_at + grace - timedelta(microseconds=1), grace=grace)
    assert isinstance(early, ComeBackAt)
    assert decide(order(expire_at=expire_at), now=early.at, grace=grace) == CloseIt()


@given(instants, st.integers(-14, 14), graces)
def test_the_zone_in_which_an_instant_is_written_does_not_matter(
    expire_at: datetime, hours: int, grace: timedelta
) -> None:
    elsewhere = expire_at.astimezone(timezone(timedelta(hours=hours)))
    for now in (expire_at + grace, expire_at + grace - timedelta(microseconds=1)):
        here = decide(order(expire_at=expire_at), now=now, grace=grace)
        assert decide(order(expire_at=elsewhere), now=now, grace=grace) == here


@pytest.mark.parametrize("state", [state for state in State if state is not State.PENDING])
@pytest.mark.parametrize("expire_at", [NOW - timedelta(days=1), NOW + timedelta(days=1), None])
def test_what_is_not_pending_is_left(state: State, expire_at: datetime | None) -> None:
    assert decide(order(state, expire_at), now=NOW, grace=timedelta(0)) == LeaveIt(f"is {state}")


def test_a_status_that_nobody_described_is_left_by_its_own_name() -> None:
    assert decide(order(None, status="on hold"), now=NOW, grace=timedelta(0)) == LeaveIt("is on hold")


def test_an_order_without_a_deadline_is_never_due() -> None:
    assert decide(order(expire_at=None), now=NOW, grace=timedelta(0)) == LeaveIt("has no deadline")


# Who won


@pytest.mark.parametrize("state", [*State, None])
def test_why_not_says_who_won(state: State | None) -> None:
    closed = Order(1, "SO-1", state, "s", NOW, NOW, "customer", "app")
    found = why_not(closed, "so-1")
    match state:
        case State.PENDING | State.CLOSING:
            assert found is None
        case State.CLOSED:
            assert found == AlreadyClosed("SO-1", "customer", "app", NOW)
        case _:
            assert found == AlreadyPaid("SO-1", "s")


def test_why_not_knows_no_order() -> None:
    assert why_not(None, "so-1") == UnknownOrder("so-1")


def test_every_outcome_has_a_word() -> None:
    words = [outcome_word(kind.__new__(kind)) for kind in get_args(Outcome)]
    assert words == ["closed", "already closed", "already paid", "not yet due", "busy", "unknown order", "blocked"]


# Names


names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=LONGEST_NAME
).filter(lambda name: name == name.strip(" "))


@given(names)
def test_any_text_that_a_database_stores_is_a_name(name: str) -> None:
    assert checked_name(name, "a name") == name


@pytest.mark.parametrize(
    "value, found",
    [
        ("", "found 0"),
        ("n" * 191, "found 191"),
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        (7, "found int"),
        (None, "found NoneType"),
        (b"so-1", "found bytes"),
    ],
)
def test_what_is_no_name_is_refused_with_what_was_found(value: object, found: str) -> None:
    with pytest.raises(InvalidInput, match=found):
        checked_name(value, "an order number")


def test_a_refused_name_is_shortened_in_the_message() -> None:
    with pytest.raises(InvalidInput) as caught:
        checked_name("n" * 10_000, "an order number")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), "2026-01-01T00:00:00Z", 0, None])  # noqa: DTZ001 -- naive on purpose
def test_what_is_no_instant_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="the deadline"):
        checked_instant(value, "the deadline")


def test_an_instant_stays_as_it_is() -> None:
    assert checked_instant(NOW, "the deadline") is NOW


# Finding rows again


def row(number: str) -> Order:
    return Order(1, number, State.PENDING, "pending", None)


def test_a_number_finds_its_own_row_before_one_that_differs_in_case() -> None:
    rows = [row("SO-1"), row("so-1")]
    assert {asked: found.order_no for asked, found in matched(["so-1", "SO-1"], rows).items()} == {
        "so-1": "so-1",
        "SO-1": "SO-1",
    }


def test_a_number_in_other_letters_finds_what_the_database_found_by_it() -> None:
    assert matched(["so-1"], [row("SO-1")])["so-1"].order_no == "SO-1"
    assert matched(["so-2"], [row("SO-1")]) == {}


@given(st.lists(st.text(string.ascii_lowercase, min_size=1, max_size=3), unique=True))
def test_every_row_is_found_by_its_own_number(order_nos: list[str]) -> None:
    rows = [row(order_no) for order_no in order_nos]
    assert {asked: found.order_no for asked, found in matched(order_nos, rows).items()} == {no: no for no in order_nos}
