"""The suite of the clock contract."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from duetime.clock import Clock

_SLACK_SECONDS = 5.0


@dataclass(frozen=True)
class ClockBench:
    """A clock, and how a test lets seconds pass by it (a real clock needs nothing but to be waited for)."""

    clock: Clock
    let_pass: Callable[[float], Awaitable[None]] = asyncio.sleep


class ClockSuite:
    """Everything that a clock promises.

    A subclass gives the asynchronous fixture ``bench``: a ``ClockBench``.
    """

    async def test_now_is_an_aware_instant_in_utc(self, bench: ClockBench) -> None:
        assert bench.clock.now().utcoffset() == timedelta(0)

    async def test_monotonic_never_goes_back(self, bench: ClockBench) -> None:
        seen = [bench.clock.monotonic() for _ in range(100)]
        await bench.let_pass(0.01)
        seen.append(bench.clock.monotonic())
        assert seen == sorted(seen)

    async def test_both_times_move_by_what_passes(self, bench: ClockBench) -> None:
        now, monotonic = bench.clock.now(), bench.clock.monotonic()
        await bench.let_pass(0.1)
        assert bench.clock.monotonic() - monotonic >= 0.09
        assert bench.clock.now() - now >= timedelta(seconds=0.09)

    async def test_a_sleeper_wakes_no_earlier_than_asked(self, bench: ClockBench) -> None:
        start = bench.clock.monotonic()
        sleeping = asyncio.ensure_future(bench.clock.sleep(0.05))
        await bench.let_pass(0.2)
        await asyncio.wait_for(sleeping, _SLACK_SECONDS)
        assert bench.clock.monotonic() - start >= 0.05

    async def test_sleepers_wake_in_the_order_of_their_instants(self, bench: ClockBench) -> None:
        woken: list[float] = []

        async def sleep(seconds: float) -> None:
            await bench.clock.sleep(seconds)
            woken.append(seconds)

        sleeping = [asyncio.ensure_future(sleep(seconds)) for seconds in (0.3, 0.1, 0.2)]
        await bench.let_pass(0.4)
        await asyncio.wait_for(asyncio.gather(*sleeping), _SLACK_SECONDS)
        assert woken == [0.1, 0.2, 0.3]

    @pytest.mark.parametrize("seconds", [0, -1, -1e9])
    async def test_sleeping_for_nothing_returns_at_once(self, bench: ClockBench, seconds: float) -> None:
        await asyncio.wait_for(bench.clock.sleep(seconds), _SLACK_SECONDS)

    async def test_a_cancelled_sleeper_is_gone(self, bench: ClockBench) -> None:
        sleeping = asyncio.ensure_future(bench.clock.sleep(0.05))
        await asyncio.sleep(0)
        sleeping.cancel()
        await bench.let_pass(0.1)
        await asyncio.wait([sleeping], timeout=_SLACK_SECONDS)
        assert sleeping.cancelled()
