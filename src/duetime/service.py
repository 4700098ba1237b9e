"""The service: what ``duetime run`` keeps going, each part a loop of its own; and one pass of all parts together.

==========  =====================================================  ================================================
loop        does                                                   wakes
==========  =====================================================  ================================================
sweep       closes what is due                                     every ``sweep.interval``; sooner after busy orders
retries     tries failed orders again whose pause is over          every second, and when an order fails
releaser    finishes holds whose asset was locked                  every second, and when a close leaves some
following   settles what the shop moved by itself                  every ``sweep.interval``
removing    removes what ``retention`` lets go                     every ``sweep.interval``
observing   observe mode: instead of all these but removing       every ``sweep.interval``
listening   closes what the triggers say (``listening``)           when an order is due
==========  =====================================================  ================================================
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from duetime.clock import Clock, SystemClock
from duetime.closing import Closing
from duetime.following import Following
from duetime.listening import Listening
from duetime.loop import Loop
from duetime.membership import HEARD_WITHIN_SECONDS, Membership
from duetime.observer import Followed, Observers, Watched
from duetime.observing import Observing
from duetime.paying import Paying
from duetime.releasing import Releasing
from duetime.removing import Removed, Removing
from duetime.retrying import Failures, Retrying
from duetime.sweep import Sweep

BUSY_AGAIN_SECONDS = 1.0
SHORT_PAUSE_SECONDS = 0.05
USUAL_PAUSE_SECONDS = 1.0
ROUNDS_AT_MOST = 1000


@dataclass(frozen=True, slots=True)
class Parts:
    """What the service runs; where there is ``observing``, that and ``removing`` alone."""

    closing: Closing
    paying: Paying
    failures: Failures
    retrying: Retrying
    releasing: Releasing
    sweep: Sweep
    following: Following
    removing: Removing
    sweep_interval_seconds: float
    observing: Observing | None = None
    listening: Listening | None = None
    fleet: Membership | None = None


@dataclass(slots=True)
class Pass:
    """What one pass found and did.

    ``found``, ``closed``, ``busy``: orders due. ``retried``: orders that had failed before. ``given_back``: holds
    finished by the releaser; ``still_locked``: assets that others hold. ``followed``: what the shop did by itself.
    ``watched``: what observe mode met, where it is on. ``paused_by``: who paused closing, so that nothing was done.
    """

    found: int = 0
    closed: int = 0
    busy: int = 0
    retried: int = 0
    given_back: int = 0
    still_locked: int = 0
    followed: Followed = field(default_factory=Followed)
    removed: Removed = field(default_factory=Removed)
    watched: Watched | None = None
    paused_by: str | None = None


class Told(Protocol):
    """Hears how far a pass has come."""

    def __call__(self, **counts: int) -> None:
        """Hear counts by name: ``found``, ``closed``, ``holds_given_back``."""
        ...


class Service:
    """Runs the loops of one worker."""

    def __init__(self, parts: Parts, *, clock: Clock | None = None, observers: Observers | None = None) -> None:
        """Prepare; nothing runs before ``start``."""
        self._clock, self._observers = clock or SystemClock(), observers or Observers()
        self._parts = parts
        self._interval_seconds = parts.sweep_interval_seconds
        self._loops: tuple[Loop, ...] = ()

    def start(self) -> None:
        """Start all loops; a service that was stopped can be started again."""
        if any(loop.running for loop in self._loops):
            return
        observing = self._parts.observing
        self._loops = self._closing_loops() if observing is None else self._observing_loops(observing)
        for loop in self._loops:
            loop.start()
        if self._parts.listening is not None:
            self._parts.listening.start()

    def _observing_loops(self, observing: Observing) -> tuple[Loop, ...]:
        async def observe() -> float | None:
            await observing.run_once()
            return None

        observing.stopping = False
        return (
            self._loop("observing", observe, self._interval_seconds),
            self._loop("removing what is old", self._remove, self._interval_seconds),
        )

    def _closing_loops(self) -> tuple[Loop, ...]:
        sweep = self._loop("the sweep", self._sweep, self._interval_seconds)
        retries = self._loop("the retries", self._retry, USUAL_PAUSE_SECONDS)
        releaser = self._loop("the releaser", self._release, USUAL_PAUSE_SECONDS)
        self._parts.sweep.stopping = False
        self._parts.closing.on_unfinished = releaser.wake
        self._parts.paying.on_unfinished = releaser.wake
        self._parts.failures.on_failure = retries.wake
        if self._parts.fleet is not None:
            self._parts.fleet.pace.begin()
        following = self._loop("following the shop", self._follow, self._interval_seconds)
        removing = self._loop("removing what is old", self._remove, self._interval_seconds)
        return (*self._fleet_loop(), sweep, retries, releaser, following, removing)

    def _fleet_loop(self) -> tuple[Loop, ...]:
        fleet = self._parts.fleet
        return () if fleet is None else (self._loop("the fleet", fleet.turn, HEARD_WITHIN_SECONDS),)

    def _loop(self, name: str, work: "Work", seconds: float) -> Loop:
        return Loop(name, work, interval_seconds=seconds, clock=self._clock, observers=self._observers)

    async def stop(self, *, patience_seconds: float = 8.0) -> None:
        """Stop all loops at once, letting the batches in hand finish."""
        self._parts.sweep.stopping = True
        if self._parts.observing is not None:
            self._parts.observing.stopping = True
        if self._parts.fleet is not None:
            self._parts.fleet.pace.stopping = True
        self._parts.sweep.trigger_margin = timedelta(0)
        async with asyncio.TaskGroup() as stopping:
            if self._parts.listening is not None:
                stopping.create_task(self._parts.listening.stop(patience_seconds=patience_seconds))
            for loop in self._loops:
                stopping.create_task(loop.stop(patience_seconds=patience_seconds))
        if self._parts.fleet is not None and self._parts.observing is None:
            await self._parts.fleet.leave()

    async def aclose(self) -> None:
        """Close the triggers."""
        if self._parts.listening is not None:
            await self._parts.listening.aclose()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Service"]:
        """Run while the block does."""
        self.start()
        try:
            yield self
        finally:
            await self.stop()

    async def one_pass(self, told: Told | None = None) -> Pass:
        """Try again what failed, close what is due, follow the shop, give back until nothing more is free.

        In observe mode: look at the shop, and write down what would be closed.

        Raises:
            StoreError: the store stayed away; what was done until then stays done.
        """
        async with self._in_the_fleet():
            return await self._one_pass(told)

    @asynccontextmanager
    async def _in_the_fleet(self) -> AsyncIterator[None]:
        """Keep the others' pace during a pass."""
        fleet = self._parts.fleet
        if fleet is None or self._parts.observing is not None or any(loop.running for loop in self._loops):
            yield
            return
        fleet.pace.begin()
        await fleet.look()
        hearing = self._loop("the fleet", fleet.look, HEARD_WITHIN_SECONDS)
        hearing.start()
        try:
            yield
        finally:
            await hearing.stop()

    async def _one_pass(self, told: Told | None) -> Pass:
        parts, done = self._parts, Pass()
        if parts.fleet is not None and parts.fleet.pace.paused_by is not None:
            done.paused_by = parts.fleet.pace.paused_by
            return done
        if parts.observing is not None:
            done.watched, done.removed = await parts.observing.run_once(), await parts.removing.run_once()
            return done
        done.retried = len(await parts.retrying.run_once())
        run = await parts.sweep.run_once(None if told is None else lambda n, closed: told(found=n, closed=closed))
        done.found, done.closed, done.busy = run.due_found, run.closed, parts.sweep.busy
        done.followed = await parts.following.run_once()
        done.given_back, done.still_locked = await self.give_back(told)
        done.removed = await parts.removing.run_once()
        return done

    async def give_back(self, told: Told | None = None) -> tuple[int, int]:
        """Finish holds until nothing more is free; answer how many were, and how many assets are still locked."""
        given_back = locked = 0
        for _ in range(ROUNDS_AT_MOST):
            finished, locked = await self._parts.releasing.run_once()
            given_back += finished
            if not finished:
                break
            if told is not None:
                told(holds_given_back=given_back)
        return given_back, locked

    async def retry(self) -> None:
        """Try all orders again whose pause is over, and give back what they free."""
        for _ in range(ROUNDS_AT_MOST):
            if not await self._parts.retrying.run_once():
                break
        await self.give_back()

    async def _follow(self) -> float | None:
        await self._parts.following.run_once()
        return None

    async def _remove(self) -> float | None:
        await self._parts.removing.run_once()
        return None

    async def _sweep(self) -> float | None:
        if self._parts.listening is not None:
            self._parts.sweep.trigger_margin = await self._parts.listening.margin_now()
        await self._parts.sweep.run_once()
        return min(BUSY_AGAIN_SECONDS, self._interval_seconds) if self._parts.sweep.busy else None

    async def _retry(self) -> float | None:
        return SHORT_PAUSE_SECONDS if await self._parts.retrying.run_once() else None

    async def _release(self) -> float | None:
        finished, locked = await self._parts.releasing.run_once()
        return SHORT_PAUSE_SECONDS if finished or locked else None


Work = Callable[[], Awaitable[float | None]]
