"""The proof at the end of the demo: plain SQL on the tables, compared with what the customers were told.

Nothing of duetime is used here, so that a mistake in it cannot hide itself.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

FORGOTTEN_AFTER: Final = timedelta(seconds=5)
"""How long an order may be due before it counts as forgotten: many sweeps of the demo."""

WRONG_ONES_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Expected:
    """What the shop began with and what its customers were told."""

    stock: Mapping[str, int]
    coupons: int
    grace: timedelta
    placed: int
    paid: AbstractSet[str] = frozenset()
    cancelled: AbstractSet[str] = frozenset()
    notices: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise: whether it was kept, and the numbers that show it."""

    promise: str
    kept: bool
    shown: str


@dataclass(slots=True)
class Verdict:
    """All findings, and how late the closes were, in milliseconds."""

    findings: list[Finding] = field(default_factory=list)
    lateness_ms: list[float] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return all(finding.kept for finding in self.findings)

    def late(self, share: float) -> float | None:
        """Answer the lateness that ``share`` of all closes kept within; None where nothing was closed."""
        ordered = sorted(self.lateness_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def judge(file: Path, expected: Expected) -> Verdict:
    """Look at the tables in ``file`` from outside."""
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
        looker = _Looker(database, expected)
        return Verdict([check() for check in looker.checks()], looker.lateness_ms())


class _Looker:
    def __init__(self, database: sqlite3.Connection, expected: Expected) -> None:
        self._database = database
        self._expected = expected

    def checks(self) -> Iterator[Callable[[], Finding]]:
        yield self.nothing_lost
        yield self.told_the_truth
        yield self.never_early
        yield self.never_forgotten
        yield self.stock_adds_up
        yield self.coupons_add_up
        yield self.holds_given_back_once
        yield self.facts_written_once
        yield self.money_kept

    def nothing_lost(self) -> Finding:
        by_status = dict(self._rows("SELECT status, count(*) FROM orders GROUP BY status"))
        paid, closed, pending = (by_status.get(status, 0) for status in ("paid", "closed", "pending"))
        placed, total = self._expected.placed, sum(by_status.values())
        shown = f"{placed} placed = {paid} paid + {closed} closed + {pending} still pending"
        return Finding("no order is lost", placed == total == paid + closed + pending, shown)

    def told_the_truth(self) -> Finding:
        paid = {row[0] for row in self._rows("SELECT order_no FROM orders WHERE status = 'paid'")}
        query = "SELECT order_no FROM orders WHERE status = 'closed' AND close_reason = 'customer'"
        cancelled = {row[0] for row in self._rows(query)}
        wrong = (paid ^ self._expected.paid) | (cancelled ^ self._expected.cancelled)
        shown = f"{len(paid)} were told that they paid, {len(cancelled)} that they cancelled, and it is so"
        return _finding("one winner, and everybody was told who", sorted(wrong), shown)

    def never_early(self) -> Finding:
        closed = self._closed_by_time()
        early = [row[0] for row in closed if _instant(row[2]) < _instant(row[1]) + self._expected.grace]
        return _finding("no order closed early", early, f"{len(closed)} closed at their deadline, none before it")

    def never_forgotten(self) -> Finding:
        now = _instant(self._rows("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')")[0][0])
        pending = self._rows("SELECT order_no, expire_at FROM orders WHERE status = 'pending'")
        limit = self._expected.grace + FORGOTTEN_AFTER
        forgotten = [row[0] for row in pending if _instant(row[1]) + limit < now]
        return _finding("no order is forgotten", forgotten, f"{len(forgotten)} due and still pending")

    def stock_adds_up(self) -> Finding:
        rows = self._rows("""
            SELECT s.sku_id, s.available, s.held,
                   coalesce(sum(CASE WHEN h.state IN ('held', 'releasing', 'consuming') THEN h.quantity END), 0),
                   coalesce(sum(CASE WHEN h.state = 'consumed' THEN h.quantity END), 0)
            FROM stock s LEFT JOIN duetime_hold h ON h.kind = 'stock' AND h.ref = s.sku_id
            GROUP BY s.sku_id
        """)
        initial = self._expected.stock
        wrong = [
            f"{sku}: {available} available + {held} held + {sold} sold of {initial.get(sku)}, {open_} held by orders"
            for sku, available, held, open_, sold in rows
            if available + held + sold != initial.get(sku) or held != open_ or available < 0
        ]
        wrong += sorted(set(initial) - {row[0] for row in rows})
        available, held, sold = (sum(row[n] for row in rows) for n in (1, 2, 4))
        shown = f"{sum(initial.values())} units = {available} available + {held} held + {sold} sold, for each article"
        return _finding("stock adds up", wrong, shown)

    def coupons_add_up(self) -> Finding:
        rows = self._rows("""
            SELECT c.coupon_id, c.state,
                   count(CASE WHEN h.state IN ('held', 'releasing', 'consuming') THEN 1 END),
                   count(CASE WHEN h.state = 'consumed' THEN 1 END)
            FROM coupon c LEFT JOIN duetime_hold h ON h.kind = 'coupon' AND h.ref = c.coupon_id
            GROUP BY c.coupon_id
        """)
        right = {"locked": (1, 0), "used": (0, 1), "unused": (0, 0), "expired": (0, 0)}
        wrong = [f"{coupon}: {state}" for coupon, state, open_, used in rows if right.get(state) != (open_, used)]
        wrong += [f"{len(rows)} rows"] if len(rows) != self._expected.coupons else []
        states = Counter(row[1] for row in rows)
        parts = " + ".join(f"{states.get(state, 0)} {state}" for state in right)
        return _finding("coupons add up", wrong, f"{self._expected.coupons} coupons = {parts}")

    def holds_given_back_once(self) -> Finding:
        rows = self._rows("""
            SELECT o.order_no, o.status, h.kind, h.ref, h.quantity, h.state
            FROM duetime_hold h LEFT JOIN orders o ON o.order_no = h.order_no
        """)
        right = {"pending": "held", "paid": "consumed", "closed": "released"}
        wrong = {f"{row[0]} is {row[1]}: {row[2]} {row[3]} is {row[5]}" for row in rows if right.get(row[1]) != row[5]}
        given = Counter({(row[0], row[2], row[3]): row[4] for row in rows if row[5] == "released"})
        said: Counter[tuple[str, str, str]] = Counter()
        for order_no, payload in self._rows("SELECT order_no, payload FROM duetime_outbox WHERE type = 'order.closed'"):
            for hold in json.loads(payload)["released"]:
                said[order_no, hold["kind"], hold["ref"]] += hold["quantity"]
        wrong |= {f"{key[0]}: {key[1]} {key[2]}" for key in {*given, *said} if given[key] != said[key]}
        used = sum(row[5] == "consumed" for row in rows)
        shown = f"{len(given)} holds given back once, {used} used up once, {len(rows) - len(given) - used} held"
        return _finding("what was held is given back exactly once", sorted(wrong), shown)

    def facts_written_once(self) -> Finding:
        rows = self._rows("""
            SELECT o.order_no, o.status,
                   count(CASE WHEN f.type = 'order.placed' THEN 1 END),
                   count(CASE WHEN f.type = 'order.closed' THEN 1 END),
                   count(CASE WHEN f.type = 'order.paid' THEN 1 END)
            FROM orders o LEFT JOIN duetime_outbox f ON f.order_no = o.order_no
            GROUP BY o.order_no
        """)
        right = {"pending": (1, 0, 0), "closed": (1, 1, 0), "paid": (1, 0, 1)}
        wrong = [row[0] for row in rows if right.get(row[1]) != row[2:]]
        facts = self._rows("SELECT count(*), count(DISTINCT event_id) FROM duetime_outbox")[0]
        wrong += [] if facts[0] == facts[1] else ["event ids that occur twice"]
        return _finding("each fact is written once", wrong, f"{facts[0]} facts: placed, paid, closed and the rest")

    def money_kept(self) -> Finding:
        rows = self._rows("""
            SELECT p.payment_id, p.resolution, o.status
            FROM duetime_payment p LEFT JOIN orders o ON o.order_no = p.order_no
        """)
        wrong = [row[0] for row in rows if (row[1] == "paid") != (row[2] == "paid") or row[1] not in {"paid", "manual"}]
        wrong += [f"{len(rows)} notices"] if len(rows) != self._expected.notices else []
        paid = sum(row[1] == "paid" for row in rows)
        shown = f"{self._expected.notices} payments = {paid} paid an order + {len(rows) - paid} kept for a person"
        return _finding("no money is dropped", wrong, shown)

    def lateness_ms(self) -> list[float]:
        return [
            (_instant(closed_at) - _instant(expire_at) - self._expected.grace) / timedelta(milliseconds=1)
            for _, expire_at, closed_at in self._closed_by_time()
        ]

    def _closed_by_time(self) -> list[Any]:
        return self._rows(
            "SELECT order_no, expire_at, closed_at FROM orders WHERE status = 'closed' AND close_reason = 'timeout'"
        )

    def _rows(self, query: str) -> list[Any]:
        return self._database.execute(query).fetchall()


def _instant(stored: str) -> datetime:
    return datetime.fromisoformat(stored)


def _finding(promise: str, wrong: list[str], shown: str) -> Finding:
    if not wrong:
        return Finding(promise, kept=True, shown=shown)
    more = f" and {len(wrong) - WRONG_ONES_SHOWN} more" if len(wrong) > WRONG_ONES_SHOWN else ""
    return Finding(promise, kept=False, shown=f"broken: {'; '.join(wrong[:WRONG_ONES_SHOWN])}{more}")
