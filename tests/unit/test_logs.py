import io
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog

from duetime import logs
from duetime.errors import StoreUnavailable
from duetime.hold import Hold
from duetime.logs import LINES_AT_MOST, LogObserver
from duetime.observer import Attempt
from duetime.order import Blocked, Busy, Closed, Outcome
from duetime.store import Failure, Quarantine, Stage, SweepRun
from duetime.testing.manual_clock import ManualClock

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Log:
    """What was written, as JSON or as text."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.clock = ManualClock()

    def observer(self, *, verbose: bool = False) -> LogObserver:
        logs.set_up(verbose=verbose, stream=self.stream)
        return LogObserver(clock=self.clock)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines()]


@pytest.fixture
def log() -> Iterator[Log]:
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    yield Log()
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)


def closed(n: int) -> Outcome:
    return Closed(f"o-{n}", "timeout", "sweep", AT, AT, n)


def failure(n: int = 1, state: Quarantine = Quarantine.RETRYING) -> Failure:
    return Failure(f"o-{n}", Stage.CLOSE, 1, AT, AT, AT + timedelta(seconds=1), state, "stock tea has no row in stock")


def run(found: int = 0, error: str | None = None) -> SweepRun:
    return SweepRun(0, "worker", AT, AT + timedelta(seconds=2), found, found, error)


def raised() -> KeyError:
    nothing: dict[str, int] = {}
    try:
        nothing["x"]
    except KeyError as error:
        return error
    raise AssertionError


def test_ten_thousand_closes_write_a_line_per_batch_and_only_at_debug(log: Log) -> None:
    quiet = log.observer()
    for _ in range(20):
        quiet.attempted(Attempt([("sweep", closed(n)) for n in range(500)], 0.1))
    assert log.lines() == []

    verbose = log.observer(verbose=True)
    for _ in range(20):
        verbose.attempted(Attempt([("sweep", closed(n)) for n in range(500)], 0.1))
    assert len(log.lines()) == 20
    assert log.lines()[0]["outcomes"] == {"closed": 500}
    assert log.lines()[0]["lateness_ms_max"] == 499


def test_batch_line_counts_every_outcome_and_source(log: Log) -> None:
    outcomes = [("sweep", closed(1)), ("sweep", Busy("o-2")), ("retry", Blocked("o-3", "why"))]
    log.observer(verbose=True).attempted(Attempt(outcomes, 0.5))
    (line,) = log.lines()
    assert line["level"] == "debug"
    assert line["outcomes"] == {"closed": 1, "busy": 1, "blocked": 1}
    assert line["sources"] == {"sweep": 2, "retry": 1}


def test_sweep_run_that_found_something_is_one_line(log: Log) -> None:
    log.observer().swept(run(found=7))
    (line,) = log.lines()
    assert (line["level"], line["found"], line["closed"], line["seconds"]) == ("info", 7, 7, 2.0)


def test_closes_that_gave_back_nothing_are_counted_until_the_run_ends(log: Log) -> None:
    observer = log.observer()
    bare = closed(1)
    assert isinstance(bare, Closed)
    assert not bare.released
    observer.attempted(Attempt([("sweep", bare), ("sweep", replace(bare, released=(Hold("stock", "a"),)))], 0.1))
    observer.attempted(Attempt([("sweep", bare), ("sweep", Busy("o-2"))], 0.1))
    observer.swept(run(found=4))
    observer.swept(run(found=4))
    first, second = log.lines()
    assert (first["held_nothing"], second.get("held_nothing")) == (2, None)


def test_what_was_closed_between_two_runs_is_told_by_its_source(log: Log) -> None:
    observer = log.observer()
    observer.attempted(Attempt([("database", closed(1)), ("database", closed(1)), ("sweep", closed(1))], 0.1))
    observer.attempted(Attempt([("database", Busy("o-2"))], 0.1))
    observer.swept(run(found=4))
    observer.swept(run(found=4))
    first, second = log.lines()
    assert first["closed_meanwhile_by"] == {"database": 2}
    assert "closed_meanwhile_by" not in second


async def test_sweep_that_finds_nothing_tells_once_a_minute_that_it_still_looks(log: Log) -> None:
    observer = log.observer()
    for _ in range(1300):
        observer.swept(run())
        await log.clock.advance(0.1)
    lines = log.lines()
    assert len(lines) == 3
    assert lines[1]["idle_runs_before"] == pytest.approx(600, abs=2)


def test_sweep_that_was_cut_short_is_a_warning(log: Log) -> None:
    observer = log.observer()
    observer.swept(run())
    observer.swept(run(error="connection refused"))
    assert log.lines()[-1]["level"] == "warning"
    assert log.lines()[-1]["error"] == "connection refused"


def test_failure_names_the_order_and_the_reason(log: Log) -> None:
    log.observer().failed(failure())
    (line,) = log.lines()
    assert line["level"] == "warning"
    assert line["order_no"] == "o-1"
    assert line["reason"] == "stock tea has no row in stock"


def test_quarantine_is_an_error(log: Log) -> None:
    log.observer().failed(failure(state=Quarantine.QUARANTINED))
    assert log.lines()[0]["level"] == "error"


async def test_flood_of_failures_is_cut_and_counted(log: Log) -> None:
    observer = log.observer()
    for n in range(10_000):
        observer.failed(failure(n))
    assert len(log.lines()) == LINES_AT_MOST
    observer.failed(failure(state=Quarantine.QUARANTINED))
    assert log.lines()[-1]["level"] == "error"

    observer.swept(run(found=10_000))
    hidden = next(line for line in log.lines() if "lines" in line)
    assert hidden["lines"] == 10_000 - LINES_AT_MOST

    await log.clock.advance(10)
    observer.failed(failure(7))
    assert log.lines()[-1]["order_no"] == "o-7"


def test_trouble_is_a_warning_in_one_line(log: Log) -> None:
    observer = log.observer()
    observer.troubled("the store is away", StoreUnavailable("connection\n  refused"))
    observer.troubled("the sweep failed", raised())
    known, unknown = log.lines()
    assert (known["level"], known["error"], known["kind"]) == ("warning", "connection refused", "StoreUnavailable")
    assert "where" not in known
    assert "test_logs" in unknown["where"]


def test_unexpected_error_has_its_traceback_where_it_was_asked_for(log: Log) -> None:
    observer = log.observer(verbose=True)
    observer.troubled("the sweep failed", raised())
    assert "Traceback" in log.lines()[-1]["exception"]


def test_terminal_gets_lines_for_people(log: Log) -> None:
    logs.set_up(stream=log.stream, pretty=True)
    logs.logger().info("started", orders="orders")
    assert "started" in log.stream.getvalue()
    with pytest.raises(json.JSONDecodeError):
        log.lines()


def test_what_libraries_log_takes_the_same_form(log: Log) -> None:
    log.observer()
    logging.getLogger("asyncio").error("a task failed", exc_info=ValueError("why"))
    logging.getLogger("alembic").info("not worth a line")
    (line,) = log.lines()
    assert line["event"] == "a task failed"
    assert line["error"] == "why"
    assert line["level"] == "error"
