"""How far long work has come: one moving line on a terminal, a log line every few seconds elsewhere."""

import sys
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.status import Status

from duetime import logs
from duetime.clock import Clock, SystemClock

EVERY_SECONDS: Final = 5.0


class Progress:
    """Tells on standard error how far ``what`` has come, for as long as the block lasts."""

    def __init__(self, what: str, *, clock: Clock | None = None, terminal: bool | None = None) -> None:
        """Say nothing yet."""
        self._what = what
        self._clock = clock or SystemClock()
        on_terminal = sys.stderr.isatty() if terminal is None else terminal
        self._status = Status(what, console=Console(stderr=True)) if on_terminal else None
        self._told_at = self._clock.monotonic()

    def __enter__(self) -> Self:
        """Begin."""
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the moving line away."""
        if self._status:
            self._status.stop()

    def counted(self, **counts: int) -> None:
        """Hear how far it is."""
        if self._status:
            self._status.update(f"{self._what}: " + ", ".join(f"{count:,} {name}" for name, count in counts.items()))
            return
        now = self._clock.monotonic()
        if now - self._told_at >= EVERY_SECONDS:
            self._told_at = now
            logs.logger().info(self._what, **counts)

    def said(self, words: str) -> None:
        """Hear a step; steps are few, and each is told."""
        if self._status:
            self._status.console.print(words, markup=False, highlight=False)
        else:
            logs.logger().info(words)
