"""Parts of the command line that need no process: waiting for a database, progress, JSON, sentences."""

import asyncio
import io
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast, get_args

import pytest
import structlog

from duetime import logs
from duetime.cli.common import sentence
from duetime.cli.output import plain
from duetime.cli.progress import Progress
from duetime.cli.work import ready
from duetime.errors import ConfigError, StoreUnavailable
from duetime.hold import HeldHold, Hold
from duetime.order import (
    AlreadyClosed,
    AlreadyPaid,
    Blocked,
    Busy,
    Closed,
    Extended,
    ExtendOutcome,
    NotYetDue,
    Outcome,
    Refused,
    UnknownOrder,
)
from duetime.testing.manual_clock import ManualClock
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from duetime.app import Duetime

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Away:
    """A database that answers at the ``answers``-th try, or never."""

    def __init__(self, answers: int | None = None, error: Exception | None = None) -> None:
        self.answers = answers
        self.error = error
        self.tries = 0

    async def check(self) -> None:
        self.tries += 1
        if self.error is not None:
            raise self.error
        if self.tries != self.answers:
            raise StoreUnavailable("connection refused")


def wait_for(away: Away, stop: asyncio.Event, clock: ManualClock) -> "asyncio.Task[bool]":
    return asyncio.create_task(ready(cast("Duetime", away), stop, clock=clock))


@pytest.fixture(autouse=True)
def lines() -> Any:  # noqa: ANN401 -- a generator of the stream
    stream = io.StringIO()
    logs.set_up(stream=stream)
    yield stream
    structlog.reset_defaults()


async def test_database_that_comes_back_is_waited_for(lines: io.StringIO) -> None:
    away, clock = Away(answers=4), ManualClock()
    waiting = wait_for(away, asyncio.Event(), clock)
    await eventually("it sleeps", lambda: clock.sleepers > 0)
    await clock.advance(20)
    assert await waiting
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [one["again_in"] for one in told] == [1.0, 2.0, 4.0]
    assert told[0]["error"] == "connection refused"


async def test_database_that_stays_away_is_given_up_after_a_minute() -> None:
    away, clock = Away(), ManualClock()
    waiting = wait_for(away, asyncio.Event(), clock)
    await eventually("it sleeps", lambda: clock.sleepers > 0)
    await clock.advance(59)
    assert not waiting.done()
    await clock.advance(10)
    with pytest.raises(StoreUnavailable):
        await waiting


async def test_stop_ends_the_wait_at_once() -> None:
    away, clock, stop = Away(), ManualClock(), asyncio.Event()
    waiting = wait_for(away, stop, clock)
    await eventually("it sleeps", lambda: clock.sleepers > 0)
    stop.set()
    assert await asyncio.wait_for(waiting, 5) is False


async def test_database_that_is_not_as_described_is_not_waited_for() -> None:
    away = Away(error=ConfigError(["orders.table: there is no table orders"]))
    with pytest.raises(ConfigError):
        await wait_for(away, asyncio.Event(), ManualClock())
    assert away.tries == 1


async def test_progress_is_a_line_every_few_seconds_where_there_is_no_terminal(lines: io.StringIO) -> None:
    clock = ManualClock()
    with Progress("sweeping", clock=clock, terminal=False) as progress:
        for n in range(12):
            progress.counted(found=n)
            await clock.advance(1)
        progress.said("a step")
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [(one["event"], one.get("found")) for one in told] == [("sweeping", 5), ("sweeping", 10), ("a step", None)]


OUTCOMES: list[Outcome | ExtendOutcome] = [
    Closed("o-1", "staff", "anna", AT, AT, None, (Hold("stock", "tea", 2),)),
    AlreadyClosed("o-1", "timeout", "sweep", AT),
    AlreadyPaid("o-1", "shipped"),
    NotYetDue("o-1", AT),
    NotYetDue("o-1", None),
    Busy("o-1"),
    UnknownOrder("o-1"),
    Blocked("o-1", "stock tea has no row"),
    Extended("o-1", AT, timedelta(minutes=5)),
    Refused("o-1", "it has no deadline"),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_every_outcome_is_a_sentence_about_its_order(outcome: Outcome | ExtendOutcome) -> None:
    assert "order o-1" in sentence(outcome)


def test_no_outcome_is_left_out_above() -> None:
    assert {type(outcome) for outcome in OUTCOMES} == {*get_args(Outcome), *get_args(ExtendOutcome)}


def test_values_become_what_json_knows() -> None:
    assert plain({"at": AT, "by": timedelta(seconds=90), "hold": HeldHold("o", Hold("stock", "tea"))}) == {
        "at": "2026-01-01T00:00:00.000000Z",
        "by": 90.0,
        "hold": {"order_no": "o", "hold": {"kind": "stock", "ref": "tea", "quantity": 1}, "state": "held"},
    }
