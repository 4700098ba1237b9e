"""The wheel against the simplest thing that does the same: a dictionary that is sorted each time."""

from hypothesis import given
from hypothesis import strategies as st

from duetime.wheel import LATEST, Wheel

KEYS = st.integers(0, 5)
STARTS = st.one_of(st.integers(0, 5000), st.integers(2**39, 2**41))
AHEAD = st.one_of(st.integers(-20, 150), st.sampled_from([63, 64, 4095, 4096]), st.integers(-(2**20), 2**40))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, AHEAD),
        st.tuples(st.just("discard"), KEYS, st.just(0)),
        st.tuples(st.just("advance"), st.just(0), st.one_of(st.integers(0, 100), st.integers(0, 2**39))),
    ),
    max_size=60,
)


@given(start=STARTS, steps=STEPS)
def test_it_fires_what_a_sorted_dictionary_would(start: int, steps: list[tuple[str, int, int]]) -> None:
    wheel: Wheel[int] = Wheel(start)
    model: dict[int, int] = {}
    now = start
    for what, key, number in steps:
        if what == "put":
            wheel.put([(key, max(0, now + number))])
            model[key] = max(0, now + number)
        elif what == "discard":
            wheel.discard([key])
            model.pop(key, None)
        else:
            now += number
            due = {one: at for one, at in model.items() if at <= now}
            fired = wheel.advance(now)
            assert sorted(fired) == sorted(due)
            assert [due[one] for one in fired] == sorted(due.values())
            model = {one: at for one, at in model.items() if at > now}
        assert len(wheel) == len(model)
        following = wheel.next_at()
        assert (following is None) == (not model)
        assert following is None or following <= min(model.values())


@given(ticks=st.lists(st.integers(1, 2**41), min_size=1, max_size=50))
def test_walking_from_answer_to_answer_meets_every_tick_exactly(ticks: list[int]) -> None:
    wheel: Wheel[int] = Wheel()
    wheel.put(enumerate(ticks))
    met: dict[int, int] = {}
    steps = 0
    while (at := wheel.next_at()) is not None:
        met |= dict.fromkeys(wheel.advance(at), at)
        steps += 1
    assert met == dict(enumerate(ticks))
    assert steps <= 8 * len(ticks)


def test_time_that_goes_back_brings_nothing_early() -> None:
    wheel: Wheel[str] = Wheel(1000)
    wheel.put([("a", 900), ("b", 500)])
    assert wheel.next_at() == 500
    assert wheel.advance(499) == []
    assert wheel.advance(500) == ["b"]
    assert wheel.next_at() == 900
    assert wheel.advance(2000) == ["a"]


def test_a_key_is_in_it_once_and_at_its_last_tick() -> None:
    wheel: Wheel[str] = Wheel()
    wheel.put([("a", 10), ("a", 5000), ("a", 10), ("b", 20)])
    assert (len(wheel), "a" in wheel, wheel.at("a"), wheel.at("c")) == (2, True, 10, None)
    assert wheel.advance(9999) == ["a", "b"]
    assert wheel.advance(LATEST) == []
