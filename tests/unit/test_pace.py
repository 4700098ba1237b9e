"""How many closes a second are let through: the mean, bursts, shares, pauses, and the end of it."""

import asyncio
from collections.abc import Sequence

import pytest

from duetime.fleet import UNLIMITED, Fleet
from duetime.pace import BATCH_SECONDS, BURST_SECONDS, Pace
from duetime.testing import ManualClock


async def drained(pace: Pace, clock: ManualClock, seconds: float, *, writers: int = 1) -> list[int]:
    """Let writers close as much as they may for so long; answer the sizes of their batches."""
    batches: list[int] = []

    async def write() -> None:
        while True:
            batches.append(await pace.room(500))

    tasks = [asyncio.create_task(write()) for _ in range(writers)]
    await clock.advance(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return batches


async def test_without_a_limit_everything_goes_at_once() -> None:
    assert await Pace(ManualClock()).room(10_000) == 10_000


@pytest.mark.parametrize("rate", [1.0, 30.0, 300.0, 2000.0])
@pytest.mark.parametrize("writers", [1, 3])
async def test_the_mean_is_the_rate_whoever_asks(rate: float, writers: int) -> None:
    clock = ManualClock()
    batches = await drained(Pace(clock, rate), clock, 10, writers=writers)
    burst = rate * BURST_SECONDS + 1
    assert rate * 10 * 0.98 <= sum(batches) <= rate * 10 + burst + max(batches)
    assert max(batches[1:]) <= max(1, rate * BATCH_SECONDS) + 1


async def test_a_worker_that_was_idle_is_ahead_by_one_burst_at_most() -> None:
    clock = ManualClock()
    pace = Pace(clock, 1000)
    await clock.advance(3600)
    assert sum(await drained(pace, clock, 1)) <= 1000 + 1000 * BURST_SECONDS + 1000 * BATCH_SECONDS


FLEETS: Sequence[tuple[Fleet, float]] = [
    (Fleet(), 800),
    (Fleet(("a",)), 800),
    (Fleet(("a", "b", "c", "d")), 200),
    (Fleet(("a", "b"), rate=100), 50),
    (Fleet(("a", "b"), rate=UNLIMITED), UNLIMITED),
    (Fleet(("a", "b"), paused_by="mia", rate=100), 0),
]


@pytest.mark.parametrize("fleet, share", FLEETS)
def test_each_worker_has_its_share_of_what_all_may(fleet: Fleet, share: float) -> None:
    assert fleet.share(800) == share


async def test_a_pause_lets_nothing_through_until_it_ends() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    pace.heard(Fleet(paused_by="mia"))
    waiting = asyncio.create_task(pace.room(7))
    await clock.advance(60)
    assert not waiting.done()
    pace.heard(Fleet())
    await clock.advance(1)
    assert waiting.done()
    assert waiting.result() == 7


async def test_nothing_is_let_through_before_the_first_word() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    pace.begin()
    waiting = asyncio.create_task(pace.room(7))
    await clock.advance(1)
    assert not waiting.done()
    pace.heard(Fleet())
    await clock.advance(1)
    assert waiting.done()
    assert waiting.result() == 7


async def test_whoever_waits_is_sent_away_when_the_worker_stops() -> None:
    clock = ManualClock()
    pace = Pace(clock, 1)
    pace.heard(Fleet(paused_by="mia"))
    waiting = [asyncio.create_task(pace.room(7)) for _ in range(3)]
    await clock.advance(1)
    pace.stopping = True
    await clock.advance(1)
    assert [task.done() for task in waiting] == [True] * 3
    assert [task.result() for task in waiting] == [0] * 3


async def test_what_closed_nothing_does_not_count() -> None:
    clock = ManualClock()
    pace = Pace(clock, 1000)
    for _ in range(1000):
        pace.unused(await pace.room(500))
    assert clock.monotonic() == 0


async def test_a_faster_pace_is_heard_while_waiting_for_a_slow_one() -> None:
    clock = ManualClock()
    pace = Pace(clock, 0.001)
    assert await pace.room(1) == 1
    waiting = asyncio.create_task(pace.room(5))
    await clock.advance(1)
    assert not waiting.done()
    pace.heard(Fleet(rate=UNLIMITED))
    await clock.advance(1)
    assert waiting.done()
    assert waiting.result() == 5
