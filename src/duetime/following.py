"""Following: what becomes of holds whose order left pending by the shop's own hand.

A shop's code may pay, cancel or delete an order without telling anybody. Closing never sees such an order again, and
its holds would stay ``held`` for ever. This walk goes along all holds by their orders' numbers, a bounded number of
rows at a time, and settles those that are left behind:

=========================================  ==================================================================
what the shop's row says                   what becomes of the order's holds
=========================================  ==================================================================
pending, or a provider is being asked      nothing: closing and paying will settle them
paid, or what follows paid                 ``consumed``; asset rows stay as they are, the shop's payment owns them
closed by duetime                          given back: they were written after the close
closed by the shop, or deleted             as ``closing.foreign_close`` says: reported, given back, or forgotten
a status that ``orders.states`` omits      reported: whether that means sold or cancelled only the shop knows
=========================================  ==================================================================

Everything is decided on the locked row, and nothing is waited for: what is busy is met again on the next walk. Giving
back is left to the releaser, so that no asset's row is touched here. A hold moves once: the write names the state that
was read, and of two walkers (or a walker and a payment) one loses and leaves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from duetime.errors import BatchBlocked, StoreConflict
from duetime.event import FactType, fact
from duetime.giving import Assets, Ending, settle
from duetime.hold import Effect, HeldHold, HoldState
from duetime.identity import new_event_ids
from duetime.observer import SAMPLES_AT_MOST, Followed, Met, Observers
from duetime.order import Order, State, matched
from duetime.store import FullTransaction, Store

ROWS_AT_ONCE = 5000
"""Holds that one page reads, whatever it finds."""

PAGES_AT_ONCE = 20
"""Pages of one pass; the next pass goes on where this one ended."""

ORDERS_AT_ONCE = 500
"""Orders that are settled in one transaction."""


class ForeignClose(StrEnum):
    """What becomes of the holds of orders that the shop closed, or deleted, by itself."""

    REPORT = "report"
    RELEASE = "release"
    FORGET = "forget"


@dataclass(frozen=True, slots=True)
class FollowingOptions:
    """How to follow: ``assets`` are what orders can hold; page sizes are for tests."""

    assets: Assets
    foreign_close: ForeignClose = ForeignClose.REPORT
    rows_at_once: int = ROWS_AT_ONCE
    pages_at_once: int = PAGES_AT_ONCE


class Following:
    """Walks along the holds."""

    def __init__(self, store: Store, options: FollowingOptions, *, observers: Observers | None = None) -> None:
        """Follow the shop in ``store``."""
        self._store = store
        self._options = options
        self._observers = observers or Observers()
        self._after = ""

    async def run_once(self) -> Followed:
        """Walk on for a bounded number of pages; at the end of the holds the walk begins again.

        Raises:
            StoreError: the store stayed away; what was settled until then stays so.
        """
        followed = Followed()
        for _ in range(self._options.pages_at_once):
            async with self._store.transaction(write=False) as tx:
                page = await tx.hold_page(self._after, rows=self._options.rows_at_once)
                left = await _left_pending(tx, page.held) if page.held else []
            for at in range(0, len(left), ORDERS_AT_ONCE):
                await self._settle(left[at : at + ORDERS_AT_ONCE], followed)
            self._after = page.upto or ""
            if page.upto is None:
                break
        if followed.met or followed.blocked:
            self._observers.followed(followed)
        return followed

    async def _settle(self, order_nos: Sequence[str], followed: Followed) -> None:
        try:
            await self._write(order_nos, followed)
        except StoreConflict:
            return
        except BatchBlocked as blocked:
            followed.blocked |= blocked.blocked
            rest = [order_no for order_no in order_nos if order_no not in blocked.blocked]
            if blocked.blocked and rest:
                await self._settle(rest, followed)

    async def _write(self, order_nos: Sequence[str], followed: Followed) -> None:
        seen = Followed()
        async with self._store.transaction() as tx:
            locked = matched(order_nos, await tx.lock_orders(order_nos, pending=False))
            there = matched(order_nos, await tx.find_orders(order_nos))
            ours = await tx.closed_here([o.order_no for o in locked.values() if o.state is State.CLOSED])
            held: dict[str, list[HeldHold]] = {}
            for one in await tx.read_holds(order_nos, [HoldState.HELD]):
                held.setdefault(one.order_no, []).append(one)
            work: dict[Met, list[HeldHold]] = {}
            for order_no, holds in held.items():
                met = self._met(locked.get(order_no), ours) if order_no in there else Met.DELETED
                if met is None or (order_no in there and order_no not in locked):
                    continue
                seen.note(met, order_no)
                if met is Met.UNKNOWN:
                    seen.unknown[locked[order_no].status] += 1
                work.setdefault(met, []).extend(holds)
            for met, holds in work.items():
                if await self._end(tx, met, holds):
                    seen.settled[met] += len({one.order_no for one in holds})
        _add(followed, seen)

    def _met(self, order: Order | None, ours: set[str]) -> Met | None:
        match order.state if order is not None else State.PENDING:
            case State.PENDING | State.CLOSING:
                return None
            case State.CLOSED:
                return Met.LATE_HOLD if order is not None and order.order_no in ours else Met.CLOSED
            case None:
                return Met.UNKNOWN
            case _:
                return Met.PAID

    async def _end(self, tx: FullTransaction, met: Met, holds: list[HeldHold]) -> bool:
        now, foreign = await tx.now(), self._options.foreign_close
        if met is Met.PAID:
            await tx.move_holds(holds, HoldState.CONSUMED, now)
        elif met is Met.LATE_HOLD or (met is not Met.UNKNOWN and foreign is ForeignClose.RELEASE):
            await settle(tx, self._options.assets, holds, Ending(Effect.RELEASE, now, leave_rows=True))
            await self._ask_others(tx, holds)
        elif met is not Met.UNKNOWN and foreign is ForeignClose.FORGET:
            await tx.move_holds(holds, HoldState.RELEASED, now)
        else:
            return False
        return True

    async def _ask_others(self, tx: FullTransaction, holds: list[HeldHold]) -> None:
        """Ask the services that keep remote assets to take them back."""
        assets = self._options.assets
        remote = [one for one in holds if assets[one.hold.kind].storage == "remote"]
        facts = [
            fact(
                event_id, one.order_no, FactType.HOLD_RELEASE,
                kind=one.hold.kind, ref=one.hold.ref, quantity=one.hold.quantity,
            )
            for one, event_id in zip(remote, new_event_ids(len(remote)), strict=True)
        ]  # fmt: skip
        await tx.add_facts(facts, await tx.now())


async def _left_pending(tx: FullTransaction, order_nos: Sequence[str]) -> list[str]:
    there = matched(order_nos, await tx.find_orders(order_nos))
    still_open = {no for no, order in there.items() if order.state in {State.PENDING, State.CLOSING}}
    return [order_no for order_no in order_nos if order_no not in still_open]


def _add(followed: Followed, seen: Followed) -> None:
    followed.met += seen.met
    followed.settled += seen.settled
    followed.unknown += seen.unknown
    for met, order_nos in seen.samples.items():
        kept = followed.samples.setdefault(met, [])
        kept += order_nos[: SAMPLES_AT_MOST - len(kept)]
