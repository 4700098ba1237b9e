"""What is remembered of an order beside another closer, and what its end says about that closer."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from duetime.observation import (
    FOLLOWED_FOR,
    PAID_FOLLOWED_FOR,
    Look,
    Observation,
    Seen,
    Verdict,
    first_look,
    judged,
    looked,
)
from duetime.order import Order, State

DUE = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
GRACE = 5 * SECOND
LATE_AFTER = 60 * SECOND
PENDING = Order(1, "so-1", State.PENDING, "pending", DUE)


def at(seconds: float) -> Look:
    return Look(DUE + seconds * SECOND, GRACE)


def followed(*looks: tuple[float, Order | None]) -> Observation:
    """Look at an order again and again: seconds after its deadline, and the row."""
    first = looks[0]
    assert first[1] is not None
    one = first_look(first[1], at(first[0]))
    assert one is not None
    for seconds, order in looks[1:]:
        one = looked(one, order, at(seconds))
    return one


def closed(seconds: float, paid_at: datetime | None = None) -> Order:
    return replace(PENDING, state=State.CLOSED, status="closed", closed_at=DUE + seconds * SECOND, paid_at=paid_at)


PAID = replace(PENDING, state=State.PAID, status="paid")
BEFORE = (-30.0, PENDING)


@pytest.mark.parametrize(
    "looks, verdict, would_close",
    [
        pytest.param([BEFORE], Verdict.OPEN, None, id="not due yet"),
        pytest.param([BEFORE, (60, PENDING)], Verdict.OPEN, 60, id="due, and a closer has time left"),
        pytest.param([BEFORE, (4, PENDING), (5, PENDING), (99, PENDING)], Verdict.MISSED, 5, id="missed"),
        pytest.param([BEFORE, (30, closed(0))], Verdict.IN_TIME, None, id="closed at its deadline"),
        pytest.param([BEFORE, (30, PENDING), (90, closed(60))], Verdict.IN_TIME, 30, id="just in time"),
        pytest.param([BEFORE, (90, closed(60.1))], Verdict.LATE, None, id="late"),
        pytest.param([BEFORE, (0, closed(-1))], Verdict.EARLY, None, id="early"),
        pytest.param([BEFORE, (0, closed(-0.9))], Verdict.IN_TIME, None, id="a column of whole seconds is not early"),
        pytest.param([BEFORE, (0, PAID), (30, PAID)], Verdict.PAID, None, id="paid"),
        pytest.param([BEFORE, (6, PENDING), (9, PAID)], Verdict.PAID_LATE, 6, id="paid after we would have closed"),
        pytest.param(
            [BEFORE, (9, replace(PAID, paid_at=DUE + 5 * SECOND))], Verdict.PAID_LATE, 5, id="paid late between looks"
        ),
        pytest.param(
            [BEFORE, (9, replace(PAID, paid_at=DUE + 4 * SECOND))], Verdict.PAID, None, id="paid within the grace"
        ),
        pytest.param([BEFORE, (-5, PAID), (9, closed(8))], Verdict.CLOSED_PAID, None, id="seen paid, then closed"),
        pytest.param(
            [BEFORE, (9, closed(8, paid_at=DUE - SECOND))], Verdict.CLOSED_PAID, None, id="both between looks"
        ),
        pytest.param(
            [BEFORE, (9, closed(8, paid_at=DUE + 9 * SECOND))], Verdict.IN_TIME, None, id="money after the close"
        ),
        pytest.param(
            [BEFORE, (9, closed(8, paid_at=EPOCH))], Verdict.IN_TIME, None, id="0 is not paid"
        ),
        pytest.param([BEFORE, (9, None)], Verdict.DELETED, None, id="deleted"),
        pytest.param([BEFORE, (9, replace(PENDING, state=None, status="frozen"))], Verdict.OTHER, None, id="unknown"),
        pytest.param([BEFORE, (9, replace(PENDING, left_out=True))], Verdict.OTHER, None, id="left out"),
        pytest.param(
            [BEFORE, (6, PENDING), (7, replace(PENDING, expire_at=DUE + 99 * SECOND))], Verdict.OPEN, None, id="moved"
        ),
    ],
)  # fmt: skip
def test_verdict(looks: list[tuple[float, Order | None]], verdict: Verdict, would_close: float | None) -> None:
    one = followed(*looks)
    assert judged(one, now=at(looks[-1][0]).now, late_after=LATE_AFTER) is verdict
    assert one.would_close_at == (None if would_close is None else at(would_close).now)


def test_without_a_column_for_it_the_close_is_when_it_was_seen() -> None:
    one = followed(BEFORE, (80, replace(closed(0), closed_at=None)))
    assert (one.closed, one.closed_at) == (at(80).now, None)
    assert judged(one, now=at(80).now, late_after=LATE_AFTER) is Verdict.LATE


def test_an_order_without_a_deadline_is_not_begun_with() -> None:
    assert first_look(replace(PENDING, expire_at=None), at(0)) is None


@pytest.mark.parametrize("order, for_", [(PENDING, FOLLOWED_FOR), (PAID, PAID_FOLLOWED_FOR)])
def test_it_is_looked_at_for_a_while(order: Order, for_: timedelta) -> None:
    seconds = for_ / SECOND
    assert followed(BEFORE, (seconds - 1, order)).followed
    assert not followed(BEFORE, (seconds, order)).followed


@pytest.mark.parametrize("end, seen", [(closed(3), Seen.CLOSED), (None, Seen.DELETED)])
def test_an_end_is_the_end(end: Order | None, seen: Seen) -> None:
    one = followed(BEFORE, (9, end))
    assert (one.seen, one.followed) == (seen, False)
