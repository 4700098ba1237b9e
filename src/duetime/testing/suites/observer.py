"""The suite of the observer contract."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

import pytest

from duetime.observer import Attempt, Followed, Met, Observer, Watched
from duetime.order import (
    AlreadyClosed,
    AlreadyPaid,
    Blocked,
    Busy,
    Closed,
    NotYetDue,
    Outcome,
    UnknownOrder,
)
from duetime.store import Failure, Quarantine, Stage, SweepRun

AT = datetime(2026, 1, 1, tzinfo=UTC)

OUTCOMES: tuple[Outcome, ...] = (
    Closed("so-1", "timeout", "sweep", AT, AT, 0),
    Closed("so-2", "customer", "app", None, AT, None),
    AlreadyClosed("so-3"),
    AlreadyPaid("so-4", "shipped"),
    NotYetDue("so-5", AT),
    NotYetDue("so-6", None),
    Busy("so-7"),
    UnknownOrder("so-8"),
    Blocked("so-9", "stock has no row sku-1"),
)
"""One of every kind, and both forms where a field may be absent."""


class ObserverSuite:
    """Everything that an observer promises: to hear anything that can happen, quickly, and never to raise.

    A subclass gives the fixture ``observer``.
    """

    async def test_it_hears_every_outcome(self, observer: Observer) -> None:
        observer.attempted(Attempt([("sweep", outcome) for outcome in OUTCOMES], 0.25))
        observer.attempted(Attempt([], 0.0))

    @pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
    async def test_it_hears_any_source(self, observer: Observer, outcome: Outcome) -> None:
        observer.attempted(Attempt([("订单 🛒 %s {x}", outcome), ("", outcome)], 1e6))

    @pytest.mark.parametrize("pending_seen", [True, False, None])
    @pytest.mark.parametrize("error", [None, "lost the connection %s {x} 🛒"])
    async def test_it_hears_sweep_runs(self, observer: Observer, pending_seen: bool | None, error: str | None) -> None:  # noqa: FBT001 -- a case
        observer.swept(SweepRun(0, "worker", AT, AT, 7, 5, error, pending_seen))

    async def test_it_hears_of_holds_given_back_later(self, observer: Observer) -> None:
        observer.released(kind="stock", ref="套餐-🛒", holds=500)

    @pytest.mark.parametrize("met", list(Met))
    async def test_it_hears_what_the_shop_did(self, observer: Observer, met: Met) -> None:
        followed = Followed(blocked={"so-2": "its hold is of kind 座位"}, unknown=Counter({"%s {x}": 1}))
        followed.note(met, "so-1")
        observer.followed(followed)
        followed.settled[met] += 1
        observer.followed(followed)

    @pytest.mark.parametrize("watched", [Watched(), Watched(begun=3, followed=2, ended=1, would_close=1)])
    async def test_it_hears_what_observe_mode_met(self, observer: Observer, watched: Watched) -> None:
        observer.watched(watched)

    @pytest.mark.parametrize("state", list(Quarantine))
    @pytest.mark.parametrize("stage", list(Stage))
    async def test_it_hears_of_failures(self, observer: Observer, state: Quarantine, stage: Stage) -> None:
        observer.failed(Failure("so-1", stage, 3, AT, AT, AT, state, "no row sku-1 %s {x}"))

    @pytest.mark.parametrize(
        "error", [ValueError(), OSError(111, "refused"), asyncio.CancelledError(), Exception("🛒")]
    )
    async def test_it_hears_of_trouble(self, observer: Observer, error: BaseException) -> None:
        observer.troubled("the sweep %s {x}", error)
