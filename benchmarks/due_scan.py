"""Reading what is due, beside few closed orders and beside many: the cost must not depend on the table's size.

Measured as duetime does it: one page of due orders in a transaction of its own, the first page and the last one, and a
whole pass of the sweep that finds nothing due. Each size is a database of its own, filled inside the database; closed
orders and due ones lie mixed, as years of business leave them.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benching import report
from benching.databases import KINDS, fresh_database
from benching.shop import Rows, Shop
from pydantic import SecretStr

from duetime.app import Duetime
from duetime.settings import Settings, StoreSettings
from duetime.store import DueQuery, PageKey

PAGE = 500
CHUNK = 1_000_000
"""Rows in one statement: a transaction of ten million would only measure the database's undo."""

WARMING_UP = 5
MEASURES = ("first page", "last page", "idle sweep")


@dataclass(frozen=True, slots=True)
class Job:
    """What to measure: tables with these numbers of closed rows, and as many due ones as ``due``."""

    closed: tuple[int, ...]
    due: int
    repeats: int


async def measure(kind: str, closed: int, job: Job) -> dict[str, Any]:
    """Fill one database and measure in it."""
    async with fresh_database(kind) as url:
        shop = Shop(kind, url)
        await shop.create()
        await fill(shop, closed, job.due)
        async with Duetime(Settings(store=StoreSettings(url=SecretStr(url)))) as duetime:
            last = await last_page_key(duetime, job.due)
            found = {
                "first page": await timed(lambda: page(duetime, None), job.repeats),
                "last page": await timed(lambda: page(duetime, last), job.repeats),
            }
            await shop.execute("UPDATE orders SET status = 'paid' WHERE status = 'pending'")
            await shop.add_orders(Rows(closed + job.due + 1, closed + 2 * job.due, from_seconds=86_400))
            await shop.settle_down()
            found["idle sweep"] = await timed(lambda: idle(duetime), job.repeats)
        return {"database": kind, "closed": closed, "facts": await report.database_facts(shop), "millis": found}


async def fill(shop: Shop, closed: int, due: int) -> None:
    """Add closed orders of the last years and due ones of the last hour, and let the database settle down."""
    for first in range(1, closed + 1, CHUNK):
        last = min(first + CHUNK - 1, closed)
        # One page of history overlaps the due ones, so that an index on the deadline alone would meet closed rows.
        await shop.add_orders(Rows(first, last, "closed", from_seconds=-3600, spread_seconds=3000))
    await shop.add_orders(Rows(closed + 1, closed + due, from_seconds=-3600, spread_seconds=3000))
    await shop.settle_down()


async def page(duetime: Duetime, after: PageKey | None) -> int:
    """Read one page, as the sweep does."""
    async with duetime.wired.store.transaction(write=False) as tx:
        return len(await tx.due_page(DueQuery(await tx.now(), PAGE, after)))


async def last_page_key(duetime: Duetime, due: int) -> PageKey:
    """Walk to the page before the last one."""
    after: PageKey | None = None
    for _ in range(due // PAGE - 1):
        async with duetime.wired.store.transaction(write=False) as tx:
            orders = await tx.due_page(DueQuery(await tx.now(), PAGE, after))
        assert orders[-1].expire_at is not None
        after = PageKey(orders[-1].expire_at, orders[-1].id)
    assert after is not None
    return after


async def idle(duetime: Duetime) -> int:
    """Sweep once, with nothing due."""
    run = await duetime.wired.sweep.run_once()
    return run.due_found


async def timed(work: Callable[[], Awaitable[int]], repeats: int) -> dict[str, float]:
    """Answer median and 95th percentile in milliseconds, after some runs that only warm up."""
    expected = await work()
    for _ in range(WARMING_UP):
        await work()
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        found = await work()
        taken.append((time.perf_counter() - started) * 1000)
        if found != expected:
            raise RuntimeError(f"{found} orders instead of {expected}")
    return {"median": round(median(taken), 3), "p95": round(quantiles(taken, n=20)[-1], 3), "orders": expected}


def print_kind(found: list[dict[str, Any]]) -> None:
    """Print one database: each measure beside the smallest table and beside the others."""
    least = found[0]
    rows = [
        [
            one["database"], f"{one['closed']:,}", name, one["millis"][name]["median"], one["millis"][name]["p95"],
            one["millis"][name]["median"] / least["millis"][name]["median"],
        ]
        for name in MEASURES
        for one in found
    ]  # fmt: skip
    report.print_table(["database", "closed rows", "what", "median ms", "p95 ms", "against least"], rows)
    print(flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--databases", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--closed", nargs="+", type=int, default=[100_000, 10_000_000])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--small", action="store_true", help="20,000 and 200,000 rows; keeps nothing")
    parser.add_argument("--results", type=Path, default=report.FOLDER, help="where the JSON goes")
    return parser.parse_args()


async def main() -> None:
    """Measure, print, keep."""
    given = arguments()
    job = Job(tuple(given.closed), 20_000, given.repeats)
    if given.small:
        job = Job((20_000, 200_000), 2_000, 20)
    machine = report.machine_facts()
    report.warn_if_busy()
    cases = []
    for kind in given.databases:
        found = [await measure(kind, closed, job) for closed in job.closed]
        print_kind(found)
        cases += found
    if not given.small:
        content = {"machine": machine, "page": PAGE, "due": job.due, "repeats": job.repeats, "cases": cases}
        report.save("due_scan", content, given.results)


if __name__ == "__main__":
    asyncio.run(main())
