"""Facts: their identity, and instants and holds on their way through JSON."""

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.event import (
    FactType,
    fact,
    holds_from_json,
    holds_json,
    instant_from_json,
    instant_json,
)
from duetime.hold import Hold
from duetime.identity import new_event_id, new_event_ids

instants = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=8))])).filter(
    lambda at: 1 < at.year < 9999
)


def test_a_fact_opens_with_its_identity() -> None:
    made = fact("e-1", "so-1", FactType.ORDER_CLOSED, reason="timeout")
    assert list(made.payload.items()) == [("event_id", "e-1"), ("order_no", "so-1"), ("reason", "timeout")]


@given(instants)
def test_an_instant_survives_json(instant: datetime) -> None:
    written = instant_json(instant)
    assert instant_from_json(json.loads(json.dumps(written))) == instant


def test_an_instant_is_written_in_utc_with_microseconds() -> None:
    at = datetime(2026, 1, 1, 8, 0, 0, 5, tzinfo=timezone(timedelta(hours=8)))
    assert instant_json(at) == "2026-01-01T00:00:00.000005Z"


@pytest.mark.parametrize("value", [None, 7, [], {}])
def test_what_is_no_instant_is_none(value: object) -> None:
    assert instant_from_json(value) is None
    assert instant_json(None) is None


@given(st.lists(st.builds(Hold, st.just("stock"), st.text("ab套🛒", min_size=1), st.integers(1, 2**62))))
def test_holds_survive_json(holds: list[Hold]) -> None:
    assert holds_from_json(json.loads(json.dumps(holds_json(holds)))) == tuple(holds)


@pytest.mark.parametrize("value", [None, 7, {}])
def test_what_is_no_list_of_holds_is_empty(value: object) -> None:
    assert holds_from_json(value) == ()


def test_an_identifier_is_a_uuid_of_version_7_of_this_moment() -> None:
    before = time.time_ns() // 1_000_000
    made = UUID(new_event_id())
    assert made.version == 7
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000


def test_identifiers_differ() -> None:
    assert len({new_event_id() for _ in range(10_000)}) == 10_000


def test_identifiers_are_version_7_of_the_standard_variant_and_all_different() -> None:
    made = [UUID(one) for one in new_event_ids(2000)]
    assert {one.version for one in made} == {7}
    assert {one.variant for one in made} == {RFC_4122}
    assert len(set(made)) == 2000
