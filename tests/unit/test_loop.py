import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from duetime.loop import Loop
from duetime.observer import Attempt, Followed, Observer, Observers, Watched
from duetime.store import Failure, SweepRun
from duetime.testing import ManualClock
from tests.support.waiting import eventually, let_pass

NEVER = 3600.0


class Heard(Observer):
    def __init__(self) -> None:
        self.troubles: list[str] = []

    def attempted(self, attempt: Attempt) -> None: ...

    def swept(self, run: SweepRun) -> None: ...

    def released(self, *, kind: str, ref: str, holds: int) -> None: ...

    def followed(self, followed: Followed) -> None: ...

    def watched(self, watched: Watched) -> None: ...

    def failed(self, failure: Failure) -> None: ...

    def troubled(self, what: str, error: BaseException) -> None:
        self.troubles.append(f"{what}: {error}")


class Work:
    """Counts its rounds, and how many of them run at the same time."""

    def __init__(self, *, pause: float | None = None, gate: asyncio.Event | None = None) -> None:
        self.rounds = 0
        self.running = 0
        self.most_at_once = 0
        self.fails = 0
        self._pause = pause
        self._gate = gate

    async def __call__(self) -> float | None:
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            await let_pass(0, because="others get their turn inside a round")
            if self._gate is not None:
                await self._gate.wait()
            self.rounds += 1
            if self.fails:
                self.fails -= 1
                raise RuntimeError("a bad round")
        finally:
            self.running -= 1
        return self._pause


def make(work: Callable[[], Awaitable[float | None]], *, seconds: float = NEVER, heard: Heard | None = None) -> Loop:
    return Loop("the work", work, interval_seconds=seconds, observers=Observers([heard] if heard else []))


async def test_the_first_round_comes_at_once() -> None:
    work = Work()
    loop = make(work)
    loop.start()
    await eventually("a round", lambda: work.rounds == 1)
    await loop.stop()


async def test_starting_twice_is_one_start() -> None:
    work = Work()
    loop = make(work, seconds=0)
    loop.start()
    loop.start()
    await eventually("some rounds", lambda: work.rounds > 20)
    await loop.stop()
    assert work.most_at_once == 1


async def test_stopping_before_starting_makes_the_start_do_nothing() -> None:
    work = Work()
    loop = make(work)
    await loop.stop()
    loop.start()
    assert not loop.running
    assert work.rounds == 0


async def test_stopping_twice_is_one_stop() -> None:
    loop = make(Work())
    loop.start()
    await asyncio.gather(loop.stop(), loop.stop())
    await loop.stop()
    assert not loop.running


async def test_stopping_lets_the_round_in_hand_finish() -> None:
    gate = asyncio.Event()
    work = Work(gate=gate)
    loop = make(work)
    loop.start()
    await eventually("the round to begin", lambda: work.running == 1)
    stopping = asyncio.ensure_future(loop.stop())
    await let_pass(0, because="whatever was started would run now")
    assert work.rounds == 0
    gate.set()
    await stopping
    assert work.rounds == 1
    assert work.running == 0


async def test_a_round_that_does_not_end_is_cancelled_when_the_patience_is_over() -> None:
    work = Work(gate=asyncio.Event())
    loop = make(work)
    loop.start()
    await eventually("the round to begin", lambda: work.running == 1)
    await loop.stop(patience_seconds=0.05)
    assert work.running == 0
    assert work.rounds == 0
    assert not loop.running


async def test_waking_ends_the_wait() -> None:
    work = Work()
    loop = make(work)
    loop.start()
    await eventually("the first round", lambda: work.rounds == 1)
    loop.wake()
    await eventually("the second round", lambda: work.rounds == 2)
    await loop.stop()


async def test_a_wake_during_the_work_is_not_lost() -> None:
    gate = asyncio.Event()
    work = Work(gate=gate)
    loop = make(work)
    loop.start()
    await eventually("the round to begin", lambda: work.running == 1)
    loop.wake()
    gate.set()
    await eventually("the round that was asked for meanwhile", lambda: work.rounds == 2)
    await loop.stop()


async def test_work_that_raises_is_reported_and_tried_again() -> None:
    heard = Heard()
    work = Work()
    work.fails = 1
    loop = make(work, heard=heard)
    loop.start()
    await eventually("a round after the bad one", lambda: work.rounds == 2)
    await loop.stop()
    assert heard.troubles == ["the work failed and will be tried again: a bad round"]


async def test_work_says_when_its_next_round_is_due() -> None:
    work = Work(pause=0)
    loop = make(work)
    loop.start()
    await eventually("rounds without waiting for the interval", lambda: work.rounds > 5)
    await loop.stop()


@pytest.mark.parametrize("seed", range(40))
async def test_any_mixture_of_starts_stops_and_wakes_leaves_nothing_behind(seed: int) -> None:
    dice = random.Random(seed)
    work = Work()
    work.fails = dice.randrange(3)
    loop = make(work, seconds=dice.choice([0, 0.001, NEVER]))

    async def act() -> None:
        for _ in range(dice.randrange(8)):
            match dice.randrange(4):
                case 0:
                    loop.start()
                case 1:
                    loop.wake()
                case 2:
                    await loop.stop()
                case _:
                    await let_pass(dice.random() / 500, because="calls come at any moment of a round")

    await asyncio.gather(*(act() for _ in range(6)))
    await loop.stop()
    rounds = work.rounds
    loop.start()
    await let_pass(0, because="whatever was started would run now")
    assert work.running == 0
    assert work.most_at_once <= 1
    assert work.rounds == rounds
    assert not loop.running


async def test_a_loop_outlives_any_number_of_bad_rounds() -> None:
    """A pause that doubles without a bound overflows after a thousand of them."""
    work, clock = Work(), ManualClock()
    work.fails = 2000
    loop = Loop("the work", work, interval_seconds=1, clock=clock)
    loop.start()
    while work.rounds <= 2000:
        await clock.advance(5)
        assert loop.running
    stopping = asyncio.ensure_future(loop.stop())
    await clock.advance(1)
    await stopping
