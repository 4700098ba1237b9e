"""What duetime tells about itself while it works: to logs now, to metrics and dashboards later.

Observers are told, never asked: they must return quickly and must not raise. ``Observers`` shields the work from one
that does.
"""

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from duetime.order import Closed, Outcome
from duetime.store import Failure, SweepRun


@dataclass(frozen=True, slots=True)
class Attempt:
    """One batch that was tried: every order's outcome, by source, and how long the batch took."""

    outcomes: Sequence[tuple[str, Outcome]]
    seconds: float

    @property
    def held_nothing(self) -> int:
        """How many orders were closed by it that held nothing."""
        return sum(isinstance(outcome, Closed) and not outcome.released for _, outcome in self.outcomes)


SAMPLES_AT_MOST = 20
"""Orders that a report names of each kind."""


class Met(StrEnum):
    """What the walk met, in the words of logs and reports."""

    PAID = "paid by the shop"
    LATE_HOLD = "held after our close"
    CLOSED = "closed by the shop"
    DELETED = "deleted by the shop"
    UNKNOWN = "in a status that orders.states does not name"


@dataclass(slots=True)
class Followed:
    """What one pass met and did. ``met`` counts orders; ``settled`` those whose holds were moved by it."""

    met: Counter[Met] = field(default_factory=Counter)
    settled: Counter[Met] = field(default_factory=Counter)
    blocked: dict[str, str] = field(default_factory=dict)
    samples: dict[Met, list[str]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)

    def note(self, met: Met, order_no: str) -> None:
        """Count one order."""
        self.met[met] += 1
        kept = self.samples.setdefault(met, [])
        if len(kept) < SAMPLES_AT_MOST:
            kept.append(order_no)


@dataclass(slots=True)
class Watched:
    """What one pass of observe mode met: orders that it began with, and looked at again, and of which it saw the end.

    ``would_close``: orders that it would have closed.
    """

    begun: int = 0
    followed: int = 0
    ended: int = 0
    would_close: int = 0


class Observer(Protocol):
    """Hears what happens."""

    def attempted(self, attempt: Attempt) -> None:
        """Hear that a batch of closes was answered."""
        ...

    def swept(self, run: SweepRun) -> None:
        """Hear that a sweep run ended."""
        ...

    def released(self, *, kind: str, ref: str, holds: int) -> None:
        """Hear that the releaser finished holds on one asset."""
        ...

    def followed(self, followed: Followed) -> None:
        """Hear what the shop did to orders by itself."""
        ...

    def watched(self, watched: Watched) -> None:
        """Hear what a pass of observe mode met."""
        ...

    def failed(self, failure: Failure) -> None:
        """Hear that an order failed, and whether it went to quarantine."""
        ...

    def troubled(self, what: str, error: BaseException) -> None:
        """Hear that something went wrong that will be tried again: a lost connection, a loop that survived an error."""
        ...


class Observers:
    """Tells several observers; an observer that raises is ignored for that call."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        """Tell ``observers``, in this order."""
        self._observers = tuple(observers)

    def attempted(self, attempt: Attempt) -> None:
        """Pass on."""
        for observer in self._observers:
            with contextlib.suppress(Exception):
                observer.attempted(attempt)

    def swept(self, run: SweepRun) -> None:
        """Pass on."""
        for observer in self._observers:
            with contextlib.suppress(Exception):
                observer.swept(run)

    def released(self, *, kind: str, ref: str, holds: int) -> None:
        """Pass on."""
        for observer in self._observers:
            with contextlib.suppress(Exception):
                observer.released(kind=kind, ref=ref, holds=holds)

    def followed(self, followed: Followed) -> None:
        """Pass on."""
        for observer in self._observers:
            with contextlib.suppress(Exception):
                observer.followed(followed)

    def watched(self, watched: Watched) -> None:
        """Pass on."""
        for observer in self._observers:
            with contextlib.suppress(Exception):
                observer.watched(watched)

    def failed(self, failure: Failure) -> None:
        """Pass on."""
        for observer in self._observers:
            with contextlib.suppress(Exception):
                observer.failed(failure)

    def troubled(self, what: str, error: BaseException) -> None:
        """Pass on."""
        for observer in self._observers:
            with contextlib.suppress(Exception):
                observer.troubled(what, error)
