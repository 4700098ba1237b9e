"""The observer suite on the one that tells several, one of which always raises."""

from typing import Never

import pytest

from duetime.observer import Attempt, Followed, Observer, Observers, Watched
from duetime.store import Failure, SweepRun
from duetime.testing.suites import ObserverSuite


class Raising:
    """Raises whatever it hears."""

    def attempted(self, attempt: Attempt) -> Never:
        raise RuntimeError(attempt)

    def swept(self, run: SweepRun) -> Never:
        raise RuntimeError(run)

    def released(self, *, kind: str, ref: str, holds: int) -> Never:
        raise RuntimeError(kind, ref, holds)

    def followed(self, followed: Followed) -> Never:
        raise RuntimeError(followed)

    def watched(self, watched: Watched) -> Never:
        raise RuntimeError(watched)

    def failed(self, failure: Failure) -> Never:
        raise RuntimeError(failure)

    def troubled(self, what: str, error: BaseException) -> Never:
        raise RuntimeError(what, error)


class Counting:
    """Counts what it hears."""

    def __init__(self) -> None:
        self.heard = 0

    def attempted(self, attempt: Attempt) -> None:
        del attempt
        self.heard += 1

    def swept(self, run: SweepRun) -> None:
        del run
        self.heard += 1

    def released(self, *, kind: str, ref: str, holds: int) -> None:
        del kind, ref, holds
        self.heard += 1

    def followed(self, followed: Followed) -> None:
        del followed
        self.heard += 1

    def watched(self, watched: Watched) -> None:
        del watched
        self.heard += 1

    def failed(self, failure: Failure) -> None:
        del failure
        self.heard += 1

    def troubled(self, what: str, error: BaseException) -> None:
        del what, error
        self.heard += 1


class TestObservers(ObserverSuite):
    @pytest.fixture
    def observer(self) -> Observer:
        return Observers([Raising(), Counting()])


def test_one_that_raises_does_not_keep_the_others_from_hearing() -> None:
    counting = Counting()
    observers = Observers([counting, Raising(), counting])
    observers.released(kind="stock", ref="sku-1", holds=1)
    observers.troubled("the sweep", ValueError())
    assert counting.heard == 4
