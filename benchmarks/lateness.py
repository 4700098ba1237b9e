"""Lateness: orders that fall due one by one at a steady rate. How long after its deadline does each close?

Measured from outside: ``closed_at`` of the row less its deadline and the grace of five seconds, both by the database's
clock. Beside duetime with its trigger ``database`` stand duetime's sweep and the loop by hand
(``benching/baselines``), each looking once a second, on the same orders in the same run. Afterwards every order must be
closed rightly and everything given back, or nothing is printed.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benching import report
from benching.baselines import GRACE_SECONDS, baseline_for
from benching.databases import KINDS, fresh_database, plain_engine
from benching.shop import Rows, Shop
from pydantic import SecretStr

from duetime.app import Duetime
from duetime.settings import Settings, StoreSettings, SweepSettings, TriggerSettings

OURS = "trigger database"
COMPARED_WITH = "loop by hand, each second"
SKUS = 1000
BATCH = 500
STARTS_AFTER_SECONDS = 4
"""Nothing is due before the contestant has connected."""

PATIENCE_SECONDS = 60
_LATENESS = {
    "postgresql": "extract(epoch FROM closed_at - expire_at)",
    "mariadb": "timestampdiff(MICROSECOND, expire_at, closed_at) / 1000000.0",
    "sqlite": "(julianday(closed_at) - julianday(expire_at)) * 86400",
}


class WrongResult(Exception):
    """A contestant left something behind that is not right; its time means nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run, in milliseconds; ``cpu_ms`` is the closing process's for each close."""

    p50: float
    p99: float
    most: float
    least: float
    cpu_ms: float


async def run_ours(url: str, done: Callable[[], Awaitable[bool]], *, trigger: bool) -> None:
    """Let duetime close what falls due."""
    triggers = (TriggerSettings(type="database"),) if trigger else ()
    sweep = SweepSettings.model_validate({} if trigger else {"interval": "1s"})
    settings = Settings(store=StoreSettings(url=SecretStr(url)), sweep=sweep, triggers=triggers)
    async with Duetime(settings) as duetime, duetime.running():
        await _until(done)


async def run_loop(kind: str, url: str, done: Callable[[], Awaitable[bool]]) -> None:
    """Look once a second, as the loops of many shops do."""
    loop = baseline_for(kind)
    await loop.open(url)
    try:
        started = time.monotonic()
        while not await done():
            while await loop.close_batch(BATCH) == BATCH:
                pass
            await asyncio.sleep(1 - (time.monotonic() - started) % 1)
    finally:
        await loop.aclose()


async def _until(done: Callable[[], Awaitable[bool]]) -> None:
    while not await done():  # noqa: ASYNC110 -- the database is asked, which sends no event
        await asyncio.sleep(1)


async def measured(shop: Shop, rate: int, seconds: int, contestant: Callable[..., Awaitable[None]]) -> Run:
    """Fill the shop anew, let somebody close it, and read how late each order was.

    Raises:
        WrongResult: an order was not closed rightly, or closed early.
    """
    orders = rate * seconds
    await shop.empty()
    await shop.add_orders(Rows(1, orders, from_seconds=STARTS_AFTER_SECONDS - GRACE_SECONDS, spread_seconds=seconds))
    await shop.add_holds(orders, SKUS)
    ends = time.monotonic() + STARTS_AFTER_SECONDS + seconds + PATIENCE_SECONDS

    async def done() -> bool:
        if time.monotonic() > ends:
            raise WrongResult(f"not done after {PATIENCE_SECONDS} s more than it takes")
        return await shop.unfinished() == 0

    cpu = time.process_time()
    await contestant(done=done)
    cpu = time.process_time() - cpu
    problems = (await shop.outcome()).problems(orders, SKUS)
    late = sorted(await lateness(shop))
    if problems or late[0] < 0:
        raise WrongResult(f"{'; '.join(problems)}; the earliest was {late[0]} ms late")
    return Run(late[len(late) // 2], late[len(late) * 99 // 100], late[-1], late[0], cpu / orders * 1000)


async def lateness(shop: Shop) -> Sequence[float]:
    """Answer how late each order closed, in milliseconds."""
    engine = plain_engine(shop.url)
    async with engine.connect() as connection:
        rows = await connection.exec_driver_sql(f"SELECT {_LATENESS[shop.kind]} FROM orders")
        found = [(float(row[0]) - GRACE_SECONDS) * 1000 for row in rows]
    await engine.dispose()
    return found


async def measure_case(shop: Shop, rate: int, seconds: int, repeats: int) -> dict[str, Any]:
    """Measure all contestants at one rate, taking turns."""
    contestants: dict[str, Callable[..., Awaitable[None]]] = {
        OURS: partial(run_ours, shop.url, trigger=True),
        "sweep, each second": partial(run_ours, shop.url, trigger=False),
        COMPARED_WITH: partial(run_loop, shop.kind, shop.url),
    }
    runs: dict[str, list[Run]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, contestant in contestants.items():
            runs[name].append(await measured(shop, rate, seconds, contestant))
    medians = {
        name: {key: round(median(getattr(run, key) for run in found), 2) for key in asdict(found[0])}
        for name, found in runs.items()
    }
    return {
        "database": shop.kind,
        "per_second": rate,
        "seconds": seconds,
        "contestants": medians,
        "runs": {name: [asdict(run) for run in found] for name, found in runs.items()},
    }


def print_case(case: dict[str, Any]) -> None:
    """Print one case."""
    base = case["contestants"][COMPARED_WITH]
    titles = ["database", "due/s", "who", "p50 ms", "p99 ms", "most ms", "p50 ratio", "CPU ms/close"]
    rows = [
        [
            case["database"], case["per_second"], name, found["p50"], found["p99"], found["most"],
            found["p50"] / base["p50"], found["cpu_ms"],
        ]
        for name, found in case["contestants"].items()
    ]  # fmt: skip
    report.print_table(titles, rows)
    print(flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--databases", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rates", nargs="+", type=int, default=[100, 200], help="orders that fall due per second")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--small", action="store_true", help="once, on one database: proves that it runs, keeps nothing"
    )
    parser.add_argument("--results", type=Path, default=report.FOLDER, help="where the JSON goes")
    return parser.parse_args()


async def main() -> None:
    """Measure, print, keep."""
    given = arguments()
    rates, seconds, repeats, kinds = given.rates, given.seconds, given.repeats, given.databases
    if given.small:
        rates, seconds, repeats, kinds = [50], 1, 1, kinds[:1]
    machine, databases, cases = report.machine_facts(), {}, []
    report.warn_if_busy()
    for kind in kinds:
        async with fresh_database(kind) as url:
            shop = Shop(kind, url)
            await shop.create()
            databases[kind] = await report.database_facts(shop)
            for rate in rates:
                cases.append(await measure_case(shop, rate, seconds, repeats))
                print_case(cases[-1])
    if not given.small:
        content = {"machine": machine, "databases": databases, "repeats": repeats, "cases": cases}
        report.save("lateness", content, given.results)


if __name__ == "__main__":
    asyncio.run(main())
