"""The shop comes first: two closers drain a backlog while a shop places carts of the same hot SKUs.

Carts that lock SKUs in the order of the customer's clicks deadlock with each other. What is shown here is that closers
are in none of those deadlocks, make none of their own, and let nobody run into a lock time-out.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.support.cart_shop import LINES, CartShop, Report, p99_ms
from tests.support.figures import Figures
from tests.support.shop_database import Filling, Section, ShopDatabase
from tests.support.waiting import eventually, let_pass
from tests.support.worker import Worker, workers

ORDERS = 20_000
ALONE_SECONDS = 3.0
FAST: dict[str, Section] = {"closing": {"batch_size": 500}, "sweep": {"interval": "300ms"}}


@dataclass(frozen=True)
class Drained:
    """What happened while the backlog was closed: from ``start`` on, for ``seconds``."""

    report: Report
    start: float
    seconds: float
    errors: dict[str, int]
    later: int

    def __str__(self) -> str:
        before = [cart for cart in self.report.carts if cart[0] < self.start]
        during = [cart for cart in self.report.carts if self.start <= cart[0] < self.start + self.seconds]
        deadlocks = [at for at, _ in self.report.deadlocks]
        early = sum(at < self.start for at in deadlocks)
        late = sum(self.start <= at < self.start + self.seconds for at in deadlocks)
        return (
            f"{ORDERS / self.seconds:,.0f} closes/s, {self.later} holds by the releaser; the shop alone / beside us: "
            f"{len(before)} / {len(during)} carts, p99 {p99_ms(before)} / {p99_ms(during)} ms, "
            f"{early} / {late} deadlocks ({1000 * early / max(1, len(before)):.1f} / "
            f"{1000 * late / max(1, len(during)):.1f} in 1,000 carts), "
            f"{len(self.report.lock_timeouts)} lock time-outs; refused to us: {self.errors}"
        )

    @property
    def with_us(self) -> list[list[int]]:
        """Deadlocks in which a session took part that is none of the shop's."""
        known = set(self.report.sessions)
        return [sessions for _, sessions in self.report.deadlocks if not sessions or set(sessions) - known]


async def drain(shop: ShopDatabase, folder: Path, *, in_order: bool, lines: bool = False) -> Drained:
    if lines:
        await shop.execute(LINES)
    await shop.fill(Filling(orders=ORDERS))
    with CartShop(shop, folder, in_order=in_order, lines=lines, backlog=ORDERS if lines else 0) as carts:
        await let_pass(ALONE_SECONDS, because="the shop's own pace is measured first")
        with workers(shop.config(**FAST), folder, "one", "two") as closers:
            start = time.monotonic()
            await eventually("the backlog is closed", lambda: drained(shop), seconds_max=90)
            seconds = time.monotonic() - start
            report = carts.close()
            await eventually("all units are back", lambda: all_back(shop), seconds_max=20)
            errors, later = reports(closers)
    await shop.judge()
    return Drained(report, start, seconds, errors, later)


async def drained(shop: ShopDatabase) -> bool:
    return await shop.count("closed") == ORDERS


async def all_back(shop: ShopDatabase) -> bool:
    return await shop.unfinished() == 0


def reports(closers: list[Worker]) -> tuple[dict[str, int], int]:
    errors: dict[str, int] = {}
    later = 0
    for closer in closers:
        assert closer.terminate() == 0
        later += closer.report["outcomes"].get("finished by the releaser", 0)
        for code, times in closer.report["errors"].items():
            errors[code] = errors.get(code, 0) + times
    return errors, later


def hold_to_the_promise(shop: ShopDatabase, found: Drained) -> None:
    assert not found.with_us, "a session of ours was in a deadlock of the shop"
    assert not shop.words.deadlock & set(found.errors), "a closer was in a deadlock"
    assert not found.report.lock_timeouts


ALONE = pytest.param(False, id="alone")
WITH_LINES = pytest.param(True, id="with foreign keys")


def long(case: ParameterSet) -> ParameterSet:
    return pytest.param(*case.values, id=case.id, marks=pytest.mark.long)


@pytest.mark.parametrize("lines", [ALONE, long(WITH_LINES)])
@pytest.mark.timeout(180)
async def test_sorted_carts_never_deadlock(
    shop: ShopDatabase, tmp_path: Path, figures: Figures, *, lines: bool
) -> None:
    found = await drain(shop, tmp_path, in_order=True, lines=lines)
    figures(str(found))
    hold_to_the_promise(shop, found)
    assert not found.report.deadlocks


@pytest.mark.parametrize("lines", [long(ALONE), WITH_LINES])
@pytest.mark.timeout(180)
async def test_carts_in_any_order_deadlock_only_among_themselves(
    shop: ShopDatabase, tmp_path: Path, figures: Figures, *, lines: bool
) -> None:
    found = await drain(shop, tmp_path, in_order=False, lines=lines)
    figures(str(found))
    hold_to_the_promise(shop, found)
