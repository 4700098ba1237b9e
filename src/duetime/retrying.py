"""Orders that failed: tried again with growing pauses, then put into quarantine, where people see them.

A bad order hurts only itself (G7): the sweep passes over it while it waits for its next try, so that it is neither
read into every batch nor able to hold one up. ``failures`` counts attempts; the pauses between them double.

An entry belongs to one order and stage: its close, or giving back what it held after it was closed. The latter is
tried again by the releaser; this module keeps the books of both.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from duetime.clock import Clock, SystemClock
from duetime.closing import CloseRequest, Closing
from duetime.errors import StoreConflict, StoreUnavailable
from duetime.event import Fact, FactType, fact, instant_json
from duetime.identity import new_event_id
from duetime.observer import Observers
from duetime.order import Blocked, Busy, Closed, Outcome, Reason
from duetime.pace import Pace
from duetime.patience import Patience, jittered
from duetime.store import Failure, FailureQuery, FullTransaction, Quarantine, Stage, Store

PAGE_SIZE = 500
"""Orders that are tried again at once."""

WAITING = frozenset({Quarantine.RETRYING, Quarantine.QUARANTINED})


@dataclass(frozen=True, slots=True)
class RetryingOptions:
    """When to try again, and when to stop trying.

    ``after_failures``: attempts before quarantine. ``first_pause``, ``longest_pause``: the pauses double in between.
    """

    after_failures: int = 5
    first_pause: timedelta = timedelta(seconds=1)
    longest_pause: timedelta = timedelta(minutes=1)
    page_size: int = 500


class Failures:
    """The books on what failed."""

    def __init__(
        self, store: Store, options: RetryingOptions, *, clock: Clock | None = None, observers: Observers | None = None
    ) -> None:
        """Keep the books in ``store``."""
        self._store = store
        self._options = options
        self._clock = clock or SystemClock()
        self._observers = observers or Observers()
        self.on_failure: Callable[[], None] = lambda: None

    async def note(self, stage: Stage, errors: Mapping[str, str]) -> list[Failure]:
        """Write down that these orders failed, and why; answer what became of each."""
        if not errors:
            return []
        patience = Patience(self._store, self._clock, self._observers, seconds=60.0)
        while True:
            try:
                return self._told(await self._note(stage, errors))
            except (StoreConflict, StoreUnavailable) as error:
                await patience.after(error)

    def _told(self, noted: list[Failure]) -> list[Failure]:
        for failure in noted:
            self._observers.failed(failure)
        self.on_failure()
        return noted

    async def _note(self, stage: Stage, errors: Mapping[str, str]) -> list[Failure]:
        async with self._store.transaction() as tx:
            now = await tx.now()
            known = await tx.find_failures(FailureQuery(list(errors), WAITING, stage, limit=len(errors)))
            before = {failure.order_no: failure for failure in known}
            noted = [
                self._next(stage, (no, why), before.get(no), now)
                for no, why in errors.items()
                if stage is not Stage.CLOSE or not _still_waits(before.get(no), now)
            ]
            await tx.put_failures(noted)
            fresh = [failure for failure in noted if _newly_quarantined(failure, before.get(failure.order_no))]
            # Whoever writes a fact holds the order's row where it is free. A busy row is not waited for: this fact says
            # nothing about the order's state, so its place among the others does not matter.
            await tx.lock_orders([failure.order_no for failure in fresh], pending=False)
            await tx.add_facts([_fact(failure) for failure in fresh], now)
        return noted

    def _next(self, stage: Stage, error: tuple[str, str], before: Failure | None, now: datetime) -> Failure:
        order_no, why = error
        failures = 1 if before is None else before.failures + 1
        enough = failures >= self._options.after_failures
        pause = min(self._options.first_pause * 2 ** min(failures - 1, 20), self._options.longest_pause)
        return Failure(
            order_no=order_no,
            stage=stage,
            failures=failures,
            first_failed_at=now if before is None else before.first_failed_at,
            last_failed_at=now,
            next_try_at=now + timedelta(seconds=jittered(pause.total_seconds())),
            state=Quarantine.QUARANTINED if enough else Quarantine.RETRYING,
            error=why,
        )

    async def resolve(self, order_nos: Sequence[str], stage: Stage, why: str | None = None) -> list[Failure]:
        """Close the entries of these orders: they are done with, or a person says so (and ``why``)."""
        return await self._change(order_nos, stage, lambda failure, _: replace(
            failure, state=Quarantine.RESOLVED, error=failure.error if why is None else f"{failure.error} ({why})"
        ))  # fmt: skip

    async def postpone(self, order_nos: Sequence[str], stage: Stage) -> list[Failure]:
        """Let these orders wait for the first pause again, without counting a failure: their rows were busy."""
        return await self._change(order_nos, stage, lambda failure, now: replace(
            failure, next_try_at=now + self._options.first_pause
        ))  # fmt: skip

    async def retry(self, order_nos: Sequence[str] | None, stage: Stage) -> list[Failure]:
        """Let these orders (None: all) be tried again at once, with a clean count."""
        return await self._change(order_nos, stage, lambda failure, now: replace(
            failure, state=Quarantine.RETRYING, failures=0, next_try_at=now
        ))  # fmt: skip

    async def _change(
        self, order_nos: Sequence[str] | None, stage: Stage, change: Callable[[Failure, datetime], Failure]
    ) -> list[Failure]:
        if order_nos is not None and not order_nos:
            return []
        async with self._store.transaction() as tx:
            now = await tx.now()
            limit = 100_000 if order_nos is None else 2 * len(order_nos)
            found = await tx.find_failures(FailureQuery(order_nos, WAITING, stage, limit=limit))
            changed = [change(failure, now) for failure in found]
            await tx.put_failures(changed)
        self.on_failure()
        return changed

    async def any_waiting(self, tx: FullTransaction) -> bool:
        """Say whether any order at all waits or is in quarantine: mostly none is, and no page needs to be compared."""
        return bool(await tx.find_failures(FailureQuery(None, WAITING, Stage.CLOSE, limit=1)))

    async def waiting(self, tx: FullTransaction, order_nos: Sequence[str]) -> set[str]:
        """Answer which of these orders failed to close before and are waiting, or in quarantine."""
        found = await tx.find_failures(FailureQuery(order_nos, WAITING, Stage.CLOSE, limit=len(order_nos)))
        return {failure.order_no for failure in found}


class Retrying:
    """Tries orders again whose pause is over."""

    def __init__(
        self,
        store: Store,
        closing: Closing,
        failures: Failures,
        *,
        at_once: int | None = None,
        pace: Pace | None = None,
    ) -> None:
        """Close through ``closing``, ``at_once`` batches (None: any number), and keep the books in ``failures``.

        ``pace`` is kept by all that is closed for a deadline, whoever asks.
        """
        self._store = store
        self._closing = closing
        self.failures = failures
        self._pace = pace
        self._places: AbstractAsyncContextManager[None] = (
            nullcontext() if at_once is None else asyncio.Semaphore(at_once)
        )

    async def close(self, requests: Sequence[CloseRequest]) -> list[Outcome]:
        """Close orders and write down those that are blocked at their deadline.

        Somebody who wanted an order closed at once is told that it is blocked; nobody would try that again for them.
        What the pace does not let through any more, because this worker stops, is busy: others close it.
        """
        outcomes: list[Outcome] = []
        while len(outcomes) < len(requests):
            rest = requests[len(outcomes) :]
            let = len(rest) if self._pace is None else await self._pace.room(len(rest))
            outcomes += await self._closed(rest[:let]) if let else [Busy(one.order_no) for one in rest]
        return outcomes

    async def _closed(self, requests: Sequence[CloseRequest]) -> list[Outcome]:
        async with self._places:
            outcomes = await self._closing.close(requests)
        if self._pace is not None:
            self._pace.unused(sum(not isinstance(outcome, Closed) for outcome in outcomes))
        blocked = {
            outcome.order_no: outcome.why
            for request, outcome in zip(requests, outcomes, strict=True)
            if isinstance(outcome, Blocked) and request.reason == Reason.TIMEOUT
        }
        await self.failures.note(Stage.CLOSE, blocked)
        return outcomes

    async def run_once(self) -> list[Outcome]:
        """Try the orders whose pause is over, one page of them, and settle the entries of those that are done with."""
        async with self._store.transaction(write=False) as tx:
            now = await tx.now()
            retrying = frozenset({Quarantine.RETRYING})
            due = await tx.find_failures(FailureQuery(None, retrying, Stage.CLOSE, now, PAGE_SIZE))
        if not due:
            return []
        outcomes = await self.close([CloseRequest(failure.order_no, source="retry") for failure in due])
        by_number = dict(zip((failure.order_no for failure in due), outcomes, strict=True))
        busy = [order_no for order_no, outcome in by_number.items() if isinstance(outcome, Busy)]
        done = [order_no for order_no, outcome in by_number.items() if not isinstance(outcome, Busy | Blocked)]
        await self.failures.postpone(busy, Stage.CLOSE)
        await self.failures.resolve(done, Stage.CLOSE)
        return outcomes


def _still_waits(before: Failure | None, now: datetime) -> bool:
    """Say that an order failed within the pause before its next try: several workers met it at once, and one counts."""
    return before is not None and now < before.next_try_at


def _newly_quarantined(failure: Failure, before: Failure | None) -> bool:
    was = before is not None and before.state is Quarantine.QUARANTINED
    return failure.state is Quarantine.QUARANTINED and not was


def _fact(failure: Failure) -> Fact:
    return fact(
        new_event_id(),
        failure.order_no,
        FactType.ORDER_QUARANTINED,
        stage=failure.stage.value,
        failures=failure.failures,
        error=failure.error,
        first_failed_at=instant_json(failure.first_failed_at),
        last_failed_at=instant_json(failure.last_failed_at),
    )
