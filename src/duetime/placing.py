"""Placing orders: take what they hold, store the deadline, write the fact, all in one transaction.

The rows of all assets that a list of orders wants are locked first, kind by kind and in key order, so that two lists
placed at once cannot deadlock. Whether an order gets what it wants is then decided in the list's order while the rows
are locked: an order that finds too little takes nothing, and the next one may still have it.

The deadline comes from the configured time-outs and the store's clock; what a customer's side sends along is not
accepted as a deadline. Shops that place their orders themselves write ``duetime_hold`` rows instead (``hold``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypedDict

from duetime.clock import Clock, SystemClock
from duetime.errors import InvalidInput, StoreConflict, StoreRefused, StoreUnavailable
from duetime.event import Fact, FactType, fact, holds_json, instant_from_json, instant_json
from duetime.giving import Assets
from duetime.hold import AssetKey, Effect, HeldHold, Hold, summed
from duetime.identity import new_event_id
from duetime.observer import Observers
from duetime.order import AlreadyPlaced, Blocked, Order, OutOfStock, Placed, PlaceOutcome, checked_name, matched
from duetime.patience import Patience
from duetime.shop import Asset
from duetime.store import AssetRow, NewOrder, OrderNote, Store, Transaction


@dataclass(frozen=True, slots=True)
class Placement:
    """An order to place. ``category`` chooses the time-out; ``columns`` are further columns of the shop's table.

    Raises:
        InvalidInput: the number cannot be stored, or the amount is not a whole number from zero up.
    """

    order_no: str
    holds: Sequence[Hold] = ()
    category: str | None = None
    amount_minor: int | None = None
    currency: str | None = None
    columns: Mapping[str, object] = field(default_factory=dict)
    event_id: str = field(default_factory=new_event_id, compare=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be stored."""
        checked_name(self.order_no, "an order number")
        amount = self.amount_minor
        if amount is not None and (not isinstance(amount, int) or isinstance(amount, bool) or amount < 0):
            msg = f"the amount of order {self.order_no} must be a whole number from zero up, found {amount!r}"
            raise InvalidInput(msg)


class PlacementDetails(TypedDict, total=False):
    """What ``Duetime.place`` takes beside number and holds, as in ``Placement``."""

    category: str | None
    amount_minor: int | None
    currency: str | None
    columns: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long orders may stay unpaid: ``default``, or by category."""

    default: timedelta
    category: Mapping[str, timedelta] = field(default_factory=dict)

    def of(self, category: str | None) -> tuple[timedelta, str]:
        """Answer the time-out for a category, and the policy's name that is kept with the order."""
        if category is not None and category in self.category:
            return self.category[category], f"category {category}: {self.category[category]}"
        return self.default, f"default: {self.default}"


class Placing:
    """Places orders."""

    def __init__(
        self,
        store: Store,
        assets: Assets,
        timeouts: Timeouts,
        *,
        clock: Clock | None = None,
        observers: Observers | None = None,
    ) -> None:
        """Place orders in ``store``."""
        self._store = store
        self._assets = assets
        self._timeouts = timeouts
        self._clock = clock or SystemClock()
        self._observers = observers or Observers()
        self.on_placed: Callable[[Sequence[Placed]], None] = lambda _: None
        """Called with what was placed and committed."""

    async def place(self, placements: Sequence[Placement]) -> list[PlaceOutcome]:
        """Place orders, in this order, and answer each.

        Raises:
            InvalidInput: a hold's kind is not described; nothing was written.
            StoreConflict: rows that it needs were locked by others for too long; nothing was written.
            StoreUnavailable: the store stayed away; whether the orders exist is unknown.
        """
        self._check(placements)
        patience = Patience(self._store, self._clock, self._observers, seconds=10.0)
        while True:
            try:
                outcomes = await self._write(self._store, placements)
            except StoreRefused as refused:
                if len(placements) == 1:
                    return await self._refused(self._store, placements[0], refused)
                return [outcome for one in placements for outcome in await self.place([one])]
            except (StoreConflict, StoreUnavailable) as error:
                await patience.after(error)
            else:
                self.on_placed([outcome for outcome in outcomes if isinstance(outcome, Placed)])
                return outcomes

    async def place_within(self, shop: Store, placements: Sequence[Placement]) -> list[PlaceOutcome]:
        """Place orders in a transaction that the shop has open, where ``shop`` gives savepoints for transactions.

        Nothing is tried again: after a conflict there may be no transaction left to go on with.

        Raises:
            InvalidInput: as ``place``.
            StoreConflict, StoreUnavailable: the shop's transaction is lost; run it again from its beginning.
        """
        self._check(placements)
        try:
            return await self._write(shop, placements)
        except StoreRefused as refused:
            if len(placements) == 1:
                return await self._refused(shop, placements[0], refused)
            return [outcome for one in placements for outcome in await self.place_within(shop, [one])]

    def _check(self, placements: Sequence[Placement]) -> None:
        for placement in placements:
            for hold in placement.holds:
                asset = self._assets.get(hold.kind)
                if asset is None:
                    known = ", ".join(sorted(self._assets)) or "none"
                    msg = f"order {placement.order_no} holds {hold.kind} {hold.ref}, but [[assets]] describes {known}"
                    raise InvalidInput(msg)

    async def _write(self, store: Store, placements: Sequence[Placement]) -> list[PlaceOutcome]:
        async with store.transaction() as tx:
            now = await tx.now()
            numbers = [placement.order_no for placement in placements]
            there = matched(numbers, await tx.find_orders(numbers))
            mine = await _own(tx, placements) if there else {}
            rows = await self._lock(tx, [one for one in placements if one.order_no not in there])
            taking = _Taking(self._assets, rows)
            outcomes: dict[str, PlaceOutcome] = {}
            for one in placements:
                if one.order_no in outcomes:
                    continue
                if one.order_no in there:
                    outcomes[one.order_no] = mine.get(one.order_no) or AlreadyPlaced(one.order_no)
                else:
                    outcomes[one.order_no] = self._place(taking, one, now)
            first = {one.order_no: one for one in reversed(placements)}
            new = [first[no] for no, outcome in outcomes.items() if isinstance(outcome, Placed) and no not in there]
            await self._insert(tx, new, outcomes, now)
            await taking.write(tx)
            return [_again(outcomes, placements, n) for n in range(len(placements))]

    async def _lock(self, tx: Transaction, placements: Sequence[Placement]) -> dict[AssetKey, AssetRow | None]:
        wanted = summed(hold for placement in placements for hold in placement.holds)
        rows: dict[AssetKey, AssetRow | None] = {}
        for kind in dict.fromkeys(hold.kind for hold in wanted):
            if self._assets[kind].storage != "remote":
                refs = [hold.ref for hold in wanted if hold.kind == kind]
                lock = await tx.lock_assets(kind, refs, wait=True)
                rows |= {(kind, ref): lock.rows.get(ref) for ref in refs}
        return rows

    def _place(self, taking: "_Taking", placement: Placement, now: datetime) -> PlaceOutcome:
        short = taking.take(placement)
        if short is not None:
            return short
        timeout, _ = self._timeouts.of(placement.category)
        return Placed(placement.order_no, now + timeout, placement.event_id)

    async def _insert(
        self, tx: Transaction, new: Sequence[Placement], outcomes: dict[str, PlaceOutcome], now: datetime
    ) -> None:
        if not new:
            return
        orders = [self._new_order(one, outcomes[one.order_no]) for one in new]
        await tx.insert_orders(orders)
        orders = await _as_kept(tx, orders)
        outcomes |= {
            order.order_no: Placed(order.order_no, order.expire_at, one.event_id)
            for one, order in zip(new, orders, strict=True)
        }
        await tx.insert_holds([HeldHold(one.order_no, hold) for one in new for hold in summed(one.holds)])
        await tx.put_notes([OrderNote(order.order_no, policy=order.policy) for order in orders])
        pairs = zip(new, orders, strict=True)
        await tx.add_facts([_fact(one, order) for one, order in pairs], now)

    def _new_order(self, one: Placement, outcome: PlaceOutcome) -> NewOrder:
        assert isinstance(outcome, Placed)
        _, policy = self._timeouts.of(one.category)
        return NewOrder(
            one.order_no, outcome.expire_at, policy, one.category, one.amount_minor, one.currency, one.columns
        )  # fmt: skip

    async def _refused(self, store: Store, placement: Placement, refused: StoreRefused) -> list[PlaceOutcome]:
        """Tell an order number that was taken at this very moment from a row that the shop's table does not want."""
        async with store.transaction(write=False) as tx:
            there = await tx.find_orders([placement.order_no])
            mine = await _own(tx, [placement])
        if not there:
            return [Blocked(placement.order_no, str(refused))]
        return [mine.get(placement.order_no) or AlreadyPlaced(placement.order_no)]


class _Taking:
    """What is still there while a list of orders takes from locked rows."""

    def __init__(self, assets: Assets, rows: Mapping[AssetKey, AssetRow | None]) -> None:
        self._assets = assets
        self._left = {key: _takeable(assets[key[0]], row) for key, row in rows.items()}
        self._taken: dict[str, dict[str, int]] = {}

    def take(self, placement: Placement) -> OutOfStock | None:
        """Take everything that an order wants, or nothing and say what is short."""
        wanted = [hold for hold in summed(placement.holds) if self._assets[hold.kind].storage != "remote"]
        for hold in wanted:
            left = self._left[hold.kind, hold.ref]
            if left is None or left < hold.quantity:
                return OutOfStock(placement.order_no, hold.kind, hold.ref, hold.quantity, left)
        for hold in wanted:
            self._left[hold.kind, hold.ref] = (self._left[hold.kind, hold.ref] or 0) - hold.quantity
            units = self._taken.setdefault(hold.kind, {})
            units[hold.ref] = units.get(hold.ref, 0) + hold.quantity
        return None

    async def write(self, tx: Transaction) -> None:
        for kind, units in sorted(self._taken.items()):
            await tx.change_assets(kind, units, Effect.TAKE)


def _takeable(asset: Asset, row: AssetRow | None) -> int | None:
    if row is None or asset.storage == "counter":
        return None if row is None else row.available
    return int(row.state == str(asset.free_value) and not row.expired)


def _again(outcomes: Mapping[str, PlaceOutcome], placements: Sequence[Placement], n: int) -> PlaceOutcome:
    """Answer the n-th placement; a number that stood in the list before is placed already."""
    number = placements[n].order_no
    first = next(at for at, one in enumerate(placements) if one.order_no == number)
    outcome = outcomes[number]
    return outcome if n == first or not isinstance(outcome, Placed) else AlreadyPlaced(number)


async def _own(tx: Transaction, placements: Sequence[Placement]) -> dict[str, Placed]:
    """Answer which of these were placed by an earlier try of the same call, whose answer was lost."""
    found = await tx.find_facts(event_ids=[placement.event_id for placement in placements])
    return {fact.order_no: _recalled(fact) for fact in found}


async def _as_kept(tx: Transaction, orders: Sequence[NewOrder]) -> list[NewOrder]:
    """Answer the orders with the deadlines that the shop's column keeps: rounded, or computed by the database.

    Raises:
        InvalidInput: the column keeps a number in another form, so what is written beside the row would miss it; or
            the row has no deadline.
    """
    asked = [order.order_no for order in orders]
    there = {order.order_no: order for order in await tx.find_orders(asked)}
    kept = sorted(there.keys() - set(asked))
    return [replace(order, expire_at=_deadline_kept(order.order_no, there, kept)) for order in orders]


def _deadline_kept(order_no: str, there: Mapping[str, Order], others: Sequence[str]) -> datetime:
    order = there.get(order_no)
    if order is None:
        kept = ", ".join(others) or "unknown"
        msg = f"order number {order_no!r} is kept in another form by the shop's column ({kept}); use that"
        raise InvalidInput(msg)
    if order.expire_at is None:
        msg = (
            f"order {order_no}: the database computes its deadline and found none; "
            "give the columns that it is computed from"
        )
        raise InvalidInput(msg)
    return order.expire_at


def _recalled(found: Fact) -> Placed:
    expire_at = instant_from_json(found.payload["expire_at"])
    assert expire_at is not None
    return Placed(found.order_no, expire_at, found.event_id)


def _fact(one: Placement, order: NewOrder) -> Fact:
    return fact(
        one.event_id,
        one.order_no,
        FactType.ORDER_PLACED,
        expire_at=instant_json(order.expire_at),
        policy=order.policy,
        category=order.category,
        amount_minor=order.amount_minor,
        currency=order.currency,
        holds=holds_json(summed(one.holds)),
    )
