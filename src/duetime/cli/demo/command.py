"""The command ``duetime demo``: builds the shop, lets it run, and judges it."""

import asyncio
import secrets
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from duetime.app import Duetime
from duetime.cli.common import DONE, FAILED, JsonOption, duration_option, finish, shown_duration
from duetime.cli.demo.customers import Customers, Told
from duetime.cli.demo.judge import Expected, Verdict, judge
from duetime.cli.demo.plan import Shop, opening, visits
from duetime.cli.demo.screen import Eyes, Screen, print_verdict
from duetime.cli.demo.stage import GRACE, SWEEP_INTERVAL, build, settings_for
from duetime.cli.output import print_json, say
from duetime.cli.stopping import told_to_stop
from duetime.clock import SystemClock
from duetime.errors import InvalidInput

LOOK_SECONDS: Final = 0.125
LEFT_SECONDS: Final = 8.0
"""How long the rest may take to close after the last deadline; what is open then counts as still pending."""

NEXT_STEPS: Final = (
    "1. write duetime.toml: the database in [store] url, your tables in [orders] and [[assets]]",
    "   (`duetime init --from-url URL` reads your tables and proposes it)",
    "2. duetime migrate            makes duetime's own tables and the deadline index",
    "3. duetime doctor             checks what you described",
    "4. duetime sweep --dry-run    tells what would close, and changes nothing",
    "5. duetime run                closes",
)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for on the command line."""

    rate: float
    timeout: timedelta
    seconds: float
    seed: int
    quiet: bool


def demo(
    rate: Annotated[
        float, typer.Option("--rate", metavar="N", min=0.1, max=2000, help="Orders placed per second.")
    ] = 20.0,
    timeout: Annotated[
        timedelta, typer.Option("--timeout", metavar="DURATION", parser=duration_option, help="Time to pay.")
    ] = "5s",  # type: ignore[assignment]  # the parser reads it
    length: Annotated[
        timedelta, typer.Option("--for", metavar="DURATION", parser=duration_option, help="How long orders are placed.")
    ] = "20s",  # type: ignore[assignment]  # the parser reads it
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="The same seed makes the same customers again.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Watch a small shop close its unpaid orders.

    Orders are placed, paid, cancelled and closed at their deadline, on SQLite, in a temporary folder. It ends by
    itself and then proves its promises by reading the tables from outside: exit code 0, or 1 where one is broken.
    Ctrl-C shuts the shop's door early.
    """
    _refuse_beyond("--timeout", timeout, timedelta(milliseconds=500), timedelta(minutes=10))
    _refuse_beyond("--for", length, timedelta(seconds=1), timedelta(hours=1))
    chosen = secrets.randbelow(1_000_000) if seed is None else seed
    wishes = Wishes(rate, timeout, length.total_seconds(), chosen, quiet=as_json)
    if not as_json:
        say(
            f"A shop on SQLite: {rate:g} orders per second for {shown_duration(length)}, each to be paid within "
            f"{shown_duration(timeout)} (and {shown_duration(GRACE)} of grace); seed {chosen}."
        )
    verdict, told, eyes = finish(_played(wishes))
    _print(verdict, told, eyes, as_json=as_json)
    return DONE if verdict.kept else FAILED


def _refuse_beyond(option: str, found: timedelta, least: timedelta, most: timedelta) -> None:
    if not least <= found <= most:
        words = f"{option}: from {shown_duration(least)} to {shown_duration(most)} is allowed"
        raise InvalidInput(f"{words}, found {shown_duration(found)}")


async def _played(wishes: Wishes) -> tuple[Verdict, Told, Eyes]:
    with tempfile.TemporaryDirectory(prefix="duetime-demo-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "shop.db"
        shop = opening(rate=wishes.rate, seconds=wishes.seconds, timeout_seconds=wishes.timeout.total_seconds())
        settings = settings_for(file, wishes.timeout)
        await build(settings, file, shop)
        lines: list[tuple[str, str]] = []
        told = Told(lines=lines)
        eyes = Eyes(told.line)
        duetime = Duetime(settings, observers=[eyes])
        try:
            await _run(duetime, wishes, shop, (told, eyes))
        finally:
            await duetime.aclose()
        expected = Expected(shop.stock, len(shop.coupons), GRACE, told.placed, told.paid, told.cancelled, told.notices)
        return judge(file, expected), told, eyes


async def _run(duetime: Duetime, wishes: Wishes, shop: Shop, seen: tuple[Told, Eyes]) -> None:
    told, eyes = seen
    clock = SystemClock()
    seconds = (wishes.timeout.total_seconds(), GRACE.total_seconds(), wishes.seconds + 5)
    coming = visits(shop, rate=wishes.rate, seconds=wishes.seconds, seed=wishes.seed)
    customers = Customers(duetime, coming, told, seconds=seconds, clock=clock)

    def pending() -> int:
        return told.placed - len(told.paid) - len(told.cancelled) - eyes.closed

    def counts() -> Mapping[str, int]:
        return {
            "placed": told.placed,
            "pending": pending(),
            "paid": len(told.paid),
            "cancelled": len(told.cancelled),
            "closed": eyes.closed,
            "out of stock": told.turned_away,
        }

    async with told_to_stop() as stop, duetime.running():
        screen = Screen(clock, counts, told.lines) if not wishes.quiet else None
        showing = asyncio.create_task(_show(screen))
        try:
            await customers.play(stop)
            await _until_closed(told, pending)
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)


async def _show(screen: Screen | None) -> None:
    if screen is None:
        return
    with screen:
        while True:
            screen.look()
            await asyncio.sleep(LOOK_SECONDS)


async def _until_closed(told: Told, pending: Callable[[], int]) -> None:
    """Wait until nothing is pending, or for some seconds after the last deadline."""
    if told.last_deadline is None:
        return
    clock = SystemClock()
    left = (told.last_deadline - clock.now()).total_seconds() + GRACE.total_seconds() + LEFT_SECONDS
    give_up_at = clock.monotonic() + left
    while pending() > 0 and clock.monotonic() < give_up_at:
        await clock.sleep(SWEEP_INTERVAL.total_seconds())


def _print(verdict: Verdict, told: Told, eyes: Eyes, *, as_json: bool) -> None:
    if as_json:
        late = {"p50": verdict.late(0.5), "p99": verdict.late(0.99), "max": max(verdict.lateness_ms, default=None)}
        print_json(
            {
                "kept": verdict.kept,
                "promises": verdict.findings,
                "lateness_ms": late,
                "out_of_stock": told.turned_away,
                "extended": len(told.extended),
                "too_late": told.too_late,
                "troubles": eyes.troubles,
            }
        )
        return
    more = {"orders that found an article out of stock": told.turned_away, "orders extended": len(told.extended)}
    more |= dict(told.too_late)
    if eyes.troubles:
        more["troubles on the way"] = eyes.troubles
    print_verdict(verdict, more)
    say("\nEvery promise was kept." if verdict.kept else "\nA promise was broken.")
    say("\nNext, with your own shop:")
    for step in NEXT_STEPS:
        say(f"  {step}")
