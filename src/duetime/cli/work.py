"""``duetime run`` and ``duetime sweep``: what keeps closing orders."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from duetime import logs
from duetime.app import Duetime
from duetime.cli.common import (
    FAILED,
    ConfigOption,
    JsonOption,
    VerboseOption,
    finish,
    opened,
    settings_of,
    shown_duration,
    shown_instant,
)
from duetime.cli.output import complain, on_terminal, print_json, print_table, say, say_without_deadline
from duetime.cli.progress import Progress
from duetime.cli.stopping import AT_MOST_SECONDS, IN_HAND_SECONDS, told_to_stop
from duetime.clock import Clock, SystemClock
from duetime.errors import InvalidInput, StoreUnavailable
from duetime.logs import LogObserver
from duetime.loop import Loop
from duetime.observer import Attempt, Followed, Observers, Watched
from duetime.order import Blocked
from duetime.removing import Removed
from duetime.settings import SERVED_TRIGGERS, Settings, store_url
from duetime.store import Failure, Quarantine, SweepRun
from duetime.sweep import UNDATED_AT_MOST, DryRun

PATIENCE_SECONDS: Final = 60.0
"""How long `run` waits for a database that is away when it starts."""

LONGEST_PAUSE_SECONDS: Final = 8.0
SHOWN_AT_MOST: Final = 20
SHOWN_SAMPLES: Final = 5
DAYS_SHOWN_AT_MOST: Final = 60


AcceptOption = Annotated[
    bool,
    typer.Option("--accept-backlog", help="On a first run: close also what is due for more than seven days."),
]


def run(
    ctx: typer.Context,
    *,
    config: ConfigOption = None,
    accept_backlog: AcceptOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Close orders as they become due, until asked to stop.

    SIGTERM and Ctrl-C let the batches in hand finish; the process then ends with exit code 0, within 10 seconds. A
    second signal ends it at once. A database that is away at the start is waited for, up to a minute.
    """
    settings = settings_of(ctx, config)
    logs.set_up(verbose=verbose)
    finish(_worked(settings, _serving, accept_backlog=accept_backlog))


def sweep(
    ctx: typer.Context,
    *,
    config: ConfigOption = None,
    once: Annotated[bool, typer.Option("--once", help="One pass over everything that is due, then end.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what one pass would close and give back; change nothing.")
    ] = False,
    accept_backlog: AcceptOption = False,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Look for due orders and close them.

    Again and again until asked to stop, or once; without any trigger. What failed before is tried again, what was left
    is given back.
    """
    if as_json and not (once or dry_run):
        raise InvalidInput("--json goes with --once or --dry-run")
    settings = settings_of(ctx, config)
    logs.set_up(verbose=verbose)
    if dry_run:
        _print_dry_run(settings, finish(_dry_run(settings)), as_json=as_json)
    elif once:
        done = finish(_one_pass(settings, accept_backlog=accept_backlog))
        _print_pass(done, as_json=as_json)
        if done.all_blocked:
            if not as_json:
                complain("nothing was closed: all that is due is blocked; see `duetime quarantine list`")
            raise typer.Exit(FAILED)
    else:
        doing = "observing" if settings.closing.observes else "sweeping"
        complain(f"{doing} every {shown_duration(settings.sweep.interval)} until stopped; --once makes one pass")
        finish(_worked(settings, _sweeping, accept_backlog=accept_backlog))


async def _worked(settings: Settings, work: Any, *, accept_backlog: bool) -> None:  # noqa: ANN401 - see ``run``
    """Keep one of the two going until a signal."""
    log, observer = logs.logger(), LogObserver()
    limit = told_to_stop(at_most_seconds=AT_MOST_SECONDS)
    async with limit as stop, opened(settings, observers=[observer], check=False) as duetime:
        if not await ready(duetime, stop):
            return
        if not accept_backlog:
            await duetime.refuse_backlog()
        log.info("started", **_what_it_does(settings))
        for notice in settings.notices():
            log.warning(notice)
        await work(duetime, stop, observer)
        observer.flush()
        log.info("stopped")


async def _serving(duetime: Duetime, stop: asyncio.Event, observer: LogObserver) -> None:
    del observer
    duetime.wired.service.start()
    await stop.wait()
    logs.logger().info("stopping: what is in hand is finished first")
    await duetime.wired.service.stop(patience_seconds=IN_HAND_SECONDS)


async def _sweeping(duetime: Duetime, stop: asyncio.Event, observer: LogObserver) -> None:
    interval = duetime.settings.sweep.interval.total_seconds()

    async def round_() -> float | None:
        done = await duetime.wired.service.one_pass()
        return min(1.0, interval) if done.busy or done.still_locked else None

    loop = Loop("the sweep", round_, interval_seconds=interval, observers=Observers([observer]))
    loop.start()
    await stop.wait()
    logs.logger().info("stopping: what is in hand is finished first")
    await loop.stop(patience_seconds=IN_HAND_SECONDS)


async def ready(
    duetime: Duetime, stop: asyncio.Event, *, patience_seconds: float = PATIENCE_SECONDS, clock: Clock | None = None
) -> bool:
    """Wait until the database answers and is as described; False where the process is to stop before that.

    Raises:
        ConfigError: the database is not as described.
        StoreUnavailable: it stayed away for longer than ``patience_seconds``.
    """
    clock = clock or SystemClock()
    give_up_at, pause = clock.monotonic() + patience_seconds, 0.5
    while not stop.is_set():
        try:
            if await _unless(stop, duetime.check()):
                return True
        except StoreUnavailable as error:
            left = give_up_at - clock.monotonic()
            if left <= 0:
                raise
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS, left)
            words = " ".join(str(error).split())
            logs.logger().warning("the database is away", error=words, again_in=round(pause, 1), for_up_to=round(left))
            await _unless(stop, clock.sleep(pause))
    return False


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do something unless the process is asked to stop meanwhile; say whether it was done."""
    doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            return False
        doing.result()
        return True
    finally:
        for task in (doing, stopping):
            task.cancel()
        await asyncio.gather(doing, stopping, return_exceptions=True)


def _what_it_does(settings: Settings) -> dict[str, object]:
    not_before = settings.closing.not_before
    guard = {} if not_before is None else {"not_before": not_before.isoformat()}
    return {
        "database": store_url(settings).render_as_string(hide_password=True),
        "orders": settings.orders.table,
        "mode": settings.closing.mode,
        "assets": [asset.kind for asset in settings.assets],
        "grace": shown_duration(settings.timeouts.grace),
        **guard,
        "triggers": _started(settings),
        "sweep_interval": shown_duration(settings.sweep.interval),
        "batch_size": settings.closing.batch_size,
        "quarantine_after_failures": settings.closing.quarantine_after_failures,
    }


def _started(settings: Settings) -> list[str]:
    served = [] if settings.closing.observes else settings.triggers
    return [trigger.name for trigger in served if trigger.type in SERVED_TRIGGERS]


@dataclass(frozen=True, slots=True)
class Report:
    """What ``sweep --once`` tells."""

    found: int
    closed: int
    held_nothing: int
    blocked: dict[str, str]
    busy: int
    retried: int
    given_back: int
    still_locked: int
    quarantined: int
    shop_moved: dict[str, int]
    shop_moved_settled: dict[str, int]
    shop_moved_samples: dict[str, list[str]]
    removed: Removed
    observed: Watched | None
    paused_by: str | None

    @property
    def all_blocked(self) -> bool:
        """True when orders were due and nothing but a person can help; what others hold, the next pass may close."""
        return bool(self.blocked) and not self.closed and not self.busy


class Heard:
    """Hears which orders could not be closed, and how many closed that held nothing."""

    def __init__(self) -> None:
        """Hear nothing yet."""
        self.why: dict[str, str] = {}
        self.held_nothing = 0
        self.quarantined: set[str] = set()

    def attempted(self, attempt: Attempt) -> None:
        """Note the blocked ones of a batch, and count those that gave back nothing."""
        blocked = (outcome for _, outcome in attempt.outcomes if isinstance(outcome, Blocked))
        self.why |= {outcome.order_no: outcome.why for outcome in blocked}
        self.held_nothing += attempt.held_nothing

    def swept(self, run: SweepRun) -> None:
        """Nothing to note."""

    def released(self, *, kind: str, ref: str, holds: int) -> None:
        """Nothing to note."""

    def followed(self, followed: Followed) -> None:
        """Nothing to note."""

    def watched(self, watched: Watched) -> None:
        """Nothing to note."""

    def failed(self, failure: Failure) -> None:
        """Note who went to quarantine."""
        if failure.state is Quarantine.QUARANTINED:
            self.quarantined.add(failure.order_no)

    def troubled(self, what: str, error: BaseException) -> None:
        """Nothing to note."""


async def _one_pass(settings: Settings, *, accept_backlog: bool) -> Report:
    heard = Heard()
    async with opened(settings, observers=[LogObserver(), heard]) as duetime:
        if not accept_backlog:
            await duetime.refuse_backlog()
        with Progress("sweeping") as progress:
            done = await duetime.wired.service.one_pass(progress.counted)
    followed = done.followed
    return Report(
        found=done.found,
        closed=done.closed,
        held_nothing=heard.held_nothing,
        blocked=heard.why | followed.blocked,
        busy=done.busy,
        retried=done.retried,
        given_back=done.given_back,
        still_locked=done.still_locked,
        quarantined=len(heard.quarantined),
        shop_moved={met.value: count for met, count in sorted(followed.met.items())},
        shop_moved_settled={met.value: count for met, count in sorted(followed.settled.items())},
        shop_moved_samples={met.value: order_nos for met, order_nos in sorted(followed.samples.items())},
        removed=done.removed,
        observed=done.watched,
        paused_by=done.paused_by,
    )


def _print_pass(done: Report, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    if done.paused_by is not None:
        say(f"closing is paused by {done.paused_by}: nothing was closed")
        return
    if done.observed is not None:
        seen = done.observed
        say(f"observe mode: {seen.would_close} orders would have closed now; nothing was written to the shop")
        say(f"began with {seen.begun} orders, looked again at {seen.followed}, saw the end of {seen.ended}")
        return
    say(f"found {done.found} due orders, closed {done.closed}, blocked {len(done.blocked)}, busy {done.busy}")
    if done.held_nothing:
        say(f"{done.held_nothing} closed without a hold: `duetime doctor` compares with the shop's order lines")
    if done.retried:
        say(f"tried {done.retried} orders again that had failed before")
    if done.given_back or done.still_locked:
        say(f"gave back {done.given_back} holds afterwards; {done.still_locked} assets are still locked by others")
    for met, count in done.shop_moved.items():
        settled = done.shop_moved_settled.get(met, 0)
        shown = ", ".join(done.shop_moved_samples.get(met, [])[:SHOWN_SAMPLES])
        say(f"{count} orders held something though they are {met}: {settled} settled ({shown})")
    for order_no, why in list(done.blocked.items())[:SHOWN_AT_MOST]:
        complain(f"order {order_no} is blocked: {why}")
    if len(done.blocked) > SHOWN_AT_MOST:
        complain(f"and {len(done.blocked) - SHOWN_AT_MOST} more: see `duetime quarantine list`")


def _by_time(by_day: Mapping[str, int]) -> tuple[str, tuple[str, str], list[tuple[str, int]]]:
    """Answer a table of orders by day, or by month where there are more days than a person reads."""
    if len(by_day) <= DAYS_SHOWN_AT_MOST:
        return "by the day of the deadline (UTC)", ("day", "orders"), sorted(by_day.items())
    by_month: Counter[str] = Counter()
    for day, orders in by_day.items():
        by_month[day[: len("2026-01")]] += orders
    return "by the month of the deadline (UTC)", ("month", "orders"), sorted(by_month.items())


async def _dry_run(settings: Settings) -> DryRun:
    async with opened(settings) as duetime:
        with Progress("looking for due orders") as progress:
            return await duetime.wired.sweep.dry_run(progress=lambda orders: progress.counted(orders=orders))


def _print_dry_run(settings: Settings, found: DryRun, *, as_json: bool) -> None:
    units = sorted(found.units.items(), key=lambda pair: (-pair[1], pair[0]))
    if as_json:
        print_json(
            {
                "orders": found.orders,
                "by_day": dict(sorted(found.by_day.items())),
                "by_category": dict(sorted(found.by_category.items())),
                "before_not_before": found.too_old,
                "before_not_before_more": found.too_old_more,
                "without_deadline": found.without_deadline,
                "without_deadline_more": found.without_deadline >= UNDATED_AT_MOST,
                "would_be_blocked": found.blocked,
                "would_give_back": [{"kind": kind, "ref": ref, "quantity": n} for (kind, ref), n in units],
                "waiting_after_failure": found.in_quarantine,
                "sample": [{"order_no": order.order_no, "expire_at": order.expire_at} for order in found.sample],
            }
        )
        return
    closing = found.orders - len(found.blocked)
    say(f"{closing} orders of {settings.orders.table} would close now; nothing was changed")
    if found.blocked:
        say(f"{len(found.blocked)} more are due and would be blocked")
    if found.in_quarantine:
        say(f"{found.in_quarantine} more are due and wait after a failure: see `duetime quarantine list`")
    if found.too_old:
        more = " or more" if found.too_old_more else ""
        say(f"{found.too_old}{more} more are due since before closing.not_before, and are never closed")
    say_without_deadline(found.without_deadline)
    for order_no, why in list(found.blocked.items())[:SHOWN_AT_MOST]:
        complain(f"order {order_no} would be blocked: {why}")
    if len(found.blocked) > SHOWN_AT_MOST:
        complain(f"and {len(found.blocked) - SHOWN_AT_MOST} more: see --json")
    if not found.orders:
        return
    say()
    print_table(*_by_time(found.by_day))
    if set(found.by_category) != {""}:
        say()
        print_table("by category", ("category", "orders"), sorted(found.by_category.items()))
    shown = units[:SHOWN_AT_MOST] if on_terminal() else units
    say()
    rows = [(kind, ref, n) for (kind, ref), n in shown]
    print_table(f"what they would give back ({len(units)} assets)", ("kind", "ref", "quantity"), rows)
    say()
    sample = [(order.order_no, shown_instant(order.expire_at)) for order in found.sample]
    print_table("the oldest of them", ("order_no", "expire_at"), sample)
