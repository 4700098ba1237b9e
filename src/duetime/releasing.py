"""The releaser: finishes what closing and paying had to leave because somebody else had the asset's row locked.

It works on one asset at a time, in transactions of their own. Each first takes the asset's row and holds nothing while
it waits for it, so it cannot be part of a deadlock; the database hands locks out in the order in which they were asked
for, so it cannot starve on a row that is always busy, as short retries would. Then it moves some hundreds of holds and
writes the row once.

First all rows that are free are served without waiting; only then the locked ones are waited for, briefly and a few
at a time. A row that stays locked is no failure: it is tried again until the shop lets go.

What is a failure: the row is gone, is not as it must be, or a constraint forbids the write. Then the hold stays
``releasing`` (``consuming``), the order goes through the books of ``retrying`` with ``stage = release``, and the age
of the oldest unfinished hold is what operators watch.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from duetime.clock import Clock, SystemClock
from duetime.errors import StoreConflict, StoreRefused
from duetime.giving import Assets, misfit
from duetime.hold import DONE, UNFINISHED, AssetKey, HeldHold, HoldState
from duetime.observer import Observers
from duetime.retrying import WAITING, Failures
from duetime.store import FailureQuery, FullTransaction, Quarantine, Stage, Store, Transaction


class _Locked(Enum):
    """The asset's row is held by somebody else."""

    LOCKED = 0


@dataclass(frozen=True, slots=True)
class ReleasingOptions:
    """How much at once.

    ``assets``: the described assets, by kind. ``holds_at_once``: moved in one transaction. ``assets_at_once``: looked
    up in one round. ``waiting_at_once``: rows waited for at the same time, each of which takes a connection.
    """

    assets: Assets
    holds_at_once: int = 500
    assets_at_once: int = 200
    waiting_at_once: int = 2


Work = tuple[AssetKey, HoldState]


class Releasing:
    """Finishes unfinished holds."""

    def __init__(
        self,
        store: Store,
        failures: Failures,
        options: ReleasingOptions,
        *,
        clock: Clock | None = None,
        observers: Observers | None = None,
    ) -> None:
        """Work on ``store``; failures go into the books of ``failures``."""
        self._store = store
        self._failures = failures
        self._options = options
        self._clock = clock or SystemClock()
        self._observers = observers or Observers()
        self._locked = 0

    async def run_once(self) -> tuple[int, int]:
        """Finish what can be finished; answer how many holds were, and how many assets are still locked."""
        async with self._store.transaction(write=False) as tx:
            # As many more as were locked last time, so that those can never hide the ones that are free.
            limit = self._options.assets_at_once + self._locked
            work = await tx.unfinished_assets(limit=limit, now=await tx.now())
            # Read once: an order that fails on one asset in this run still gives back its others in this run.
            resting = await self._resting(tx) if work else []
        finished, locked = 0, []
        for one in work:
            done = await self._finish(one, resting, wait=False)
            if isinstance(done, _Locked):
                locked.append(one)
            else:
                finished += done
        waited = await self._finish_locked(locked, resting)
        self._locked = len(locked) - len(waited)
        return finished + sum(waited), self._locked

    async def _finish_locked(self, work: Sequence[Work], resting: list[str]) -> list[int]:
        """Wait for a few of the locked rows, others each time; what is free meanwhile is served in the next round."""
        few = random.sample(work, min(len(work), self._options.waiting_at_once))
        waits = (self._finish(one, resting, wait=True) for one in few)
        results = await asyncio.gather(*waits, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [done for done in results if isinstance(done, int)]

    async def _finish(self, work: Work, skip: list[str], *, wait: bool) -> int | _Locked:
        """Finish all holds on one asset, some hundreds at a time; one at a time where together they are refused."""
        finished, limit = 0, self._options.holds_at_once
        while True:
            try:
                done = await self._write(work, limit=limit, skip=skip, wait=wait)
            except StoreConflict:
                return finished or _Locked.LOCKED
            except _Stuck as stuck:
                if len(stuck.order_nos) > 1 and not stuck.whole_asset:
                    limit = 1
                    continue
                await self._failures.note(Stage.RELEASE, dict.fromkeys(stuck.order_nos, stuck.why))
                skip = [*skip, *stuck.order_nos]
                continue
            if isinstance(done, _Locked):
                return finished or done
            finished += done
            if done < limit:
                if finished:
                    self._observers.released(kind=work[0][0], ref=work[0][1], holds=finished)
                return finished

    async def _resting(self, tx: FullTransaction) -> list[str]:
        """Answer the orders that failed to give back before and are not to be tried yet."""
        now = await tx.now()
        query = FailureQuery(None, WAITING, Stage.RELEASE, limit=100_000)
        failures = await tx.find_failures(query)
        return [
            failure.order_no
            for failure in failures
            if failure.stage is Stage.RELEASE and (failure.state is Quarantine.QUARANTINED or failure.next_try_at > now)
        ]

    async def _write(self, work: Work, *, limit: int, skip: list[str], wait: bool) -> int | _Locked:
        holds: list[HeldHold] = []
        try:
            async with self._store.transaction() as tx:
                (kind, ref), state = work
                lock = await tx.lock_assets(kind, [ref], wait=wait)
                if ref not in lock.rows and ref not in lock.missing:
                    return _Locked.LOCKED
                holds = await tx.lock_holds((kind, ref), state, limit=limit, skip=skip)
                if not holds:
                    return 0
                order_nos = [held.order_no for held in holds]
                asset = self._options.assets[kind]
                if ref in lock.missing:
                    raise _Stuck(f"{kind} {ref} has no row in {asset.table}", order_nos, whole_asset=True)
                units = sum(held.hold.quantity for held in holds)
                problem = misfit(asset, ref, lock.rows[ref], units)
                if problem is not None:
                    raise _Stuck(problem, order_nos)
                await self._move(tx, holds, units)
        except StoreRefused as refused:
            raise _Stuck(str(refused), [held.order_no for held in holds]) from refused
        await self._resolved(holds)
        return len(holds)

    async def _move(self, tx: Transaction, holds: list[HeldHold], units: int) -> None:
        first = holds[0]
        effect = UNFINISHED[first.state]
        await tx.move_holds(holds, DONE[effect], await tx.now())
        await tx.change_assets(first.hold.kind, {first.hold.ref: units}, effect)

    async def _resolved(self, holds: list[HeldHold]) -> None:
        """Close the books on orders that had failed to give back and now have nothing left to give."""
        order_nos = [held.order_no for held in holds]
        async with self._store.transaction(write=False) as tx:
            failed = await tx.find_failures(FailureQuery(order_nos, WAITING, Stage.RELEASE))
            concerned = [failure.order_no for failure in failed]
            left = {held.order_no for held in await tx.read_holds(concerned, UNFINISHED)}
        await self._failures.resolve([order_no for order_no in concerned if order_no not in left], Stage.RELEASE)


class _Stuck(Exception):
    """These holds cannot be finished as things are."""

    def __init__(self, why: str, order_nos: list[str], *, whole_asset: bool = False) -> None:
        self.why = why
        self.order_nos = order_nos
        self.whole_asset = whole_asset
        super().__init__(why)
