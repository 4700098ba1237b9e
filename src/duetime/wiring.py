"""From settings to objects: the only file that knows all names."""

import os
import socket
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from duetime.clock import Clock, SystemClock
from duetime.closing import Closing, ClosingOptions
from duetime.config.database_url import check_driver
from duetime.doctor import Check
from duetime.extending import Extending
from duetime.fleet import UNLIMITED
from duetime.following import Following, FollowingOptions, ForeignClose
from duetime.listening import Listening, ListeningOptions, Sources
from duetime.membership import Membership, Seat
from duetime.observation import FOLLOWED_FOR
from duetime.observer import Observer, Observers
from duetime.observing import Observing, ObservingOptions
from duetime.pace import Pace
from duetime.paying import Paying
from duetime.placing import Placing, Timeouts
from duetime.releasing import Releasing, ReleasingOptions
from duetime.removing import Removing, RemovingOptions
from duetime.reporting import Reporting, ReportingOptions
from duetime.retrying import Failures, Retrying, RetryingOptions
from duetime.service import Parts, Service
from duetime.settings import SERVED_TRIGGERS, Settings, TriggerSettings, store_url
from duetime.store import Store
from duetime.store_time import StoreTime
from duetime.stores.sql import examining
from duetime.stores.sql.migrate import Migrator
from duetime.stores.sql.reading import SqlBooks
from duetime.stores.sql.store import SqlOptions, SqlStore
from duetime.sweep import Sweep, SweepOptions
from duetime.trigger import Trigger
from duetime.triggers.database import DatabaseTrigger, DatabaseTriggerOptions
from duetime.triggers.wheel import WheelTrigger
from duetime.verifying.orders import Terms
from duetime.verifying.work import Verifying, VerifyOptions


@dataclass(frozen=True, slots=True)
class Wired:
    """Everything that one process of duetime is made of."""

    settings: Settings
    store: SqlStore
    placing: Placing
    paying: Paying
    extending: Extending
    failures: Failures
    closing: Closing
    retrying: Retrying
    releasing: Releasing
    sweep: Sweep
    following: Following
    service: Service


def wire(settings: Settings, *, clock: Clock | None = None, observers: tuple[Observer, ...] = ()) -> Wired:
    """Make the objects; nothing is connected and nothing runs yet.

    Raises:
        ConfigError: the database's driver is not installed.
    """
    clock = clock or SystemClock()
    check_driver(store_url(settings))
    return assemble(settings, SqlStore(_store_options(settings), clock=clock), clock=clock, observers=observers)


def assemble(
    settings: Settings,
    store: Store,
    *,
    clock: Clock,
    observers: tuple[Observer, ...] = (),
    worker: str | None = None,
) -> Wired:
    """Make the objects around a store; ``worker`` is how this one is known, by host and process unless given."""
    told = Observers(observers)
    assets = {asset.kind: asset for asset in settings.assets}
    options = ClosingOptions(settings.timeouts.grace, assets, settings.closing.batch_size, settings.closing.not_before)
    closing = Closing(store, options, clock=clock, observers=told)
    paying = Paying(store, assets, closing, clock=clock, observers=told)
    after = RetryingOptions(settings.closing.quarantine_after_failures)
    failures = Failures(store, after, clock=clock, observers=told)
    pace = Pace(clock, settings.closing.closes_per_second or UNLIMITED)
    seat = Seat(worker or worker_name(), settings.closing.lease, settings.sweep.shards)
    fleet = Membership(store, pace, seat, clock=clock)
    retrying = Retrying(store, closing, failures, at_once=settings.closing.concurrency, pace=pace)
    releasing = Releasing(
        store, failures, ReleasingOptions(assets, waiting_at_once=_waits(settings)), clock=clock, observers=told
    )
    sweep = Sweep(store, retrying, sweep_options(settings), clock=clock, observers=told)
    sweep.mine = fleet.mine
    seconds = settings.sweep.interval.total_seconds()
    following = Following(
        store, FollowingOptions(assets, ForeignClose(settings.closing.foreign_close)), observers=told
    )  # fmt: skip
    removing = Removing(store, _removing_options(settings))
    observing = Observing(store, _observing_options(settings), clock=clock, observers=told)
    watching = observing if settings.closing.observes else None
    listening = None if settings.closing.observes else _listening(settings, store, retrying, clock, told)
    for trigger in () if listening is None else listening.triggers:
        if isinstance(trigger, DatabaseTrigger):
            trigger.mine = fleet.mine
    parts = Parts(
        closing, paying, failures, retrying, releasing, sweep, following, removing, seconds, watching, listening, fleet
    )  # fmt: skip
    timeouts = Timeouts(settings.default_timeout, settings.timeouts.category)
    placing = Placing(store, assets, timeouts, clock=clock, observers=told)
    if listening is not None:
        placing.on_placed = listening.placed
    return Wired(
        settings=settings,
        store=cast("SqlStore", store),  # all that needs more than a store's contract is for databases
        placing=placing,
        paying=paying,
        extending=Extending(store, settings.closing.max_extension, clock=clock, observers=told),
        failures=failures,
        closing=closing,
        retrying=retrying,
        releasing=releasing,
        sweep=sweep,
        following=following,
        service=Service(parts, clock=clock, observers=told),
    )


def _removing_options(settings: Settings) -> RemovingOptions:
    kept = settings.retention
    # Removed while it is followed, an order would be begun with again.
    observed = None if kept.observed is None else max(kept.observed, FOLLOWED_FOR)
    if settings.closing.observes:
        return RemovingOptions(None, None, None, observed)
    return RemovingOptions(kept.facts, kept.holds, kept.sweep_runs, observed)


def _observing_options(settings: Settings) -> ObservingOptions:
    return ObservingOptions(
        grace=settings.timeouts.grace,
        ahead=settings.closing.observe_ahead,
        not_before=settings.closing.not_before,
        page_size=settings.sweep.page_size,
        pause_seconds=settings.sweep.pause.total_seconds(),
    )


def usual_late_after(settings: Settings) -> timedelta:
    """Answer from when on a close is late, unless somebody says: when duetime's own sweep would have closed."""
    return settings.timeouts.grace + settings.sweep.interval


def reporting(wired: Wired, *, since: datetime | None = None, late_after: timedelta | None = None) -> Reporting:
    """Make what sums up observe mode; ``late_after`` is ``usual_late_after`` unless given."""
    settings = wired.settings
    late = usual_late_after(settings) if late_after is None else late_after
    return Reporting(wired.store, ReportingOptions(settings.timeouts.grace, late, since, settings.closing.not_before))


def _listening(settings: Settings, store: Store, retrying: Retrying, clock: Clock, told: Observers) -> Listening | None:
    time = StoreTime(clock)
    triggers = [_trigger(one, settings, store, time, told) for one in settings.triggers if one.type in SERVED_TRIGGERS]
    if not triggers:
        return None
    longest = max(one.ahead for one in settings.triggers)
    options = ListeningOptions(
        grace=settings.timeouts.grace,
        margin=usual_margin(settings),
        held_at_most=max(timedelta(seconds=10), 2 * longest),
        batch_size=settings.closing.batch_size,
        concurrency=settings.closing.concurrency,
    )
    return Listening(store, retrying, Sources(triggers, time), options, observers=told)


def usual_margin(settings: Settings) -> timedelta:
    """Answer how long the sweep leaves due orders to the triggers while these work, where the config says "auto"."""
    served = [one.ahead for one in settings.triggers if one.type in SERVED_TRIGGERS]
    return min(settings.sweep.interval / 2, max(timedelta(seconds=2), *served)) if served else timedelta(0)


def _trigger(one: TriggerSettings, settings: Settings, store: Store, time: StoreTime, told: Observers) -> Trigger:
    if one.type == "wheel":
        return WheelTrigger(time, name=one.name)
    options = DatabaseTriggerOptions(
        one.ahead, settings.timeouts.grace, settings.closing.not_before, settings.sweep.page_size
    )
    return DatabaseTrigger(store, time, options, name=one.name, observers=told)


def _waits(settings: Settings) -> int:
    """Answer how many locked rows the releaser may wait for at once: closing must not run short of connections."""
    return max(1, min(2, settings.store.pool_size - settings.closing.concurrency - 1))


def migrator(settings: Settings) -> Migrator:
    """Make what creates and upgrades the tables."""
    check_driver(store_url(settings))
    url = store_url(settings).render_as_string(hide_password=False)
    return Migrator(url, settings.orders, settings.store.schema_name)


def verifying(
    wired: Wired, *, since: datetime | None = None, patience: timedelta | None = None, clock: Clock | None = None
) -> Verifying:
    """Make what compares everything with everything else."""
    settings = wired.settings
    options = VerifyOptions(_verify_terms(settings), settings.assets, since, patience, settings.sweep.interval)
    return Verifying(SqlBooks(wired.store), options, clock=clock)


def _verify_terms(settings: Settings) -> Terms:
    return Terms(
        grace=settings.timeouts.grace,
        kinds=frozenset(asset.kind for asset in settings.assets),
        remote=frozenset(asset.kind for asset in settings.assets if asset.storage == "remote"),
        facts_kept=settings.retention.facts,
        holds_kept=settings.retention.holds,
        settles_foreign=settings.closing.foreign_close != "report",
    )


def doctor_checks(wired: Wired, *, clock: Clock | None = None) -> list[Check]:
    """Answer what the doctor looks at once the config is read and the driver is there, in order."""
    settings = wired.settings
    terms = examining.Terms(
        orders=settings.orders,
        assets=settings.assets,
        grace=settings.timeouts.grace,
        sweep_interval=settings.sweep.interval,
        verify=_verify_terms(settings),
        observes=settings.closing.observes,
        not_before=settings.closing.not_before,
    )
    return examining.store_checks(wired.store, migrator(settings), terms, clock=clock or SystemClock())


def _store_options(settings: Settings) -> SqlOptions:
    return SqlOptions(
        url=store_url(settings).render_as_string(hide_password=False),
        orders=settings.orders,
        assets=settings.assets,
        schema=settings.store.schema_name,
        pool_size=settings.store.pool_size,
        observes=settings.closing.observes,
    )


def given_margin(settings: Settings) -> timedelta | None:
    """Answer the margin that the config names; None for "auto"."""
    margin = settings.sweep.margin
    return margin if isinstance(margin, timedelta) else None


def overdue_after(settings: Settings) -> timedelta:
    """Answer how long after it became due an order is closed by the sweep at the latest, while all works."""
    given = given_margin(settings)
    return settings.sweep.interval + (usual_margin(settings) if given is None else given)


def worker_name() -> str:
    """Answer how this process is known among the workers."""
    return f"{socket.gethostname()}:{os.getpid()}"[:180]


def sweep_options(settings: Settings) -> SweepOptions:
    """Answer how to sweep."""
    return SweepOptions(
        grace=settings.timeouts.grace,
        margin=given_margin(settings),
        page_size=settings.sweep.page_size,
        pause_seconds=settings.sweep.pause.total_seconds(),
        concurrency=settings.closing.concurrency,
        not_before=settings.closing.not_before,
        assets={asset.kind: asset for asset in settings.assets},
        worker=worker_name(),
    )
