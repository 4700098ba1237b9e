"""Closing: the only code that closes orders.

The promise: an order is closed by its deadline only when the store's own clock says that deadline and grace have
passed (G1); of everybody who wants to move it exactly one wins, and the others are told who (G2); everything it held
is given back exactly once (G3); an order that cannot be closed hurts no other (G7); and nobody in the shop waits for
us (G8).

One transaction closes a whole batch: lock the orders that are due and free, read their holds (``lining``: recorded, or
in the shop's own rows), write one fact for each, move the orders, and last of all give back (``giving``). Locking is a
statement of its own: what is read after it is seen as it was committed by whoever held the row before.

What each way to fail leaves behind, and who mends it:

=====================================  ====================================  =======================================
what happens                           what is left                          who goes on
=====================================  ====================================  =======================================
killed before the commit               nothing: the database rolls back      the sweep finds the orders due again
killed after the commit                closed orders, in full                nobody needs to
killed, holds ``releasing``            closed, units owed                    the releaser of any process
frozen inside the transaction          rows locked for five seconds          the database ends the transaction
connection lost before the commit      nothing                               the same attempt, again
commit took place, answer lost         closed orders                         the same attempt finds its own fact
deadlock, serialization failure        nothing                               the same attempt, again, with jitter
one order refused by a constraint      nothing of the batch                  halving: the others close
an asset's row is missing or altered   nothing of the batch                  the named orders are *blocked*
an order line says no whole quantity   nothing of the batch                  the named orders are *blocked*
somebody else holds the order's row    that order untouched (*busy*)         whoever asked tries again shortly
=====================================  ====================================  =======================================

Not promised: that an order closes *by* some instant. That needs somebody to ask in time: triggers, and the sweep.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID, uuid5

from duetime.clock import Clock, SystemClock
from duetime.errors import BatchBlocked, StoreConflict, StoreError, StoreRefused, StoreUnavailable
from duetime.event import Fact, FactType, fact, holds_from_json, holds_json, instant_from_json, instant_json
from duetime.giving import Assets, Ending, settle
from duetime.hold import Effect, HeldHold, Hold, by_order
from duetime.identity import new_event_ids
from duetime.lining import held_by
from duetime.observer import Attempt, Observers
from duetime.order import (
    Blocked,
    Busy,
    Closed,
    CloseIt,
    ComeBackAt,
    LeaveIt,
    NotYetDue,
    Order,
    Outcome,
    Reason,
    State,
    decide,
    matched,
    why_not,
)
from duetime.patience import Patience
from duetime.store import CloseNote, OrderWrite, Store, Transaction

LOSSES_BEFORE_HALVING = 3
"""Lost connections after which a batch is suspected of causing them."""

_LEFT_OUT = (
    "the shop's own condition (orders.only) leaves this order out, so duetime does not close it; close it as the shop "
    "closes such orders, or change the condition"
)


@dataclass(frozen=True, slots=True)
class CloseRequest:
    """Close this order: because its time is up (then only if it is due), or because somebody wants it closed."""

    order_no: str
    reason: str = Reason.TIMEOUT
    source: str = "sweep"


@dataclass(frozen=True, slots=True)
class ClosingOptions:
    """How to close.

    ``grace``: time between the deadline shown and the close. ``assets``: what orders can hold, by kind.
    ``batch_size``: orders in one transaction. ``not_before``: orders with an older deadline are not closed by it.
    ``patience_seconds``: how long to wait for a store that is away.
    """

    grace: timedelta
    assets: Assets
    batch_size: int = 500
    not_before: datetime | None = None
    patience_seconds: float = 60.0

    def too_old(self, order: Order) -> bool:
        """Say whether the deadline lies before what this shop lets duetime close."""
        return self.not_before is not None and order.expire_at is not None and order.expire_at < self.not_before


@dataclass(frozen=True, slots=True)
class _Try:
    """One order on its way, under the identity that its fact will have."""

    request: CloseRequest
    event_id: str


_Tries = dict[str, _Try]
_Outcomes = dict[str, Outcome]


class Closing:
    """Closes orders, in batches."""

    def __init__(
        self, store: Store, options: ClosingOptions, *, clock: Clock | None = None, observers: Observers | None = None
    ) -> None:
        """Close orders in ``store``; ``clock`` is for waiting only, deadlines go by the store's."""
        self._store = store
        self._options = options
        self._clock = clock or SystemClock()
        self._observers = observers or Observers()
        self.asset_gate = asyncio.Lock()
        """Batches of one process pass the last step one after the other: pushing each other off the same hot rows
        would only send their holds the longer way, through the releaser."""
        self.on_unfinished: Callable[[], None] = _nothing
        """Called when holds were left to the releaser."""

    async def close(self, requests: Sequence[CloseRequest]) -> list[Outcome]:
        """Try to close orders and answer each with what was found.

        Raises:
            StoreUnavailable: the store stayed away for longer than the patience; some batches may be closed.
        """
        unique = {request.order_no: request for request in requests}
        ids = new_event_ids(len(unique))
        tries = iter(
            [(no, _Try(request, event_id)) for (no, request), event_id in zip(unique.items(), ids, strict=True)]
        )
        outcomes: _Outcomes = {}
        while batch := dict(islice(tries, self._options.batch_size)):
            outcomes |= await self._observed(batch)
            outcomes |= await self._waited_for(batch, outcomes)
        return [outcomes[request.order_no] for request in requests]

    async def _waited_for(self, batch: _Tries, outcomes: _Outcomes) -> _Outcomes:
        """Wait for rows that were busy, for people who asked, one order at a time so that nothing is held meanwhile."""
        if len(batch) == 1:
            return {}
        busy = [
            (no, one)
            for no, one in batch.items()
            if one.request.reason != Reason.TIMEOUT and isinstance(outcomes[no], Busy)
        ]
        return {no: outcome for no, one in busy for outcome in (await self._observed({no: one})).values()}

    async def _observed(self, tries: _Tries) -> _Outcomes:
        started = self._clock.monotonic()
        outcomes = await self._close(tries)
        pairs = [(tries[order_no].request.source, outcome) for order_no, outcome in outcomes.items()]
        self._observers.attempted(Attempt(pairs, self._clock.monotonic() - started))
        return outcomes

    async def _close(self, tries: _Tries) -> _Outcomes:
        patience = Patience(self._store, self._clock, self._observers, seconds=self._options.patience_seconds)
        while True:
            try:
                return await self._write(tries)
            except BatchBlocked as blocked:
                return await self._without(tries, blocked)
            except StoreRefused as refused:
                return await self._without(tries, BatchBlocked(str(refused)))
            except (StoreConflict, StoreUnavailable) as error:
                given_up = await self._after(tries, patience, error)
                if given_up is not None:
                    return given_up

    async def _after(self, tries: _Tries, patience: Patience, error: StoreError) -> _Outcomes | None:
        """Wait until the batch can be tried again (None), or answer it in another way."""
        if isinstance(error, StoreUnavailable) and patience.losses + 1 >= LOSSES_BEFORE_HALVING:
            if len(tries) > 1:
                return await self._halved(tries)
            if patience.losses >= 2 * LOSSES_BEFORE_HALVING:
                return _all_blocked(tries, f"the connection was lost each time it was tried: {error}")
        try:
            await patience.after(error)
        except StoreConflict:
            return await self._halved(tries) if len(tries) > 1 else self._conflicting(tries, error)
        return None

    def _conflicting(self, tries: _Tries, error: StoreError) -> _Outcomes:
        """Answer one order that conflicts each time: busy for a person who waits, else something stands in its way."""
        ((order_no, one),) = tries.items()
        if one.request.reason != Reason.TIMEOUT:
            return {order_no: Busy(order_no)}
        return _all_blocked(tries, f"it was in conflict each time it was tried: {error}")

    async def _without(self, tries: _Tries, blocked: BatchBlocked) -> _Outcomes:
        """Leave out the orders that are known to be blocked; where none is known, find it by halving."""
        bad = {order_no: Blocked(order_no, why) for order_no, why in blocked.blocked.items() if order_no in tries}
        if bad:
            rest = {order_no: one for order_no, one in tries.items() if order_no not in bad}
            return {**bad, **(await self._close(rest) if rest else {})}
        if len(tries) == 1:
            return _all_blocked(tries, blocked.why)
        return await self._halved(tries)

    async def _halved(self, tries: _Tries) -> _Outcomes:
        pairs = iter(tries.items())
        first = dict(islice(pairs, len(tries) // 2))
        outcomes = await self._close(first)
        return outcomes | await self._close(dict(pairs))

    async def _write(self, tries: _Tries) -> _Outcomes:
        closed: _Outcomes = {}
        async with AsyncExitStack() as until_committed, self._store.transaction() as tx:
            now = await tx.now()
            locked = await self._lock(tx, tries, now)
            if locked:
                batch = _Batch(tx, now, self._options.grace, locked)
                closed = await self._close_locked(batch, until_committed)
        rest = {order_no: one for order_no, one in tries.items() if order_no not in closed}
        return {**closed, **(await self._explain(rest) if rest else {})}

    async def _lock(self, tx: Transaction, tries: _Tries, now: datetime) -> "dict[str, tuple[_Try, Order]]":
        """Lock what may be closed now. Only an order that a person asked for is waited for, and only if it is alone."""
        asked = [no for no, one in tries.items() if one.request.reason != Reason.TIMEOUT]
        timed = [no for no, one in tries.items() if one.request.reason == Reason.TIMEOUT]
        orders = await tx.lock_orders(asked, wait=len(tries) == 1) if asked else []
        orders = [order for order in orders if not order.left_out]
        if timed:
            due = await tx.lock_orders(timed, due_by=now - self._options.grace)
            orders += [order for order in due if self._is_due(order, now)]
        found = matched(tries, orders)
        asked_first = {order.order_no: no for no, order in reversed(found.items())}
        return {no: (tries[no], found[no]) for no in asked_first.values()}

    def _is_due(self, order: Order, now: datetime) -> bool:
        return decide(order, now=now, grace=self._options.grace) == CloseIt() and not self._options.too_old(order)

    async def _close_locked(self, batch: "_Batch", until_committed: AsyncExitStack) -> _Outcomes:
        tx = batch.tx
        found = await held_by(tx, self._options.assets, [order for _, order in batch.locked.values()])
        if found.blocked:
            raise batch.blocked(BatchBlocked(next(iter(found.blocked.values())), found.blocked))
        holds = found.holds
        outcomes = batch.outcomes(by_order(holds))
        await tx.add_facts(batch.facts(outcomes, self._remote(holds)), batch.now)
        await tx.write_if_pending(batch.writes())
        if holds:
            await until_committed.enter_async_context(self.asset_gate)
            later = await self._give_back(batch, holds)
            if later:
                until_committed.callback(self.on_unfinished)
        return {**outcomes}

    async def _give_back(self, batch: "_Batch", holds: list[HeldHold]) -> list[HeldHold]:
        try:
            return await settle(batch.tx, self._options.assets, holds, Ending(Effect.RELEASE, batch.now))
        except BatchBlocked as blocked:
            raise batch.blocked(blocked) from None

    def _remote(self, holds: list[HeldHold]) -> dict[str, list[Hold]]:
        assets = self._options.assets
        remote = [held for held in holds if held.hold.kind in assets and assets[held.hold.kind].storage == "remote"]
        return by_order(remote)

    async def _explain(self, tries: _Tries) -> _Outcomes:
        """Read back what was not touched, and say why; first of all whether it was this attempt that had done it."""
        async with self._store.transaction(write=False) as tx:
            now = await tx.now()
            ids = [one.event_id for one in tries.values()]
            mine = {found.event_id: found for found in await tx.find_facts(event_ids=ids)}
            orders = matched(tries, await tx.find_orders(list(tries)))
        outcomes: _Outcomes = {}
        for order_no, one in tries.items():
            done = mine.get(one.event_id)
            outcomes[order_no] = _recalled(done) if done else self._reason(order_no, orders.get(order_no), one, now)
        return outcomes

    def _reason(self, order_no: str, order: Order | None, one: _Try, now: datetime) -> Outcome:
        found = why_not(order, order_no)
        if found is not None or order is None:
            return found or Busy(order_no)
        if one.request.reason != Reason.TIMEOUT:
            return Blocked(order.order_no, _LEFT_OUT) if order.left_out else Busy(order.order_no)
        if self._options.too_old(order) and not order.left_out:
            return Blocked(order.order_no, f"its deadline lies before closing.not_before ({self._options.not_before})")
        match decide(order, now=now, grace=self._options.grace):
            case ComeBackAt(at):
                return NotYetDue(order.order_no, at)
            # What the shop keeps from duetime is never due to a clock: blocked, it would end in quarantine as if
            # something were wrong with it.
            case LeaveIt() | CloseIt() if order.left_out or order.expire_at is None:
                return NotYetDue(order.order_no, None)
            case LeaveIt() | CloseIt():
                return Busy(order.order_no)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Orders that are locked in one transaction, about to be closed at ``now``."""

    tx: Transaction
    now: datetime
    grace: timedelta
    locked: dict[str, tuple[_Try, Order]]

    def outcomes(self, held: dict[str, list[Hold]]) -> dict[str, Closed]:
        return {
            asked_as: Closed(
                order_no=order.order_no,
                reason=str(one.request.reason),
                source=one.request.source,
                expire_at=order.expire_at,
                closed_at=self.now,
                lateness_ms=self._lateness_ms(one, order),
                released=tuple(sorted(held.get(order.order_no, ()))),
                event_id=one.event_id,
            )
            for asked_as, (one, order) in self.locked.items()
        }

    def blocked(self, by_row: BatchBlocked) -> BatchBlocked:
        """Name the orders as they were asked for."""
        asked_as = {order.order_no: no for no, (_, order) in self.locked.items()}
        return BatchBlocked(by_row.why, {asked_as[no]: why for no, why in by_row.blocked.items()})

    def _lateness_ms(self, one: _Try, order: Order) -> int | None:
        if order.expire_at is None or one.request.reason != Reason.TIMEOUT:
            return None
        return (self.now - order.expire_at - self.grace) // timedelta(milliseconds=1)

    def facts(self, outcomes: dict[str, Closed], remote: dict[str, list[Hold]]) -> list[Fact]:
        closed_at = instant_json(self.now)
        facts = [
            fact(
                closed.event_id,
                closed.order_no,
                FactType.ORDER_CLOSED,
                reason=closed.reason,
                source=closed.source,
                expire_at=instant_json(closed.expire_at),
                closed_at=closed_at,
                lateness_ms=closed.lateness_ms,
                released=holds_json(closed.released),
            )
            for closed in outcomes.values()
        ]
        for closed in outcomes.values():
            facts += [_release_fact(closed, hold) for hold in remote.get(closed.order_no, ())]
        return facts

    def writes(self) -> list[OrderWrite]:
        due_by = self.now - self.grace
        return [
            OrderWrite(
                order,
                State.CLOSED,
                due_by=due_by if one.request.reason == Reason.TIMEOUT else None,
                close=CloseNote(self.now, str(one.request.reason), one.request.source),
            )
            for one, order in self.locked.values()
        ]


def _release_fact(closed: Closed, hold: Hold) -> Fact:
    # The same hold of the same close has the same identity, however often the attempt is repeated.
    event_id = str(uuid5(UUID(closed.event_id), f"{hold.kind}\n{hold.ref}"))
    return fact(
        event_id, closed.order_no, FactType.HOLD_RELEASE, kind=hold.kind, ref=hold.ref, quantity=hold.quantity
    )  # fmt: skip


def _recalled(found: Fact) -> Closed:
    payload = found.payload
    closed_at = instant_from_json(payload["closed_at"])
    assert closed_at is not None
    lateness = payload["lateness_ms"]
    return Closed(
        order_no=found.order_no,
        reason=str(payload["reason"]),
        source=str(payload["source"]),
        expire_at=instant_from_json(payload["expire_at"]),
        closed_at=closed_at,
        lateness_ms=lateness if isinstance(lateness, int) else None,
        released=holds_from_json(payload["released"]),
        event_id=found.event_id,
    )


def _all_blocked(tries: _Tries, why: str) -> _Outcomes:
    return {order_no: Blocked(order_no, why) for order_no in tries}


def _nothing() -> None:
    """Stand in for a callback that nobody set."""
