from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.config.keys import dotted, variable
from duetime.units import LONGEST_DURATION, format_duration, parse_duration, parse_instant, parse_rate


@given(st.integers(min_value=0, max_value=LONGEST_DURATION // timedelta(milliseconds=1)))
def test_duration_survives_writing_and_reading(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(duration)) == duration


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_sentence(text: str) -> None:
    try:
        assert timedelta() <= parse_duration(text) <= LONGEST_DURATION
    except ValueError as problem:
        assert "duration" in str(problem)  # noqa: PT017 -- both ways are right


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("45s", 45),
        ("30m", 1800),
        ("2h", 7200),
        ("7d", 604800),
        ("0ms", 0),
        ("250ms", 0.25),
        ("1h30m", 5400),
        ("1m1ms", 60.001),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "30", "1.5h", "30m1h", "1h 30m", "5S", "s", "-5s", "٣s", "999999999999d", "1w", 30, True, None]
)
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="a duration"):
        parse_duration(text)


def test_rates() -> None:
    assert (parse_rate("unlimited"), parse_rate(5), parse_rate(0.5)) == (None, 5.0, 0.5)
    for wrong in (0, -1, float("nan"), float("inf"), True, "5"):
        with pytest.raises(ValueError, match="a rate"):
            parse_rate(wrong)


def test_instants() -> None:
    assert parse_instant("") is None
    assert parse_instant("2026-01-31T08:00:00+08:00") == datetime(2026, 1, 31, tzinfo=UTC)
    assert parse_instant(datetime(2026, 1, 31, tzinfo=UTC)) == datetime(2026, 1, 31, tzinfo=UTC)
    for wrong in ("2026-01-31", "2026-01-31 08:00", "0001-01-01T00:00:00+14:00", "soon", 5, True):
        with pytest.raises(ValueError, match="an instant"):
            parse_instant(wrong)


def test_paths_are_written_as_an_operator_says_them() -> None:
    assert dotted(("assets", 1, "storage")) == "assets[1].storage"
    assert variable(("store", "url")) == "DUETIME_STORE__URL"
