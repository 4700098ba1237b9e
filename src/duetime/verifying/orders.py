"""What must hold for one order: its row, its holds, its facts, its payments, and what is noted about its failures.

Each rule is a small function that answers findings. A rule is silent where an answer would need what nobody wrote down
(a status that the config does not name, facts whose retention is over).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from duetime.order import State
from duetime.verifying.finding import Finding
from duetime.verifying.rows import Dossier, FactRow, HoldRow

OPEN_STATES = frozenset({"held", "releasing", "consuming"})
GIVEN_BACK = frozenset({"released", "releasing"})
USED_UP = frozenset({"consumed", "consuming"})
UNFINISHED = {"releasing": "given back", "consuming": "used up"}
OUR_REASONS = frozenset({"timeout", "customer", "staff", "payment_failed"})
COARSEST = timedelta(seconds=1)
"""A shop's column may hold whole seconds; what is compared with it may differ by so much."""


@dataclass(frozen=True, slots=True)
class Terms:
    """By what is judged.

    ``grace``: as in closing, where a fact does not tell its own. ``kinds``: what [[assets]] describes; ``remote``:
    those kept by other services. ``stuck_after``: how long giving back may take. ``facts_kept``, ``holds_kept``: how
    long they are kept (None: for ever). ``settles_foreign``: holds of orders that the shop closed
    are given back, or forgotten.
    """

    grace: timedelta
    kinds: frozenset[str]
    remote: frozenset[str] = frozenset()
    stuck_after: timedelta = timedelta(minutes=10)
    facts_kept: timedelta | None = None
    holds_kept: timedelta | None = None
    settles_foreign: bool = False


@dataclass(frozen=True)
class _Case:
    """One order as the rules see it."""

    dossier: Dossier
    now: datetime
    terms: Terms
    about: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "about", f"order {self.dossier.order_no}")

    @property
    def state(self) -> State | None:
        return self.dossier.order.state if self.dossier.order else None

    @property
    def status(self) -> str:
        return self.dossier.order.status if self.dossier.order else "not there"

    @property
    def is_open(self) -> bool:
        return self.state in {State.PENDING, State.CLOSING}

    @cached_property
    def closings(self) -> list[FactRow]:
        return self._facts("order.closed")

    @cached_property
    def reopened(self) -> int:
        return len(self._facts("order.reopened"))

    @property
    def closed_by_fact(self) -> bool:
        """The facts say that it was closed and not opened again."""
        return len(self.closings) > self.reopened

    def _facts(self, kind: str) -> list[FactRow]:
        return [fact for fact in self.dossier.facts if fact.type == kind]

    def holds_in(self, states: frozenset[str]) -> list[HoldRow]:
        return [hold for hold in self.dossier.holds if hold.state in states]

    def kept(self, since: datetime | None, kept: timedelta | None) -> bool:
        """Say whether rows written at ``since`` are kept still; what has no date is."""
        return kept is None or since is None or self.now - since < kept

    def finding(self, kind: str, found: str, expected: str, remedy: str) -> Finding:
        return Finding(kind, self.about, found, expected, remedy, self.dossier.order_no)


def judge_order(dossier: Dossier, now: datetime, terms: Terms) -> list[Finding]:
    """Answer everything that does not add up about one order."""
    case = _Case(dossier, now, terms)
    rules = _WITHOUT_ROW if dossier.order is None else _RULES
    return [finding for rule in rules for finding in rule(case)]


def shown(holds: Sequence[HoldRow]) -> str:
    """Name holds: the first few, and how many more."""
    named = ", ".join(f"{hold.quantity} of {hold.kind} {hold.ref} ({hold.state})" for hold in holds[:3])
    return named if len(holds) <= 3 else f"{named} and {len(holds) - 3} more"  # noqa: PLR2004 - as many as are named


def _no_such_order(case: _Case) -> Iterator[Finding]:
    """Old orders may be moved elsewhere with their holds settled; what is still held belongs to an order."""
    holds = case.holds_in(OPEN_STATES)
    if holds:
        yield case.finding(
            "hold-without-order",
            f"the shop has no such order, yet it holds {shown(holds)}",
            "a row in the order table for every order that holds something",
            "give the units back by hand and delete these rows of duetime_hold, or restore the order",
        )


def _closed_and_holding(case: _Case) -> Iterator[Finding]:
    holds = case.holds_in(frozenset({"held"}))
    if case.state is State.CLOSED and holds:
        by_us = case.closed_by_fact
        yield case.finding(
            "closed-order-holds",
            f"it is closed{'' if by_us else ' without a closing fact'}, yet it holds {shown(holds)}",
            "nothing held by a closed order",
            "`duetime run` gives it back"
            if by_us
            else "somebody else closed it: closing.foreign_close says what becomes of such holds",
        )


def _open_and_given_back(case: _Case) -> Iterator[Finding]:
    holds = case.holds_in(GIVEN_BACK | USED_UP)
    if case.is_open and not case.closed_by_fact and not case.reopened and holds:
        yield case.finding(
            "pending-order-gave-back",
            f"it is {case.status}, yet of its holds are settled: {shown(holds)}",
            "everything held by a pending order is held",
            "take the units again and set the holds to held, or close the order",
        )


def _open_though_closed(case: _Case) -> Iterator[Finding]:
    if (case.is_open or case.state is State.PAID) and case.closed_by_fact:
        settled = case.holds_in(GIVEN_BACK)
        yield case.finding(
            "closed-by-fact-only",
            f"its facts say that it was closed, its status is {case.status}"
            + (f", and it has given back {shown(settled)}" if settled else ""),
            "closed, or a fact order.reopened",
            "somebody changed the status by hand: set it back, or take the units again and tell the consumers",
        )


def _closed_twice(case: _Case) -> Iterator[Finding]:
    lives = 1 + case.reopened
    if len(case.closings) > lives:
        yield case.finding(
            "closed-twice",
            f"it has {len(case.closings)} facts order.closed and was reopened {case.reopened} times",
            "one closing fact for each life of an order",
            "tell the consumers which of them to ignore, and report it: duetime must not do this",
        )


def _closed_without_fact(case: _Case) -> Iterator[Finding]:
    if case.state is not State.CLOSED or case.closings:
        return
    order = case.dossier.order
    assert order is not None
    at = order.closed_at or order.expire_at
    evidence = _evidence(case)
    if evidence and case.kept(at, case.terms.facts_kept):
        yield case.finding(
            "close-without-fact",
            f"it was closed by duetime ({evidence}), and there is no fact order.closed",
            "one fact for each close",
            "tell the consumers by hand; see who deletes from duetime_outbox",
        )


def _evidence(case: _Case) -> str:
    order = case.dossier.order
    assert order is not None
    if order.reason in OUR_REASONS and order.source and order.closed_at:
        return f"for {order.reason}, by {order.source}"
    settled = case.holds_in(GIVEN_BACK)
    return f"it gave back {shown(settled)}" if settled and not case.terms.settles_foreign else ""


def _fact_and_holds(case: _Case) -> Iterator[Finding]:
    """What the close says that it gives back is what the rows say; later holds of a careless hand are no part of it."""
    if case.state is not State.CLOSED or not case.closings:
        return
    last = case.closings[-1]
    if not case.kept(last.created_at, case.terms.holds_kept):
        return
    told = {(one["kind"], one["ref"]): one["quantity"] for one in _released(last.payload)}
    there = {(hold.kind, hold.ref): hold.quantity for hold in case.dossier.holds}
    settled = {(hold.kind, hold.ref) for hold in case.holds_in(GIVEN_BACK) if not _later(hold, last)}
    wrong = [f"{n} of {kind} {ref}" for (kind, ref), n in told.items() if there.get((kind, ref)) != n]
    untold = [f"{n} of {kind} {ref}" for (kind, ref), n in there.items() if (kind, ref) in settled - set(told)]
    parts = []
    if wrong:
        parts.append(f"its closing fact gives back {', '.join(wrong)}, its holds do not say so")
    if untold:
        parts.append(f"its holds gave back {', '.join(untold)}, which its closing fact does not list")
    if parts:
        yield case.finding(
            "fact-and-holds-differ",
            "; ".join(parts),
            "the same list in the fact and in duetime_hold",
            "compare with the shop's own lines; tell the consumers what is true",
        )


def _released(payload: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON as somebody wrote it
    released = payload.get("released") if isinstance(payload, dict) else None
    return [one for one in released or () if isinstance(one, dict) and {"kind", "ref", "quantity"} <= one.keys()]


def _later(hold: HoldRow, fact: FactRow) -> bool:
    return hold.held_at is not None and hold.held_at > fact.created_at


def _closed_early(case: _Case) -> Iterator[Finding]:
    order = case.dossier.order
    if order is None or order.expire_at is None or case.state is not State.CLOSED or not case.closings:
        return
    payload = case.closings[-1].payload
    closed_at = _instant(payload.get("closed_at"))
    if payload.get("reason") != "timeout" or closed_at is None:
        return
    due_at = order.expire_at + _grace_of(payload, closed_at, case.terms.grace)
    if closed_at + timedelta(milliseconds=1) < due_at:
        yield case.finding(
            "closed-early",
            f"it was closed for timeout at {closed_at.isoformat()}, {due_at - closed_at} before deadline and grace",
            f"not closed before {due_at.isoformat()}",
            "see whether somebody moved the deadline after the close; if not, report it: duetime must not do this",
        )


def _grace_of(payload: Any, closed_at: datetime, grace: timedelta) -> timedelta:  # noqa: ANN401 - as above
    """Answer the grace of the time of the close, which the fact tells; the config may have changed since."""
    expire_at, lateness = _instant(payload.get("expire_at")), payload.get("lateness_ms")
    if expire_at is None or not isinstance(lateness, int):
        return grace
    return max(timedelta(0), closed_at - expire_at - timedelta(milliseconds=lateness + 1))


def _instant(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _paid_and_given_back(case: _Case) -> Iterator[Finding]:
    holds = case.holds_in(GIVEN_BACK)
    if case.state is State.PAID and not case.closed_by_fact and not case.reopened and holds:
        yield case.finding(
            "paid-order-gave-back",
            f"it is paid, yet it has given back {shown(holds)}",
            "what a paid order held is used up",
            "take the units again before they are sold twice, and set the holds to consumed",
        )


def _paid_and_holding(case: _Case) -> Iterator[Finding]:
    holds = case.holds_in(frozenset({"held"}))
    if case.state is State.PAID and holds:
        yield case.finding(
            "paid-order-holds",
            f"it is paid, yet it still holds {shown(holds)}",
            "what a paid order held is used up",
            "the sweep follows the shop's own payments: see that `duetime run` is at work",
        )


def _closed_and_used_up(case: _Case) -> Iterator[Finding]:
    holds = case.holds_in(USED_UP)
    if case.state is State.CLOSED and case.closed_by_fact and holds:
        yield case.finding(
            "closed-order-used-up",
            f"it was closed by duetime, yet what it held is used up: {shown(holds)}",
            "what a closed order held is given back",
            "see whether it was paid: then its status is wrong; else give the units back by hand",
        )


def _unfinished_for_long(case: _Case) -> Iterator[Finding]:
    holds = [hold for hold in case.holds_in(frozenset(UNFINISHED)) if hold.kind not in case.terms.remote]
    endings = [fact.created_at for fact in case.dossier.facts if fact.type in {"order.closed", "order.paid"}]
    order = case.dossier.order
    since = endings[-1] if endings else order.closed_at if order else None
    if holds and (since is None or case.now - since > case.terms.stuck_after):
        known = any(failure.stage == "release" for failure in case.dossier.failures)
        what = UNFINISHED[holds[0].state]
        yield case.finding(
            "unfinished-for-long",
            f"since {since.isoformat() if since else 'nobody knows when'} it waits for {shown(holds)}",
            f"{what} within {case.terms.stuck_after}",
            f"see `duetime quarantine list`: it says why this could not be {what}"
            if known
            else "see that `duetime run` is at work and may write to the asset's table",
        )


def _kind_not_described(case: _Case) -> Iterator[Finding]:
    unknown = [hold for hold in case.holds_in(OPEN_STATES) if hold.kind not in case.terms.kinds]
    if unknown:
        yield case.finding(
            "kind-not-described",
            f"it holds {shown(unknown)}, a kind that [[assets]] does not describe",
            f"one of {', '.join(sorted(case.terms.kinds)) or 'none'}",
            "describe the kind in [[assets]], or correct the holds",
        )


def _payments(case: _Case) -> Iterator[Finding]:
    paid = sorted(payment.payment_id for payment in case.dossier.payments if payment.resolution == "paid")
    if len(paid) > 1:
        yield case.finding(
            "paid-twice",
            f"the payments {', '.join(paid[:3])} are all recorded as what paid it",
            "one payment for one order",
            "refund all but one, and record the others as refund",
        )
    if paid and (case.is_open or (case.state is State.CLOSED and case.closed_by_fact)):
        yield case.finding(
            "payment-of-unpaid-order",
            f"payment {paid[0]} is recorded as what paid it, its status is {case.status}",
            "paid, or a status that follows it",
            "somebody changed the status by hand: set it right, or refund the money",
        )


def _settled_in_quarantine(case: _Case) -> Iterator[Finding]:
    for failure in case.dossier.failures:
        old = case.now - failure.last_failed_at > case.terms.stuck_after
        if failure.state == "resolved" or not old or not _settled(case, failure.stage):
            continue
        yield case.finding(
            "quarantine-of-settled-order",
            f"it is {case.status} and waits for nothing, yet it is {failure.state} since its {failure.stage} failed",
            "only what still fails is in quarantine",
            f"`duetime quarantine resolve {case.dossier.order_no}`",
        )


def _settled(case: _Case, stage: str) -> bool:
    if stage == "close":
        return not case.is_open
    return not case.holds_in(frozenset(UNFINISHED))


Rule = Callable[[_Case], Iterator[Finding]]
_WITHOUT_ROW: tuple[Rule, ...] = (_no_such_order, _settled_in_quarantine)
_RULES: tuple[Rule, ...] = (
    _closed_and_holding,
    _open_and_given_back,
    _open_though_closed,
    _closed_twice,
    _closed_without_fact,
    _fact_and_holds,
    _closed_early,
    _paid_and_given_back,
    _paid_and_holding,
    _closed_and_used_up,
    _unfinished_for_long,
    _kind_not_described,
    _payments,
    _settled_in_quarantine,
)
