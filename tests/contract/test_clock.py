"""The clock suite on this machine's clock and on the manual one, and what only the manual one can do."""

import asyncio
from datetime import timedelta

import pytest

from duetime.clock import SystemClock
from duetime.testing import ManualClock
from duetime.testing.suites import ClockBench, ClockSuite
from tests.support.waiting import let_pass


class TestSystemClock(ClockSuite):
    @pytest.fixture
    async def bench(self) -> ClockBench:
        return ClockBench(SystemClock())


class TestManualClock(ClockSuite):
    @pytest.fixture
    async def bench(self) -> ClockBench:
        clock = ManualClock()
        return ClockBench(clock, clock.advance)


async def test_each_sleeper_wakes_at_exactly_its_own_instant() -> None:
    clock = ManualClock()
    start, woken = clock.now(), list[tuple[str, timedelta]]()

    wait = clock.sleep

    async def sleep_twice(name: str, seconds: float) -> None:
        for _ in range(2):
            await wait(seconds)
            woken.append((name, clock.now() - start))

    tasks = [asyncio.ensure_future(sleep_twice(name, seconds)) for name, seconds in (("b", 2), ("a", 1), ("c", 2))]
    await clock.advance(timedelta(seconds=10))
    await asyncio.gather(*tasks)
    seconds = [(name, at.total_seconds()) for name, at in woken]
    assert seconds == [("a", 1), ("b", 2), ("c", 2), ("a", 2), ("b", 4), ("c", 4)]
    assert clock.now() - start == timedelta(seconds=10)
    assert clock.sleepers == 0


async def test_a_jump_of_the_wall_clock_wakes_nobody() -> None:
    clock = ManualClock()
    wait = clock.sleep
    sleeping = asyncio.ensure_future(wait(1))
    await let_pass(0, because="a sleeper that was woken would wake now")
    start = clock.now()
    clock.jump(timedelta(hours=1))
    clock.jump(timedelta(hours=-3))
    await let_pass(0, because="a sleeper that was woken would wake now")
    assert clock.now() - start == timedelta(hours=-2)
    assert (clock.monotonic(), clock.sleepers) == (0, 1)
    await clock.advance(1)
    await sleeping


async def test_time_only_goes_forward() -> None:
    with pytest.raises(ValueError, match="only goes forward"):
        await ManualClock().advance(-1)
