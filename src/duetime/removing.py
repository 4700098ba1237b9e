"""Removing: duetime's own rows that nobody needs any more, in small pages and short transactions.

What goes: holds that were released or consumed, of orders that are no longer pending; facts that every consumer has;
sweep runs, except the newest (it says that this shop was swept before); orders that observe mode wrote down. What
stays: whatever is still owed to anybody, and everything while ``retention`` says *forever*.

A hold that was given back is also the proof that it was. When its row is gone and somebody sets the closed order back
to pending by hand, holds read from the shop's order lines would be read again: keep holds for longer than anybody
brings orders back.
"""

from dataclasses import dataclass
from datetime import timedelta

from duetime.order import State
from duetime.store import Store


@dataclass(frozen=True, slots=True)
class Removed:
    """What one pass removed."""

    holds: int = 0
    facts: int = 0
    sweep_runs: int = 0
    observed: int = 0


@dataclass(frozen=True, slots=True)
class RemovingOptions:
    """For how long to keep what (None: for ever), and how many rows a page reads, and pages a pass."""

    facts: timedelta | None
    holds: timedelta | None
    sweep_runs: timedelta | None
    observed: timedelta | None = None
    rows_at_once: int = 1000
    pages_at_once: int = 20


class Removing:
    """Removes what is old."""

    def __init__(self, store: Store, options: RemovingOptions) -> None:
        """Remove from ``store``."""
        self._store = store
        self._options = options
        self._after_hold = ""
        self._after_fact = 0

    async def run_once(self) -> Removed:
        """Remove a bounded number of old rows; the next pass goes on where this one ended.

        Raises:
            StoreError: the store stayed away; what was removed stays removed.
        """
        return Removed(await self._holds(), await self._facts(), await self._sweep_runs(), await self._observed())

    async def _holds(self) -> int:
        options, removed = self._options, 0
        for _ in range(options.pages_at_once if options.holds is not None else 0):
            async with self._store.transaction() as tx:
                before = await tx.now() - (options.holds or timedelta())
                page = await tx.hold_page(self._after_hold, rows=options.rows_at_once, finished_before=before)
                if page.finished:
                    open_states = {State.PENDING, State.CLOSING}
                    orders = await tx.find_orders(page.finished)
                    kept = {order.order_no for order in orders if order.state in open_states}
                    gone = [order_no for order_no in page.finished if order_no not in kept]
                    removed += await tx.remove_holds(gone, finished_before=before)
            self._after_hold = page.upto or ""
            if page.upto is None:
                break
        return removed

    async def _facts(self) -> int:
        options, removed = self._options, 0
        for _ in range(options.pages_at_once if options.facts is not None else 0):
            async with self._store.transaction() as tx:
                before = await tx.now() - (options.facts or timedelta())
                gone, onwards = await tx.remove_facts(
                    before=before, after_seq=self._after_fact, limit=options.rows_at_once
                )
            removed += gone
            self._after_fact = onwards or 0
            if onwards is None:
                break
        return removed

    async def _sweep_runs(self) -> int:
        options, removed = self._options, 0
        for _ in range(options.pages_at_once if options.sweep_runs is not None else 0):
            async with self._store.transaction() as tx:
                before = await tx.now() - (options.sweep_runs or timedelta())
                gone = await tx.remove_sweep_runs(before=before, limit=options.rows_at_once)
            removed += gone
            if gone < options.rows_at_once:
                break
        return removed

    async def _observed(self) -> int:
        options, removed = self._options, 0
        for _ in range(options.pages_at_once if options.observed is not None else 0):
            async with self._store.transaction() as tx:
                before = await tx.now() - (options.observed or timedelta())
                gone = await tx.remove_observed(before=before, limit=options.rows_at_once)
            removed += gone
            if gone < options.rows_at_once:
                break
        return removed
