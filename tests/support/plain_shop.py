"""A shop in another language, as far as anybody can tell: a process of its own, printed statements, no duetime.

python -m tests.support.plain_shop PLAN

It places orders at a steady rate from several connections, and pays or cancels some of them a little later; of those
with a short time-out, some are paid just around their deadline. Like any shop it tries again when the database says
that it is the victim of a deadlock. The report says what each order was answered, how long each transaction took, and
who was in each deadlock.
"""

import heapq
import itertools
import json
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from tests.support.plain_sql import PlainSql, RolledBack, connected
from tests.support.waiting import let_pass_sync

REPOSITORY = Path(__file__).resolve().parents[2]
TRIES = 20
LATEST_DEADLOCK = re.compile(r"LATEST DETECTED DEADLOCK.*?^TRANSACTIONS$", re.DOTALL | re.MULTILINE)
PAID, CANCELLED, LEFT = "pay", "cancel", "leave"


@dataclass(frozen=True)
class Plan:
    url: str
    recipes: str
    report: str
    seconds: float
    orders_per_second: float = 200
    connections: int = 6
    skus: int = 30
    short: float = 0.25
    """The part of the orders whose time-out is 2 or 3 seconds."""
    at_random: float = 0.2
    """The part of the carts that take their SKUs in any order."""
    sessions: str = r"Process (\d+) waits"
    deadlock_report: str = ""
    session_id: str = ""
    again: tuple[str, ...] = ()
    """Error codes after which a transaction is tried again."""
    seed: int = 1


@dataclass
class Report:
    answers: dict[str, str] = field(default_factory=dict)
    """What each order was answered last: placed, paid, manual, cancelled, or refused to be cancelled."""
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    deadlocks: list[list[int]] = field(default_factory=list)
    conflicts: Counter[str] = field(default_factory=Counter)
    sessions: list[int] = field(default_factory=list)
    lasted: float = 0.0

    def ms(self, name: str, percent: int) -> float:
        took = sorted(self.seconds[name])
        return round(took[min(len(took) - 1, len(took) * percent // 100)] * 1000, 1) if took else 0.0


class PlainShop:
    """The process, from outside."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        command = [sys.executable, "-m", "tests.support.plain_shop", json.dumps(asdict(self._plan))]
        self._process = subprocess.Popen(command, cwd=REPOSITORY)
        return self

    def end(self) -> Report:
        """Wait until it has done what it was to do, and read its report."""
        assert self._process is not None
        try:
            assert self._process.wait(timeout=self._plan.seconds * 3 + 30) == 0
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        read = json.loads(Path(self._plan.report).read_text())
        return Report(**{**read, "conflicts": Counter(read["conflicts"])})


class _Work:
    """What is to be done when: new orders at a steady rate, and what becomes of those that were placed."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._lock = plan, threading.Lock()
        self._number = 1
        self._ties = itertools.count()
        self._later: list[tuple[float, int, str, str]] = []
        self._started = time.monotonic()

    def next(self) -> tuple[float, str, str] | None:
        """Answer the next thing to do and when; None at the end."""
        with self._lock:
            at = self._started + self._number / self._plan.orders_per_second
            new = at - self._started <= self._plan.seconds
            if self._later and (not new or self._later[0][0] <= at):
                when, _, what, order_no = heapq.heappop(self._later)
                return when, what, order_no
            if not new:
                return None
            self._number += 1
            return at, "place", f"P{self._number:07}"

    def later(self, after_seconds: float, what: str, order_no: str) -> None:
        with self._lock:
            heapq.heappush(self._later, (time.monotonic() + after_seconds, next(self._ties), what, order_no))


class _Clerk(threading.Thread):
    """One connection."""

    def __init__(self, number: int, plan: Plan, work: _Work, report: Report) -> None:
        super().__init__(daemon=True)
        self._plan, self._work, self._report = plan, work, report
        self._chance = random.Random(f"{plan.seed} {number}")
        self._sql = PlainSql.read(Path(plan.recipes))
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._connection = connected(self._plan.url)
            self._cursor = self._connection.cursor()
            self._cursor.execute(self._plan.session_id)
            self._report.sessions.append(int(self._cursor.fetchone()[0]))
            while (todo := self._work.next()) is not None:
                when, what, order_no = todo
                let_pass_sync(max(0.0, when - time.monotonic()), because="orders come at a steady rate")
                self._report.answers[order_no] = {"place": self._place, "pay": self._pay, "cancel": self._cancel}[what](
                    order_no
                )
        except BaseException as error:  # noqa: BLE001 -- told by the main thread
            self.error = error

    def _place(self, order_no: str) -> str:
        chance = self._chance
        skus = chance.sample(range(self._plan.skus), chance.randint(1, 3))
        if chance.random() >= self._plan.at_random:
            skus.sort()
        taken = [("stock", f"sku-{n:04d}", chance.randint(1, 2)) for n in skus]
        short = chance.random() < self._plan.short
        timeout_seconds = chance.choice([2, 3]) if short else 3600
        values = {
            "order_no": order_no,
            "category": None,
            "amount": 1990,
            "currency": "CNY",
            "timeout_seconds": timeout_seconds,
            "event_id": self._event_id(),
        }
        answer = self._within("place", lambda: self._sql.place(self._cursor, values, taken))
        assert answer is None
        self._what_next(order_no, timeout_seconds, short=short)
        return "placed"

    def _what_next(self, order_no: str, timeout_seconds: float, *, short: bool) -> None:
        chance = self._chance
        if short:
            # A third is paid around its deadline; of the others nothing is heard again.
            if chance.random() < 0.34:
                self._work.later(timeout_seconds + chance.uniform(-0.4, 0.5), PAID, order_no)
            return
        what = chance.choices([PAID, CANCELLED, LEFT], [70, 25, 5])[0]
        if what != LEFT:
            self._work.later(chance.uniform(0.05, 2.0), what, order_no)

    def _pay(self, order_no: str) -> str:
        values = {
            "order_no": order_no,
            "payment_id": f"pay-{order_no}",
            "provider": "alipay",
            "amount_minor": 1990,
            "currency": "CNY",
            "event_id": self._event_id(),
        }
        resolution, repeat = self._within("pay", lambda: self._sql.pay(self._cursor, values))
        assert not repeat
        return str(resolution)

    def _cancel(self, order_no: str) -> str:
        values = {"order_no": order_no, "reason": "customer", "source": "customer", "event_id": self._event_id()}
        try:
            self._within("cancel", lambda: self._sql.cancel(self._cursor, values))
        except RolledBack:
            return "refused"
        return "cancelled"

    def _event_id(self) -> str:
        return str(UUID(int=self._chance.getrandbits(128), version=4))

    def _within(self, name: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401 -- what the transaction answers
        """Run a transaction; again, where the database says that somebody else was in the way."""
        started = time.monotonic()
        for _ in range(TRIES):
            try:
                self._cursor.execute(self._sql.opening(name))
                found = work()
                self._cursor.execute("COMMIT")
            except RolledBack:
                self._cursor.execute("ROLLBACK")
                raise
            except Exception as error:  # noqa: BLE001 -- of either driver; what is no conflict is raised again
                self._connection.rollback()
                self._refused(name, error)
            else:
                self._report.seconds[name].append(time.monotonic() - started)
                return found
        raise AssertionError(f"{name} did not succeed in {TRIES} tries")

    def _refused(self, name: str, error: Exception) -> None:
        first = error.args[0] if error.args else None
        code = str(first if isinstance(first, int) else getattr(error, "sqlstate", first))
        if code not in self._plan.again:
            raise error
        self._report.conflicts[f"{name} {code}"] += 1
        told = str(error)
        if self._plan.deadlock_report:
            self._cursor.execute(self._plan.deadlock_report)
            latest = LATEST_DEADLOCK.search(str(self._cursor.fetchone()[2]))
            told = latest.group() if latest else ""
        self._report.deadlocks.append([int(session) for session in re.findall(self._plan.sessions, told)])


def main(plan: Plan) -> Report:
    sys.setswitchinterval(0.0005)  # six connections that wait for answers, not for each other's turn
    report, work, started = Report(), _Work(plan), time.monotonic()
    clerks = [_Clerk(number, plan, work, report) for number in range(plan.connections)]
    for clerk in clerks:
        clerk.start()
    for clerk in clerks:
        clerk.join()
        if clerk.error is not None:
            raise clerk.error
    report.lasted = time.monotonic() - started
    return report


if __name__ == "__main__":
    the_plan = Plan(**{**(given := json.loads(sys.argv[1])), "again": tuple(given["again"])})
    Path(the_plan.report).write_text(json.dumps(vars(main(the_plan))))
    assert "duetime" not in sys.modules, "this shop knows duetime by its printed statements alone"
