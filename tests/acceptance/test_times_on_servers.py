"""Deadlines on real servers, through both changes of the clock: never early, and late by no more than is said.

What the shop writes is written here without any of duetime's code: a row says the instant that its customer was shown.
``latest_close`` says when it must be closed at the latest; docs/explanation/time.md says the same to users.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from duetime.app import Duetime
from duetime.closing import CloseRequest
from duetime.order import Reason
from duetime.store import NewOrder
from tests.support.databases import DatabaseKind, FreshDatabase
from tests.support.moved_time import MOVED, MovedTime, a_moved_shop
from tests.support.shop_database import Section
from tests.support.small_shop import run, states

HOUR, MINUTE, SECOND, TICK = (timedelta(**{name: 1}) for name in ("hours", "minutes", "seconds", "microseconds"))
ZONES = BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
NEVER = datetime.min.replace(tzinfo=UTC) + timedelta(days=9)
FULL_HOUR = datetime(2026, 1, 1, tzinfo=UTC)

NONE = dict.fromkeys(("closed_at", "close_reason", "close_source", "category", "amount", "currency"), "")
INSERT = "INSERT INTO orders (order_no, status, at_) VALUES"

Written = Callable[[datetime], str]


def local(zone: str) -> Written:
    return lambda at: f"'{at.astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat(' ', 'seconds')}'"


def added_on_the_clock(at: datetime, zone: str) -> str:
    """Write what a shop comes to that adds some minutes to the local time before the clock was set forward."""
    before = at - HOUR
    return f"'{before.astimezone(ZoneInfo(zone)).replace(tzinfo=None) + HOUR}'"


def utc(at: datetime) -> str:
    return f"'{at.astimezone(UTC).replace(tzinfo=None).isoformat(' ', 'seconds')}'"


def zoned(at: datetime) -> str:
    return f"'{at.astimezone(UTC).isoformat(' ', 'seconds')}'"


def seconds(at: datetime) -> str:
    return f"{at.timestamp():.0f}"


def milliseconds(at: datetime) -> str:
    return f"{at.timestamp() * 1000:.0f}"


@dataclass(frozen=True)
class Column:
    """How a table holds its deadline: as the shop writes it, and as the configuration describes it."""

    types: Mapping[DatabaseKind, str]
    form: str
    written: Written
    plus: timedelta = timedelta(0)
    coarse: timedelta = timedelta(0)
    """How much the column cannot tell apart."""
    server_zone: str | None = None
    by_session: bool = False
    """Instants that can only be written as the session's clock shows them."""

    def table(self, kind: DatabaseKind) -> str:
        number = "order_no varchar(40) PRIMARY KEY"
        return f"CREATE TABLE orders ({number}, status varchar(10) NOT NULL, at_ {self.types[kind]})"

    def stored(self, deadline: datetime) -> str:
        return self.written(deadline - self.plus)

    def latest_close(self, deadline: datetime, *, ours: bool) -> datetime:
        """Answer when the order must be closed, where nothing but the clocks delays it; ``ours``: duetime wrote it."""
        rounded = deadline + ((FULL_HOUR - deadline) % self.coarse if self.coarse else timedelta(0))
        return max(self._waits_until(deadline, ours=ours), self._waits_until(rounded, ours=ours))

    def _waits_until(self, deadline: datetime, *, ours: bool) -> datetime:
        stored, back = deadline - self.plus, CHANGES.get((self.form, "back"), NEVER)
        forward = CHANGES.get((self.form, "forward"), NEVER)
        twice = (back - HOUR, back)
        if self.by_session and ours:
            session_back = CHANGES[str(self.server_zone), "back"]
            twice = (session_back - HOUR, session_back + HOUR)
        if twice[0] <= stored < twice[1]:
            return deadline + HOUR
        if forward <= stored < forward + HOUR:
            return forward + HOUR + self.plus
        return deadline

    @property
    def section(self) -> Section:
        plus = {"expire_plus": f"{self.plus // MINUTE}m"} if self.plus else {}
        return {**NONE, "id": "order_no", "expire_at": "at_", "time_form": self.form, **plus}


NAIVE: Mapping[DatabaseKind, str] = {"sqlite": "datetime", "postgresql": "timestamp", "mariadb": "datetime(6)"}
NAIVE_0: Mapping[DatabaseKind, str] = {"postgresql": "timestamp(0)", "mariadb": "datetime"}
WHOLE: Mapping[DatabaseKind, str] = {"sqlite": "integer", "postgresql": "bigint", "mariadb": "bigint"}
TIMESTAMP: Mapping[DatabaseKind, str] = {"mariadb": "timestamp NULL"}
TIMESTAMP_6: Mapping[DatabaseKind, str] = {"mariadb": "timestamp(6) NULL"}
TZ: Mapping[DatabaseKind, str] = {"postgresql": "timestamptz"}
MILLISECOND = timedelta(milliseconds=1)
HALF = 30 * MINUTE

COLUMNS: Mapping[str, Column] = {
    "utc": Column(NAIVE, "instant", utc),
    "utc-whole-seconds": Column(NAIVE_0, "instant", utc, coarse=SECOND, server_zone=BERLIN),
    "timestamptz": Column(TZ, "instant", zoned, server_zone=NEW_YORK),
    "berlin-on-a-server-in-new-york": Column(NAIVE, BERLIN, local(BERLIN), server_zone=NEW_YORK),
    "new-york-on-a-server-in-berlin": Column(NAIVE_0, NEW_YORK, local(NEW_YORK), coarse=SECOND, server_zone=BERLIN),
    "epoch-s": Column(WHOLE, "epoch_s", seconds, coarse=SECOND, server_zone=BERLIN),
    "epoch-ms": Column(WHOLE, "epoch_ms", milliseconds, coarse=MILLISECOND),
    "timestamp": Column(TIMESTAMP, "instant", utc, coarse=SECOND, server_zone=BERLIN, by_session=True),
    "timestamp-6": Column(TIMESTAMP_6, "instant", utc, server_zone=NEW_YORK, by_session=True),
    "plus-timestamp": Column(
        TIMESTAMP, "instant", utc, plus=HALF, coarse=SECOND, server_zone=NEW_YORK, by_session=True
    ),
    "plus-utc": Column(NAIVE, "instant", utc, plus=HALF, server_zone=BERLIN),
    "plus-berlin": Column(NAIVE, BERLIN, local(BERLIN), plus=HALF),
    "plus-new-york-whole-seconds": Column(NAIVE_0, NEW_YORK, local(NEW_YORK), plus=HALF, coarse=SECOND),
    "plus-epoch-s": Column(WHOLE, "epoch_s", seconds, plus=HALF, coarse=SECOND),
}

CHANGES: Mapping[tuple[str, str], datetime] = {
    (BERLIN, "forward"): datetime(2026, 3, 29, 1, tzinfo=UTC),
    (BERLIN, "back"): datetime(2026, 10, 25, 1, tzinfo=UTC),
    (NEW_YORK, "forward"): datetime(2026, 3, 8, 7, tzinfo=UTC),
    (NEW_YORK, "back"): datetime(2026, 11, 1, 6, tzinfo=UTC),
}


STEPS = [
    *(-90 * MINUTE, -HOUR - SECOND, -HOUR, -45 * MINUTE, -SECOND, timedelta(0), SECOND),
    *(45 * MINUTE, HOUR - SECOND, HOUR, 61 * MINUTE),
]
"""Deadlines around a change."""

ADDED = (0, 15, 59)
"""Minutes into the hour that is skipped, which come out where time is added to what a clock shows."""


def cases() -> list[object]:
    return [
        pytest.param(kind, column, marks=[] if kind == "sqlite" else [pytest.mark.services], id=f"{kind}-{name}")
        for name, column in COLUMNS.items()
        for kind in column.types
    ]


@pytest.mark.parametrize("kind, column", cases())
async def test_never_early_and_late_by_no_more_than_the_hour_of_change(
    kind: DatabaseKind, column: Column, fresh_database: FreshDatabase
) -> None:
    await through_both_changes(fresh_database(kind), column, MOVED[kind](column.server_zone), column.table(kind))


async def through_both_changes(url: str, column: Column, time: MovedTime, table: str) -> None:
    """Move the clock from deadline to deadline; fail where an order closes early, or is pending for too long."""
    zone = next((one for one in (column.form, column.server_zone) if one in ZONES), BERLIN)
    deadlines = [CHANGES[zone, which] + column.plus + step for which in ("forward", "back") for step in STEPS]
    async with a_moved_shop(url, time, table, orders=column.section, assets=[]) as (duetime, engine):
        shown = {f"{way}-{n}": at for n, at in enumerate(deadlines) for way in ("reported", "swept")}
        stored = {no: column.stored(at) for no, at in shown.items()}
        ours = {f"ours-{n}": at + 300 * MILLISECOND for n, at in enumerate(deadlines)}
        latest = {no: column.latest_close(at, ours=no in ours) for no, at in (shown | ours).items()}
        added = {f"added-{n}": CHANGES[zone, "forward"] + column.plus + n * MINUTE for n in ADDED}
        if column.form in ZONES:
            stored |= {no: added_on_the_clock(at - column.plus, zone) for no, at in added.items()}
            shown, latest = shown | added, latest | added
        await run(engine, *(f"{INSERT} ('{no}', 'pending', {value})" for no, value in stored.items()))
        async with duetime.wired.store.transaction() as tx:
            await tx.insert_orders([NewOrder(no, at, "") for no, at in ours.items()])
        shown |= ours
        just_before = {at - TICK for at in [*deadlines, *ours.values()][len(STEPS) // 2 :: 3]}
        for now in sorted({*deadlines, *just_before, *added.values()}):
            await time.move(engine, now)
            await report(duetime, [no for no in shown if no.startswith("reported")])
            await duetime.wired.sweep.run_once()
            closed = {no for no, state in (await states(engine)).items() if state == "closed"}
            early = {no: f"{at}" for no, at in shown.items() if no in closed and now < at}
            late = {no: f"{at}" for no, at in shown.items() if no not in closed and latest[no] <= now}
            assert (early, late) == ({}, {}), f"closed early, and still pending, at {now}"


async def report(duetime: Duetime, order_nos: list[str]) -> None:
    """Say that these are due, whether they are or not."""
    await duetime.wired.closing.close([CloseRequest(order_no, Reason.TIMEOUT) for order_no in order_nos])
