"""The store's clock between two looks: never ahead, and behind by less than the shortest round trip."""

from datetime import UTC, datetime, timedelta

from duetime.store_time import KEPT_SECONDS, StoreTime
from duetime.testing.manual_clock import ManualClock

STORE = datetime(2030, 6, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Two:
    """A machine, and a store whose clock shows something else entirely."""

    def __init__(self) -> None:
        self.machine = ManualClock()
        self.time = StoreTime(self.machine)
        self._began = self.machine.monotonic()
        self.ahead = timedelta(0)

    @property
    def store(self) -> datetime:
        return STORE + timedelta(seconds=self.machine.monotonic() - self._began) + self.ahead

    async def look(self, there: float, back: float) -> None:
        asked_at = self.machine.monotonic()
        await self.machine.advance(there)
        shown = self.store
        await self.machine.advance(back)
        self.time.heard(asked_at, shown, self.machine.monotonic())


async def test_before_the_first_look_it_shows_the_machines_clock() -> None:
    two = Two()
    assert two.time.now() == two.machine.now()


async def test_it_is_behind_by_the_way_back_of_the_best_look() -> None:
    two = Two()
    await two.look(0.001, 0.5)
    assert two.store - two.time.now() == timedelta(seconds=0.5)
    await two.look(0.2, 0.003)
    await two.look(0.001, 2.0)
    await two.machine.advance(7)
    assert two.store - two.time.now() == timedelta(seconds=0.003)


async def test_a_jump_of_the_machines_wall_clock_changes_nothing() -> None:
    two = Two()
    await two.look(0, 0.001)
    before = two.time.now()
    two.machine.jump(timedelta(minutes=-10))
    assert two.time.now() == before


async def test_a_store_whose_clock_is_set_back_is_believed_at_once() -> None:
    two = Two()
    await two.look(0, 0.001)
    two.ahead = timedelta(minutes=-3)
    await two.look(0, 0.002)
    assert two.store - two.time.now() == timedelta(seconds=0.002)


async def test_a_store_whose_clock_is_set_ahead_is_believed_at_once() -> None:
    two = Two()
    await two.look(0, 0.001)
    two.ahead = timedelta(minutes=3)
    await two.look(0, 0.002)
    assert two.store - two.time.now() == timedelta(seconds=0.002)


async def test_looks_age_so_that_drift_does_not_add_up() -> None:
    two = Two()
    await two.look(0, 0)
    await two.machine.advance(KEPT_SECONDS)
    two.ahead = timedelta(seconds=-0.05)
    await two.look(0.1, 0.01)
    assert two.store - two.time.now() == timedelta(seconds=0.01)
