"""Every form of time, through the changes of the clock: never early, late by no more than is said."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duetime.stores.sql.times import Epochs, Instants, LocalTimes, MySQLTimestamps, Shifted, TimeForm
from duetime.stores.sql.zones import TICK

shown = datetime.fromisoformat
"""What a clock shows: no zone."""

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
BERLIN = ZoneInfo("Europe/Berlin")
ZONES = [
    *(BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Asia/Shanghai")),
    *(ZoneInfo("Pacific/Apia"), ZoneInfo("Africa/Casablanca"), ZoneInfo("UTC")),
]
JUMPS = {"Europe/Berlin": HOUR, "America/New_York": HOUR, "Australia/Lord_Howe": HOUR / 2, "Africa/Casablanca": HOUR,
         "Pacific/Apia": 24 * HOUR}  # fmt: skip
"""The most that each clock ever jumps in the years of these tests."""

CHANGES = [
    datetime(2026, 3, 29, 1, tzinfo=UTC),  # Berlin, forward
    datetime(2026, 10, 25, 1, tzinfo=UTC),  # Berlin, back
    datetime(2026, 3, 8, 7, tzinfo=UTC),  # New York, forward
    datetime(2026, 11, 1, 6, tzinfo=UTC),  # New York, back
    datetime(2026, 4, 4, 15, tzinfo=UTC),  # Lord Howe, back by 30 minutes
    datetime(2026, 10, 3, 15, 30, tzinfo=UTC),  # Lord Howe, forward
    datetime(2011, 12, 30, 10, tzinfo=UTC),  # Apia, a whole day forward
    datetime(1991, 9, 14, 17, tzinfo=UTC),  # Shanghai, back for the last time
]
near_a_change = st.builds(
    lambda change, off: change + timedelta(microseconds=off),
    st.sampled_from(CHANGES),
    st.integers(-4 * 3_600_000_000, 4 * 3_600_000_000),
)
anywhere = st.datetimes(shown("1990-01-01"), shown("2037-01-01"), timezones=st.just(UTC))
instants = near_a_change | anywhere
forms = st.one_of(
    st.builds(Instants, st.booleans(), st.integers(0, 6)),
    st.builds(LocalTimes, st.sampled_from(ZONES), st.integers(0, 6)),
    st.builds(Epochs, st.sampled_from([timedelta(seconds=1), timedelta(milliseconds=1)]), st.integers(0, 6)),
    st.builds(MySQLTimestamps, st.integers(0, 6)),
)


def resolution(form: TimeForm) -> timedelta:
    """Answer how far apart two values of a form stand."""
    match form:
        case Epochs(unit, digits):
            return max(TICK, unit * float(10**-digits))
        case Shifted(inner):
            return resolution(inner)
        case Instants(digits=digits) | LocalTimes(digits=digits) | MySQLTimestamps(digits):
            return timedelta(microseconds=10 ** (6 - digits))
        case _:
            raise AssertionError(form)


def jump(form: TimeForm) -> timedelta:
    """Answer how late the hours of change can make a form."""
    return JUMPS.get(str(form.zone), HOUR) if isinstance(form, LocalTimes) else timedelta(0)


@given(forms, instants)
def test_what_is_written_never_means_an_earlier_instant_nor_a_much_later_one(form: TimeForm, instant: datetime) -> None:
    read = form.read(form.written(instant))
    assert read is not None
    assert instant <= read < instant + resolution(form) + jump(form) + TICK


@given(forms, instants)
def test_the_bound_is_the_largest_value_that_has_passed(form: TimeForm, instant: datetime) -> None:
    bound = form.bound(instant)
    read = form.read(bound)
    assert read is not None
    assert read <= instant
    just_after = form.written(instant + TICK) if not isinstance(form, LocalTimes) else bound + resolution(form)
    later = form.read(just_after)
    assert later is not None
    assert (just_after > bound, later > instant) == (True, True)


@given(st.sampled_from(ZONES), instants, st.integers(0, 50 * 3600))
def test_every_local_time_up_to_the_bound_has_passed(zone: ZoneInfo, instant: datetime, seconds: int) -> None:
    form = LocalTimes(zone)
    read = form.read(form.bound(instant) - timedelta(seconds=seconds))
    assert read is not None
    assert read <= instant


@given(st.sampled_from(ZONES), instants, instants)
def test_local_times_are_due_as_soon_as_no_earlier_one_waits(zone: ZoneInfo, deadline: datetime, now: datetime) -> None:
    form = LocalTimes(zone)
    stored = form.written(deadline)
    found = stored <= form.bound(now)
    assert not found or deadline <= now, "an order closed early"
    assert found or now < deadline + jump(form), "an order closed later than the docs say"


@given(forms, instants)
def test_what_can_mean_an_instant_or_later_is_not_before_since(form: TimeForm, instant: datetime) -> None:
    since = form.since(instant)
    before = since - (resolution(form) if isinstance(since, datetime) else 1)
    read, read_before = form.read(since), form.read(before)
    assert read is not None
    assert read_before is not None
    assert read_before < instant <= read


@given(forms, instants)
def test_the_latest_value_that_has_passed_is_not_below_the_bound(form: TimeForm, instant: datetime) -> None:
    latest = form.latest(instant)
    read = form.read(latest)
    assert read is not None
    assert read <= instant
    assert latest >= form.bound(instant)


@given(instants, st.integers(1, 3 * 86400))
@example(datetime(2026, 3, 29, 0, 45, tzinfo=UTC), 1800)
def test_time_is_added_between_instants(created: datetime, seconds: int) -> None:
    plus = timedelta(seconds=seconds)
    form, inner = Shifted(LocalTimes(BERLIN), plus), LocalTimes(BERLIN)
    stored = inner.written(created)
    began = inner.read(stored)
    assert began is not None
    assert form.read(stored) == began + plus
    assert form.written(created + plus) == stored


def test_half_an_hour_after_a_quarter_to_two_is_a_quarter_past_three_when_the_clock_goes_forward() -> None:
    deadline = Shifted(LocalTimes(BERLIN), 30 * MINUTE).read(shown("2026-03-29 01:45"))
    assert deadline is not None
    assert deadline.astimezone(BERLIN).isoformat() == "2026-03-29T03:15:00+02:00"


@pytest.mark.parametrize(
    "now, bound",
    [
        ("2026-10-25T01:59:00+02:00", "2026-10-25 01:59:00"),
        ("2026-10-25T02:30:00+02:00", "2026-10-25 01:59:59.999999"),
        ("2026-10-25T02:30:00+01:00", "2026-10-25 02:30:00"),
        ("2026-03-29T01:59:00+01:00", "2026-03-29 01:59:00"),
        ("2026-03-29T03:00:00+02:00", "2026-03-29 02:00:00"),
        ("2026-03-29T03:40:00+02:00", "2026-03-29 02:40:00"),
        ("2026-03-29T04:00:00+02:00", "2026-03-29 04:00:00"),
    ],
)
def test_bound_of_berlin(now: str, bound: str) -> None:
    assert str(LocalTimes(BERLIN).bound(datetime.fromisoformat(now))) == bound


@pytest.mark.parametrize(
    "form, value",
    [
        (Instants(zoned=False), None),
        (Instants(zoned=False), "0000-00-00 00:00:00"),
        (LocalTimes(BERLIN), None),
        (LocalTimes(BERLIN), "soon"),
        (LocalTimes(ZoneInfo("America/New_York")), shown("9999-12-31 23:00")),
        (Epochs(timedelta(seconds=1)), None),
        (Epochs(timedelta(seconds=1)), 0),
        (Epochs(timedelta(seconds=1)), -1),
        (Epochs(timedelta(seconds=1)), 1_750_000_000_000),
        (Epochs(timedelta(milliseconds=1), 3), Decimal("NaN")),
        (Epochs(timedelta(milliseconds=1)), "soon"),
        (MySQLTimestamps(), 0),
        (MySQLTimestamps(), None),
        (Shifted(Instants(zoned=False), HOUR), shown("9999-12-31 23:30")),
    ],
)
def test_what_is_no_instant_is_no_deadline(form: TimeForm, value: object) -> None:
    assert form.read(value) is None
