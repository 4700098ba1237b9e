"""A burst: many orders of two holds, all due within one second. How fast are they closed, against a loop by hand?

duetime is measured as a shop runs it: ``Duetime`` with its default settings, one pass of its sweep, then its releaser
until no hold is left ``releasing``. ``ours`` sweeps without the pause between pages, which exists to spare the shop;
``ours, defaults`` has every default, that pause too. The baselines are in ``benching/baselines``.

Every repeat fills the shop anew, inside the database; afterwards it must be right or nothing is printed: every order
closed with reason, source and time, every hold released, every unit back, one fact for each order.
"""

import argparse
import asyncio
import cProfile
import pstats
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benching import report
from benching.baselines import baseline_for
from benching.databases import KINDS, fresh_database
from benching.shop import Outcome, Rows, Shop
from pydantic import SecretStr

from duetime.app import Duetime
from duetime.settings import Settings, StoreSettings, SweepSettings

OURS, OURS_DEFAULTS = "ours", "ours, defaults"
BASELINES = {"loop by hand, 500": 500, "loop by hand, 1000": 1000}
COMPARED_WITH = "loop by hand, 500"
"""The loop whose batches are as large as duetime's are by default."""

PAYLOAD_TOLERANCE = 0.1
PROFILE_LINES = 30


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Job:
    """What to measure."""

    orders: int
    repeats: int
    skus: tuple[int, ...]
    profile: bool = False


class WrongResult(Exception):
    """A contestant left something behind that is not right; its time means nothing."""


async def run_ours(url: str, *, pause: bool, profile: bool = False) -> Run:
    """Let duetime close everything that is due."""
    sweep = {} if pause else {"pause": "0s"}
    settings = Settings(store=StoreSettings(url=SecretStr(url)), sweep=SweepSettings.model_validate(sweep))
    async with Duetime(settings) as duetime:

        async def work() -> None:
            await duetime.wired.sweep.run_once()
            while any(await duetime.wired.releasing.run_once()):
                pass

        return await _profiled(work) if profile else await _measured(work)


async def run_baseline(kind: str, url: str, batch_size: int) -> Run:
    """Let the loop by hand close everything that is due."""
    loop = baseline_for(kind)
    await loop.open(url)

    async def work() -> None:
        while await loop.close_batch(batch_size):
            pass

    try:
        return await _measured(work)
    finally:
        await loop.aclose()


async def _measured(work: Callable[[], Awaitable[None]]) -> Run:
    started, cpu = time.perf_counter(), time.process_time()
    await work()
    return Run(time.perf_counter() - started, time.process_time() - cpu)


async def _profiled(work: Callable[[], Awaitable[None]]) -> Run:
    profile = cProfile.Profile()
    profile.enable()
    run = await _measured(work)
    profile.disable()
    pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(PROFILE_LINES)
    return run


async def measure_case(shop: Shop, job: Job, skus: int) -> dict[str, Any]:
    """Measure all contestants on one case, taking turns."""
    contestants: dict[str, Callable[[], Awaitable[Run]]] = {
        OURS: lambda: run_ours(shop.url, pause=False, profile=job.profile),
        OURS_DEFAULTS: lambda: run_ours(shop.url, pause=True),
        **{name: partial(run_baseline, shop.kind, shop.url, size) for name, size in BASELINES.items()},
    }
    if job.profile:
        contestants = {OURS: contestants[OURS]}
    runs: dict[str, list[Run]] = {name: [] for name in contestants}
    payloads: dict[str, float] = {}
    for repeat in range(job.repeats):
        names = list(contestants)
        for name in names[repeat % len(names) :] + names[: repeat % len(names)]:
            await fill(shop, job.orders, skus)
            runs[name].append(await contestants[name]())
            payloads[name] = checked(name, await shop.outcome(), job.orders, skus).payload_characters
    compare_payloads(payloads)
    return {
        "database": shop.kind,
        "orders": job.orders,
        "skus": skus,
        "payload_characters": payloads,
        "contestants": {name: summary(found, job.orders) for name, found in runs.items()},
        "runs": {name: [asdict(run) for run in found] for name, found in runs.items()},
    }


async def fill(shop: Shop, orders: int, skus: int) -> None:
    """Make the shop as it is before each run."""
    await shop.empty()
    await shop.add_orders(Rows(1, orders))
    await shop.add_holds(orders, skus)
    await shop.settle_down()


def checked(name: str, outcome: Outcome, orders: int, skus: int) -> Outcome:
    """Answer the outcome if it is right.

    Raises:
        WrongResult: it is not.
    """
    problems = outcome.problems(orders, skus)
    if problems:
        raise WrongResult(f"{name}: {'; '.join(problems)}")
    return outcome


def compare_payloads(payloads: dict[str, float]) -> None:
    """Insist that all write facts of the same size.

    Raises:
        WrongResult: one writes much less or much more than another.
    """
    least, most = min(payloads.values()), max(payloads.values())
    if most > least * (1 + PAYLOAD_TOLERANCE):
        raise WrongResult(f"facts differ in size: {payloads}")


def summary(runs: list[Run], orders: int) -> dict[str, float]:
    """Answer the medians of some runs."""
    seconds, cpu = median(run.seconds for run in runs), median(run.cpu_seconds for run in runs)
    return {
        "closes_per_second": round(orders / seconds, 1),
        "micros_per_order": round(seconds / orders * 1e6, 2),
        "cpu_micros_per_close": round(cpu / orders * 1e6, 2),
    }


def print_case(case: dict[str, Any]) -> None:
    """Print one case."""
    base = case["contestants"].get(COMPARED_WITH, {}).get("closes_per_second")
    titles = ["database", "orders", "SKUs", "who", "closes/s", "against 500", "us/order", "CPU us/close"]
    rows = [
        [
            case["database"], case["orders"], case["skus"], name, found["closes_per_second"],
            found["closes_per_second"] / base if base else "", found["micros_per_order"],
            found["cpu_micros_per_close"],
        ]
        for name, found in case["contestants"].items()
    ]  # fmt: skip
    report.print_table(titles, rows)
    print(flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--databases", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--orders", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--skus", nargs="+", type=int, default=[1000, 10])
    parser.add_argument("--small", action="store_true", help="once, on little data: proves that it runs, keeps nothing")
    parser.add_argument("--profile", action="store_true", help="run duetime alone, under cProfile; keeps nothing")
    parser.add_argument("--results", type=Path, default=report.FOLDER, help="where the JSON goes")
    return parser.parse_args()


async def main() -> None:
    """Measure, print, keep."""
    given = arguments()
    job = Job(given.orders, given.repeats, tuple(given.skus), given.profile)
    if given.small:
        job = Job(2_000, 1, job.skus[-1:])
    machine, databases, cases = report.machine_facts(), {}, []
    report.warn_if_busy()
    for kind in given.databases:
        async with fresh_database(kind) as url:
            shop = Shop(kind, url)
            await shop.create()
            databases[kind] = await report.database_facts(shop)
            for skus in job.skus:
                cases.append(await measure_case(shop, job, skus))
                print_case(cases[-1])
    if not given.small and not given.profile:
        content = {"machine": machine, "databases": databases, "repeats": job.repeats, "cases": cases}
        report.save("close_throughput", content, given.results)


if __name__ == "__main__":
    asyncio.run(main())
