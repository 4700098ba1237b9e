"""A busy shop in a process of its own: carts of 1 to 5 of a few hot SKUs, from several connections, until SIGTERM.

python -m tests.support.cart_shop PLAN

The plan says where and how, the report what happened: when each cart was placed and how long it took, and for each
deadlock the sessions that were in it, so that a test can say whether one of them was ours.
"""

import asyncio
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from tests.support.shop_database import WORDS, ShopDatabase, Words, error_code, sku
from tests.support.worker import REPOSITORY, say

OPEN = "open"
EXIT_SECONDS_MAX = 20
LATEST_DEADLOCK = re.compile(r"LATEST DETECTED DEADLOCK.*?^TRANSACTIONS$", re.DOTALL | re.MULTILINE)

Placed = tuple[float, float]
"""When a cart was placed, by the machine's steady clock, and how many seconds that took."""


@dataclass(frozen=True)
class Plan:
    url: str
    words: str
    report: str
    in_order: bool
    lines: bool = False
    """Write order lines too, with foreign keys to SKUs and orders."""
    skus: int = 20
    connections: int = 3
    backlog: int = 0
    """With ``lines``: how many orders of the backlog the shop adds lines to now and then."""


@dataclass
class Report:
    carts: list[Placed] = field(default_factory=list)
    deadlocks: list[tuple[float, list[int]]] = field(default_factory=list)
    lock_timeouts: list[float] = field(default_factory=list)
    sessions: list[int] = field(default_factory=list)


class CartShop:
    """The process, from outside."""

    def __init__(self, shop: ShopDatabase, folder: Path, **plan: Any) -> None:  # noqa: ANN401 -- fields of Plan
        (words,) = (name for name, words in WORDS.items() if words is shop.words)
        self._words = shop.words
        self._report = folder / "carts.json"
        self._plan = Plan(url=shop.driver_url, words=words, report=str(self._report), **plan)
        self._process: subprocess.Popen[bytes] | None = None
        self.report = Report()

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.support.cart_shop", json.dumps(asdict(self._plan))]
        self._process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == OPEN.encode(), "the shop did not open"
        return self

    def close(self) -> Report:
        """End it and read its report."""
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(timeout=EXIT_SECONDS_MAX) == 0
        self.report = Report(**json.loads(self._report.read_text()))
        return self.report

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(timeout=EXIT_SECONDS_MAX)
        if self._process.stdout:
            self._process.stdout.close()


def p99_ms(carts: Sequence[Placed]) -> float:
    took = sorted(seconds for _, seconds in carts)
    return round(took[len(took) * 99 // 100] * 1000, 1) if took else 0.0


class _Customer:
    """One connection that places cart after cart."""

    def __init__(self, plan: Plan, engine: AsyncEngine, number: int, report: Report) -> None:
        self._plan, self._engine, self._number, self._report = plan, engine, number, report
        self._words: Words = WORDS[plan.words]
        self._chance = random.Random(number)

    async def shop(self, closing: asyncio.Event) -> None:
        async with self._engine.connect() as connection:
            await connection.execute(text(self._words.patience))
            self._report.sessions.append(int((await connection.execute(text(self._words.session_id))).scalar_one()))
            await connection.commit()
            carts = 0
            while not closing.is_set():
                carts += 1
                await self._try(connection, f"cart-{self._number}-{carts}")

    async def _try(self, connection: AsyncConnection, order_no: str) -> None:
        started = time.monotonic()
        try:
            await self._place(connection, order_no)
            await connection.commit()
        except DBAPIError as error:
            await connection.rollback()
            await self._refused(error)
        else:
            self._report.carts.append((started, time.monotonic() - started))

    async def _place(self, connection: AsyncConnection, order_no: str) -> None:
        skus = [sku(n) for n in self._chance.sample(range(self._plan.skus), self._chance.randint(1, 5))]
        if self._plan.in_order:
            skus.sort()
        for one in skus:
            await connection.execute(_TAKE, {"sku": one})
        expire_at: datetime = datetime.now(UTC) + timedelta(hours=1)
        bound = expire_at if self._words.zoned else expire_at.replace(tzinfo=None)
        await connection.execute(_ORDER, {"order_no": order_no, "expire_at": bound})
        await connection.execute(_HOLD, [{"order_no": order_no, "sku": one} for one in skus])
        if self._plan.lines:
            await connection.execute(_LINE, [{"order_no": order_no, "sku": one} for one in skus])
        if self._plan.backlog and self._chance.random() < 0.1:
            # A note on an old order: its foreign key reads the order's row, which may be closing at this moment.
            old = f"o{self._chance.randrange(self._plan.backlog)}"
            await connection.execute(_LINE, {"order_no": old, "sku": skus[-1]})

    async def _refused(self, error: DBAPIError) -> None:
        code = error_code(error.orig)
        if code in self._words.lock_timeout:
            self._report.lock_timeouts.append(time.monotonic())
        elif code in self._words.deadlock:
            sessions = re.findall(self._words.sessions_in_deadlock, await self._told(str(error.orig)))
            self._report.deadlocks.append((time.monotonic(), [int(session) for session in sessions]))
        else:
            raise error

    async def _told(self, words: str) -> str:
        if self._words.deadlock_report is None:
            return words
        async with self._engine.connect() as connection:
            row = (await connection.execute(text(self._words.deadlock_report))).one()
        latest = LATEST_DEADLOCK.search(str(row[2]))
        return latest.group() if latest else ""


_TAKE = text("UPDATE stock SET available = available - 1, held = held + 1 WHERE sku_id = :sku AND available > 0")
_ORDER = text("INSERT INTO orders (order_no, status, expire_at) VALUES (:order_no, 'pending', :expire_at)")
_HOLD = text("INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES (:order_no, 'stock', :sku, 1)")
_LINE = text("INSERT INTO order_line (order_no, sku_id, quantity) VALUES (:order_no, :sku, 1)")

LINES = (
    "CREATE TABLE order_line (order_no varchar(64) NOT NULL, sku_id varchar(64) NOT NULL, quantity integer NOT NULL, "
    "FOREIGN KEY (order_no) REFERENCES orders (order_no), FOREIGN KEY (sku_id) REFERENCES stock (sku_id))"
)


async def main(plan: Plan) -> Report:
    report, closing = Report(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, closing.set)
    engine = create_async_engine(plan.url, pool_size=2 * plan.connections)
    async with asyncio.TaskGroup() as customers:
        for number in range(plan.connections):
            customers.create_task(_Customer(plan, engine, number, report).shop(closing))
        say(OPEN)
    await engine.dispose()
    return report


if __name__ == "__main__":
    the_plan = Plan(**json.loads(sys.argv[1]))
    Path(the_plan.report).write_text(json.dumps(asdict(asyncio.run(main(the_plan)))))
