"""Paying: the same guarded write as closing, with the money written down first.

A notice is recorded under its payment id in the transaction that answers it; the same notice again gets the same
answer. Money that does not fit is never dropped and never overwrites what is there: a closed order, an order that was
paid before, another amount or currency, a number that nobody knows: each is recorded as ``manual`` and answered with
``NeedsReview``, which says what it met (G5).

Paying uses up what the order held: a counter's ``held`` goes down, a coupon becomes ``used``. A stock row that is
missing or locked is no reason to refuse money: such holds become ``consuming`` and the releaser follows. Nor is an
order line that says nothing clear (``lining``): the order is paid, and named in quarantine with what is left to do.
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime

from duetime.clock import Clock, SystemClock
from duetime.closing import Closing
from duetime.errors import InvalidInput, StoreConflict, StoreRefused, StoreUnavailable
from duetime.event import Fact, FactType, fact, instant_json
from duetime.giving import Assets, Ending, settle
from duetime.hold import Effect
from duetime.identity import new_event_id
from duetime.lining import held_by
from duetime.observer import Observers
from duetime.order import (
    AlreadyClosed,
    AlreadyPaid,
    Busy,
    NeedsReview,
    Order,
    Paid,
    PayOutcome,
    State,
    UnknownOrder,
    checked_name,
    matched,
    why_not,
)
from duetime.patience import Patience
from duetime.store import Failure, FullTransaction, OrderWrite, Payment, Quarantine, Stage, Store, Transaction

PAID, MANUAL = "paid", "manual"

PATIENCE_SECONDS = 10.0
"""How long a caller waits for a store that is away; providers send a notice again that was not answered."""


@dataclass(frozen=True, slots=True)
class PaymentNotice:
    """One notice of a payment provider: ``amount_minor`` in the currency's smallest unit (cents, fen).

    Raises:
        InvalidInput: an amount that is not a whole number from zero up, or a name that cannot be stored.
    """

    order_no: str
    payment_id: str
    amount_minor: int
    currency: str
    provider: str = ""
    event_id: str = field(default_factory=new_event_id, compare=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be written down."""
        checked_name(self.order_no, "the order number of a payment")
        checked_name(self.payment_id, "a payment id")
        checked_name(self.currency, f"the currency of payment {self.payment_id}")
        if self.provider:
            checked_name(self.provider, f"the provider of payment {self.payment_id}")
        amount = self.amount_minor
        if not isinstance(amount, int) or isinstance(amount, bool) or not 0 <= amount < 2**63:
            msg = f"the amount of payment {self.payment_id} must be a whole number from zero up, found {amount!r}"
            raise InvalidInput(msg)
        if len(self.currency) > 8 or not self.currency.isascii():  # noqa: PLR2004 - the column's length
            msg = f"the currency of payment {self.payment_id} must be a code such as CNY, found {self.currency!r}"
            raise InvalidInput(msg)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What is to become of one notice, judged while its order is locked."""

    notice: PaymentNotice
    order: Order | None
    why: str | None
    found: AlreadyClosed | AlreadyPaid | UnknownOrder | None = None


class Paying:
    """Takes payment notices."""

    def __init__(
        self,
        store: Store,
        assets: Assets,
        closing: Closing,
        *,
        clock: Clock | None = None,
        observers: Observers | None = None,
    ) -> None:
        """Work beside ``closing``, whose gate keeps one process from pushing itself off the same hot rows."""
        self._store = store
        self._assets = assets
        self._gate = closing.asset_gate
        self._clock = clock or SystemClock()
        self._observers = observers or Observers()
        self.on_unfinished: Callable[[], None] = lambda: None

    async def pay(self, notices: Sequence[PaymentNotice]) -> list[PayOutcome]:
        """Take notices, in this order, and answer each.

        Raises:
            StoreUnavailable: the store stayed away; whether the money was recorded is unknown, send the notice again.
        """
        outcomes: list[PayOutcome] = []
        for batch in _apart(notices):
            outcomes += await self._pay(batch)
        return outcomes

    async def _pay(self, notices: Sequence[PaymentNotice]) -> list[PayOutcome]:
        patience = Patience(self._store, self._clock, self._observers, seconds=PATIENCE_SECONDS)
        leave_rows = False
        while True:
            try:
                return await self._write(notices, leave_rows=leave_rows)
            except StoreRefused as refused:
                if len(notices) > 1:
                    return await self._one_by_one(notices)
                if leave_rows:
                    return await self._kept_for_a_person(notices[0], refused)
                leave_rows = True
            except StoreUnavailable as error:
                await patience.after(error)
            except StoreConflict as error:
                # A list waits for nothing: it would hold the rows that it has. One order alone is waited for.
                if len(notices) > 1:
                    return await self._one_by_one(notices)
                try:
                    await patience.after(error)
                except StoreConflict:
                    return [Busy(notice.order_no) for notice in notices]

    async def _one_by_one(self, notices: Sequence[PaymentNotice]) -> list[PayOutcome]:
        return [outcome for notice in notices for outcome in await self._pay([notice])]

    async def _kept_for_a_person(self, notice: PaymentNotice, refused: StoreRefused) -> list[PayOutcome]:
        """Write money down that the shop's own table does not let an order take."""
        verdict = _Verdict(notice, None, f"the order cannot be marked as paid: {refused}")
        async with self._store.transaction() as tx:
            now = await tx.now()
            before = await tx.record_payments([_payment(verdict, now)])
            if not before:
                await tx.add_facts([_fact(verdict, now)], now)
        return [_answer(verdict, before, set())]

    async def _write(self, notices: Sequence[PaymentNotice], *, leave_rows: bool) -> list[PayOutcome]:
        async with AsyncExitStack() as until_committed, self._store.transaction() as tx:
            now = await tx.now()
            numbers = [notice.order_no for notice in notices]
            locked = matched(numbers, await tx.lock_orders(numbers, pending=False, wait=len(numbers) == 1))
            if len(locked) < len(numbers) > 1:
                raise StoreConflict("somebody else holds one of the orders' rows, or there is no such order")
            verdicts = [await self._judge(tx, notice, locked.get(notice.order_no)) for notice in notices]
            before = await tx.record_payments([_payment(verdict, now) for verdict in verdicts])
            new = [verdict for verdict in verdicts if verdict.notice.payment_id not in before]
            ids = [verdict.notice.event_id for verdict in verdicts if verdict.notice.payment_id in before]
            mine = {found.event_id for found in await tx.find_facts(event_ids=ids)}
            await tx.add_facts([_fact(verdict, now) for verdict in new], now)
            paid = [verdict.order for verdict in new if verdict.why is None and verdict.order is not None]
            if paid:
                await tx.write_if_pending([OrderWrite(order, State.PAID) for order in paid])
                if not leave_rows:
                    await until_committed.enter_async_context(self._gate)
                if await self._consume(tx, paid, Ending(Effect.CONSUME, now, leave_rows=leave_rows)):
                    until_committed.callback(self.on_unfinished)
            return [_answer(verdict, before, mine) for verdict in verdicts]

    async def _judge(self, tx: Transaction, notice: PaymentNotice, order: Order | None) -> _Verdict:
        found = why_not(order, notice.order_no)
        if order is not None and isinstance(found, AlreadyClosed):
            found = why_not((await tx.find_orders([order.order_no]))[0], notice.order_no)
        if isinstance(found, UnknownOrder):
            return _Verdict(notice, None, f"there is no order {notice.order_no}", found)
        if isinstance(found, AlreadyClosed):
            return _Verdict(notice, order, f"the order was closed before ({found.reason or 'by the shop'})", found)
        if isinstance(found, AlreadyPaid):
            return _Verdict(notice, order, f"the order was {found.status} before", found)
        return _Verdict(notice, order, _mismatch(notice, order))

    async def _consume(self, tx: FullTransaction, orders: list[Order], ending: Ending) -> bool:
        found = await held_by(tx, self._assets, orders)
        await tx.put_failures([_unreadable(no, why, ending.at) for no, why in found.blocked.items()])
        return bool(await settle(tx, self._assets, found.holds, ending))


def _apart(notices: Sequence[PaymentNotice]) -> list[list[PaymentNotice]]:
    """Cut a list so that no order and no payment id occurs twice in a piece: the second must see the first's work."""
    pieces: list[list[PaymentNotice]] = [[]]
    seen: set[tuple[str, str]] = set()
    for notice in notices:
        names = {("order", notice.order_no.casefold()), ("payment", notice.payment_id)}
        if names & seen:
            pieces.append([])
            seen = set()
        seen |= names
        pieces[-1].append(notice)
    return [piece for piece in pieces if piece]


def _mismatch(notice: PaymentNotice, order: Order | None) -> str | None:
    if order is None:
        return None
    if order.amount_minor is not None and order.amount_minor != notice.amount_minor:
        return f"the order is over {order.amount_minor}, the payment over {notice.amount_minor} (smallest units)"
    if order.currency is not None and order.currency.upper() != notice.currency.upper():
        return f"the order is in {order.currency}, the payment in {notice.currency}"
    return None


def _payment(verdict: _Verdict, now: datetime) -> Payment:
    notice = verdict.notice
    return Payment(
        notice.payment_id,
        verdict.order.order_no if verdict.order else notice.order_no,
        notice.provider,
        notice.amount_minor,
        notice.currency,
        now,
        PAID if verdict.why is None else MANUAL,
    )


def _fact(verdict: _Verdict, now: datetime) -> Fact:
    notice = verdict.notice
    order_no = verdict.order.order_no if verdict.order else notice.order_no
    kind = FactType.ORDER_PAID if verdict.why is None else FactType.PAYMENT_LATE
    more = {} if verdict.why is None else {"resolution": MANUAL, "why": verdict.why}
    return fact(
        notice.event_id,
        order_no,
        kind,
        payment_id=notice.payment_id,
        provider=notice.provider,
        amount_minor=notice.amount_minor,
        currency=notice.currency,
        received_at=instant_json(now),
        **more,
    )


def _unreadable(order_no: str, why: str, at: datetime) -> Failure:
    """Put a paid order whose rows do not say clearly what it held in front of a person."""
    return Failure(order_no, Stage.RELEASE, 1, at, at, at, Quarantine.QUARANTINED, f"paid, but not used up: {why}")


def _answer(verdict: _Verdict, before: dict[str, Payment], mine: set[str]) -> PayOutcome:
    notice = verdict.notice
    first = before.get(notice.payment_id)
    order_no = verdict.order.order_no if verdict.order else notice.order_no
    if first is None:
        if verdict.why is None:
            return Paid(order_no, notice.payment_id)
        return NeedsReview(order_no, notice.payment_id, verdict.why, verdict.found)
    repeat = notice.event_id not in mine
    if first.order_no != order_no:
        why = f"payment {notice.payment_id} was recorded before, for order {first.order_no}"
        return NeedsReview(order_no, notice.payment_id, why, repeat=repeat)
    if first.resolution == PAID:
        return Paid(order_no, notice.payment_id, repeat=repeat)
    return NeedsReview(order_no, notice.payment_id, verdict.why or "recorded for a person", verdict.found, repeat)
