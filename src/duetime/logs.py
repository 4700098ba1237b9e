"""Logs: JSON where a machine reads them, lines for people on a terminal; and what the work tells, written sparingly.

``LogObserver`` writes one line for a batch (debug), one for a sweep run that found something (info), one for an order
that failed (warning) or went to quarantine (error). Ten thousand closes in a second are twenty lines at debug and none
above it; ten thousand failures are twenty lines and a count.
"""

import logging
import sys
import traceback
from collections import Counter
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from duetime.clock import Clock, SystemClock
from duetime.errors import DuetimeError
from duetime.event import instant_json
from duetime.observer import Attempt, Followed, Met, Watched
from duetime.order import Closed, outcome_word
from duetime.store import Failure, Quarantine, Stage, SweepRun

LINES_AT_MOST: Final = 20
"""Lines of one kind in one stretch of time; what is beyond is counted."""

STRETCH_SECONDS: Final = 10.0

SAMPLES_SHOWN: Final = 5
"""Orders that one line names."""

IDLE_SECONDS: Final = 60.0
"""A sweep that finds nothing is worth one line in this time: the sign that it still looks."""

_FAILED: Final = {
    Stage.CLOSE: "an order could not be closed and will be tried again",
    Stage.RELEASE: "an order could not give back what it held and will be tried again",
}


def set_up(*, verbose: bool = False, stream: TextIO | None = None, pretty: bool | None = None) -> None:
    """Send all logs to ``stream`` (standard error unless given), as JSON unless it is a terminal.

    ``verbose`` adds debug lines. ``pretty`` says which form to take, whatever the stream is.
    """
    target = stream or sys.stderr
    lines = target.isatty() if pretty is None else pretty
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info if verbose else _in_one_line,
    ]
    renderer: Processor = structlog.dev.ConsoleRenderer(colors=lines) if lines else structlog.processors.JSONRenderer(
        ensure_ascii=False, default=str
    )  # fmt: skip
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if verbose else logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(target),
        cache_logger_on_first_use=False,
    )
    _set_up_libraries(target, [*shared, structlog.stdlib.add_logger_name], renderer)


def _set_up_libraries(target: TextIO, shared: list[Processor], renderer: Processor) -> None:
    """Bring what libraries log by themselves, warnings and worse, into the same form."""
    handler = logging.StreamHandler(target)
    cleaned = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    formatter = structlog.stdlib.ProcessorFormatter(processors=[cleaned, renderer], foreign_pre_chain=shared)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


def _in_one_line(_logger: object, _name: str, event: EventDict) -> MutableMapping[str, Any]:
    """Keep of an exception what fits the line: its kind, its words, and where it was raised."""
    info = event.pop("exc_info", None)
    error = info[1] if isinstance(info, tuple) else sys.exc_info()[1] if info is True else info
    if isinstance(error, BaseException):
        event.update(_told(error))
    return event


def logger() -> FilteringBoundLogger:
    """Answer the logger of this program."""
    log: FilteringBoundLogger = structlog.get_logger()
    return log


class LogObserver:
    """Writes what the work tells into the logs."""

    def __init__(self, log: FilteringBoundLogger | None = None, *, clock: Clock | None = None) -> None:
        """Write to ``log``; ``clock`` measures the stretches of time in which lines are counted."""
        self._log = log or logger()
        self._clock = clock or SystemClock()
        self._limits: dict[str, _Limit] = {}
        self._idle_runs = 0
        self._held_nothing = 0
        self._closed_meanwhile: Counter[str] = Counter()
        self._swept_at: float | None = None

    def attempted(self, attempt: Attempt) -> None:
        """Write one line for a batch, at debug."""
        outcomes = Counter(outcome_word(outcome) for _, outcome in attempt.outcomes)
        sources = Counter(source for source, _ in attempt.outcomes)
        late = [o.lateness_ms for _, o in attempt.outcomes if isinstance(o, Closed) and o.lateness_ms is not None]
        self._held_nothing += attempt.held_nothing
        self._closed_meanwhile.update(source for source, o in attempt.outcomes if isinstance(o, Closed))
        self._log.debug(
            "a batch was answered",
            orders=len(attempt.outcomes),
            outcomes=dict(outcomes),
            sources=dict(sources),
            held_nothing=attempt.held_nothing,
            lateness_ms_max=max(late, default=None),
            seconds=round(attempt.seconds, 4),
        )

    def swept(self, run: SweepRun) -> None:
        """Write one line for a run that found something or failed, and a sign of life now and then for the others."""
        self.flush()
        now = self._clock.monotonic()
        idle = run.due_found == 0 and run.error is None
        if idle and self._swept_at is not None and now - self._swept_at < IDLE_SECONDS:
            self._idle_runs += 1
            self._log.debug("a sweep run found nothing", seconds=_seconds(run))
            return
        fields: dict[str, object] = {
            "found": run.due_found,
            "closed": run.closed,
            "seconds": _seconds(run),
            "worker": run.worker,
        }
        meanwhile = {source: n for source, n in sorted(self._closed_meanwhile.items()) if source != "sweep"}
        if meanwhile:
            fields["closed_meanwhile_by"] = meanwhile
        if self._held_nothing:
            fields["held_nothing"] = self._held_nothing
        if self._idle_runs:
            fields["idle_runs_before"] = self._idle_runs
        self._swept_at, self._idle_runs, self._held_nothing = now, 0, 0
        self._closed_meanwhile.clear()
        if run.error is None:
            self._log.info("a sweep run found nothing" if idle else "a sweep run ended", **fields)
        else:
            self._log.warning("a sweep run was cut short", error=run.error, **fields)

    def released(self, *, kind: str, ref: str, holds: int) -> None:
        """Write one line for an asset whose waiting holds were finished, at debug."""
        self._log.debug("waiting holds were finished", kind=kind, ref=ref, holds=holds)

    def followed(self, followed: Followed) -> None:
        """Write what the shop did by itself: information where all is settled, a warning where somebody must decide."""
        settled = {met.value: count for met, count in sorted(followed.settled.items())}
        if settled:
            self._log.info("holds of orders that the shop moved by itself were settled", orders=settled)
        for met, count in sorted((followed.met - followed.settled).items()):
            fields: dict[str, object] = {"orders": count, "such_as": followed.samples.get(met, [])[:SAMPLES_SHOWN]}
            if met is Met.UNKNOWN:
                fields["statuses"] = dict(followed.unknown)
            self._limited("warning", f"orders still hold something though they are {met.value}", fields)
        for order_no, why in list(followed.blocked.items())[:SAMPLES_SHOWN]:
            self._limited("warning", "what an order held cannot be settled", {"order_no": order_no, "reason": why})

    def watched(self, watched: Watched) -> None:
        """Write one line for a pass of observe mode that met something new, at debug for the others."""
        news = watched.begun or watched.ended or watched.would_close
        fields = {name: getattr(watched, name) for name in ("begun", "followed", "ended", "would_close")}
        (self._log.info if news else self._log.debug)("a pass of observe mode ended", **fields)

    def failed(self, failure: Failure) -> None:
        """Write which order failed and why: a warning, or an error where it went to quarantine."""
        fields = {
            "order_no": failure.order_no,
            "stage": failure.stage.value,
            "failures": failure.failures,
            "reason": failure.error,
        }
        if failure.state is Quarantine.QUARANTINED:
            self._limited("error", "an order went to quarantine", fields)
        else:
            self._limited("warning", _FAILED[failure.stage], {**fields, "next_try_at": _instant(failure)})

    def troubled(self, what: str, error: BaseException) -> None:
        """Write what went wrong and will be tried again."""
        known = isinstance(error, DuetimeError)
        self._limited("warning", what, _told(error, where=not known))
        if not known:
            self._log.debug(what, exc_info=error)

    def flush(self) -> None:
        """Say how many lines were left out since the last time."""
        for event, limit in self._limits.items():
            hidden = limit.take_hidden()
            if hidden:
                self._log.warning("more lines of this kind were left out", of=event, lines=hidden)

    def _limited(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        if event not in self._limits:
            self._limits[event] = _Limit(self._clock)
        if self._limits[event].passes():
            getattr(self._log, level)(event, **fields)


class _Limit:
    """Lets a number of lines through in each stretch of time and counts the rest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._passed = 0
        self._hidden = 0

    def passes(self) -> bool:
        now = self._clock.monotonic()
        if now - self._began >= STRETCH_SECONDS:
            self._began, self._passed = now, 0
        self._passed += 1
        if self._passed <= LINES_AT_MOST:
            return True
        self._hidden += 1
        return False

    def take_hidden(self) -> int:
        hidden, self._hidden = self._hidden, 0
        return hidden


def _told(error: BaseException, *, where: bool = True) -> dict[str, object]:
    told: dict[str, object] = {"error": " ".join(str(error).split()) or type(error).__name__}
    told["kind"] = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    if where and frames:
        told["where"] = f"{frames[-1].name}, line {frames[-1].lineno} of {frames[-1].filename}"
    return told


def _seconds(run: SweepRun) -> float:
    return round((run.finished_at - run.started_at).total_seconds(), 3)


def _instant(failure: Failure) -> str | None:
    return instant_json(failure.next_try_at)
