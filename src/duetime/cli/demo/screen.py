"""What the demo shows: a live picture on a terminal, a line every two seconds elsewhere."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from duetime.cli.demo.judge import Verdict
from duetime.cli.output import on_terminal, say
from duetime.clock import Clock
from duetime.observer import Attempt, Followed, Watched
from duetime.order import Closed, Reason
from duetime.store import Failure, SweepRun

PLAIN_EVERY_SECONDS: Final = 2.0
STYLES: Final = {
    "placed": "cyan",
    "paid": "green",
    "closed": "yellow",
    "cancelled": "magenta",
    "extended": "blue",
    "out of stock": "dim",
    "too late": "red",
}


class Eyes:
    """Sees what the service closes while the demo runs; the proof does not rest on it."""

    def __init__(self, told: Callable[[str, str], None]) -> None:
        """Pass on each close through ``told``."""
        self._told = told
        self.closed = 0
        self.troubles = 0
        self.failures = 0

    def attempted(self, attempt: Attempt) -> None:
        """Count what closed at its deadline."""
        for _, outcome in attempt.outcomes:
            if isinstance(outcome, Closed) and outcome.reason == Reason.TIMEOUT:
                self.closed += 1
                self._told("closed", f"{outcome.order_no}  {outcome.lateness_ms} ms after its deadline")

    def swept(self, run: SweepRun) -> None:
        """Nothing to show."""

    def released(self, *, kind: str, ref: str, holds: int) -> None:
        """Nothing to show."""

    def followed(self, followed: Followed) -> None:
        """Nothing to show."""

    def watched(self, watched: Watched) -> None:
        """Nothing to show."""

    def failed(self, failure: Failure) -> None:
        """Count."""
        self.failures += 1
        self._told("too late", f"{failure.order_no}  failed: {failure.error}")

    def troubled(self, what: str, error: BaseException) -> None:
        """Count."""
        self.troubles += 1
        self._told("too late", f"{what}: {error}")


class Screen:
    """Shows how it goes."""

    def __init__(self, clock: Clock, counts: Callable[[], Mapping[str, int]], lines: list[tuple[str, str]]) -> None:
        """``counts`` and ``lines`` are looked at each time."""
        self._clock = clock
        self._counts = counts
        self._lines = lines
        self._began = self._said_at = clock.monotonic()
        self._live = Live(self._picture(), refresh_per_second=8, transient=True) if on_terminal() else None

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the picture away."""
        if self._live:
            self._live.stop()

    def look(self) -> None:
        """Show how it stands now."""
        if self._live:
            self._live.update(self._picture())
            return
        now = self._clock.monotonic()
        if now - self._said_at >= PLAIN_EVERY_SECONDS:
            self._said_at = now
            say(f"{now - self._began:5.0f} s  " + "  ".join(f"{name} {n}" for name, n in self._counts().items()))

    def _picture(self) -> Group:
        counts = Table(box=None, padding=(0, 2))
        for name in self._counts():
            counts.add_column(name, justify="right", style=STYLES.get(name, ""))
        counts.add_row(*(str(n) for n in self._counts().values()))
        lines = [Text(f"{kind:>13}  {words}", style=STYLES.get(kind, "")) for kind, words in self._lines]
        seconds = Text(f"{self._clock.monotonic() - self._began:.0f} s", style="dim")
        return Group(seconds, counts, Text(), *lines)


def print_verdict(verdict: Verdict, told: Mapping[str, int]) -> None:
    """Print the proof, as read from the tables."""
    console = Console(highlight=False)
    console.print("\nRead from the tables with plain SQL:", markup=False)
    for finding in verdict.findings:
        mark = ("  kept    ", "green") if finding.kept else ("  BROKEN  ", "bold red")
        console.print(Text.assemble(mark, f"{finding.promise}: {finding.shown}"), soft_wrap=True)
    late = [verdict.late(0.5), verdict.late(0.99), max(verdict.lateness_ms, default=None)]
    if all(one is not None for one in late):
        p50, p99, most = (f"{one:.0f} ms" for one in late if one is not None)
        console.print(
            f"  lateness of {len(verdict.lateness_ms)} closes: p50 {p50}, p99 {p99}, max {most}",
            markup=False,
            soft_wrap=True,
        )
    for words, n in told.items():
        console.print(f"  {words}: {n}", markup=False, soft_wrap=True)
