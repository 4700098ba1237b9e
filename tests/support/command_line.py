"""`duetime` as somebody at a shell sees it, on a database of its own, and the shop's hand beside it."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, TypeVar
from unittest.mock import patch

import structlog

from duetime.cli import run
from duetime.config.database_url import async_url
from duetime.hold import HeldHold, Hold
from duetime.testing.shop_hand import ShopRow, StockRow
from duetime.testing.sql_hand import SqlShopHand
from tests.support.servers import run_apart
from tests.support.waiting import eventually_sync

SECONDS_MAX = 60
STOP_SECONDS_MAX = 10

T = TypeVar("T")


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:  # noqa: ANN401 -- whatever JSON a command prints
        return json.loads(self.out)


@dataclass
class CommandLine:
    """The command, in a folder without a config; the environment names the database."""

    url: str
    folder: Path
    more: dict[str, str] = field(default_factory=dict)
    running: ExitStack = field(default_factory=ExitStack)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        return {**kept, "DUETIME_STORE__URL": self.url, **self.more}

    def __call__(self, *arguments: str, stdin: str = "") -> Said:
        """Run a command in this process, which takes a tenth of the time of one of its own."""
        out, err = io.StringIO(), io.StringIO()
        with self._as_if_alone(stdin), redirect_stdout(out), redirect_stderr(err):
            code = run(arguments)
        assert "Traceback" not in err.getvalue(), err.getvalue()
        return Said(code, out.getvalue(), err.getvalue())

    @contextmanager
    def _as_if_alone(self, stdin: str) -> Iterator[None]:
        """Give the command its folder and environment, and take back what it did to this process's logs."""
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        typed = patch.object(sys, "stdin", io.StringIO(stdin))
        with chdir(self.folder), patch.dict(os.environ, self.environment, clear=True), typed:
            try:
                yield
            finally:
                root.handlers[:], root.level = handlers, level
                structlog.reset_defaults()

    def alone(self, *arguments: str, stdout: IO[str] | None = None, stderr: IO[str] | None = None) -> Said:
        """Run a command in a process of its own, as a shell does; what it prints may go elsewhere."""
        command = [sys.executable, "-m", "duetime", *arguments]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout or subprocess.PIPE,
            stderr=stderr or subprocess.PIPE,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert "Traceback" not in (done.stderr or ""), done.stderr
        return Said(done.returncode, done.stdout or "", done.stderr or "")

    def start(self, *arguments: str) -> "Worker":
        """Start a command that goes on until it is told to stop."""
        log = self.folder / f"{arguments[0]}-{len(list(self.folder.glob('*.log')))}.log"
        command = [sys.executable, "-m", "duetime", *arguments]
        with log.open("w") as stream:
            process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stderr=stream, text=True)
        self.running.callback(_end, process)
        return Worker(process, log)

    # The shop's hand

    def shop(self, work: Callable[[SqlShopHand], Awaitable[T]]) -> T:
        """Do something by the shop's own hand."""

        async def done() -> T:
            hand = SqlShopHand(async_url(self.url))
            try:
                return await work(hand)
            finally:
                await hand.aclose()

        return run_apart(done())

    def add_orders(self, count: int, *, late: timedelta, prefix: str = "o", hold: bool = True) -> list[str]:
        """Write orders whose deadline passed ``late`` ago, each with one unit of sku-1; as a shop's own code would."""
        numbers = [f"{prefix}-{n:05}" for n in range(count)]
        expire_at = datetime.now(UTC) - late

        async def write(hand: SqlShopHand) -> None:
            await hand.add_orders([ShopRow(number, expire_at) for number in numbers])
            if hold:
                await hand.add_holds([HeldHold(number, Hold("stock", "sku-1", 1)) for number in numbers])
                stock = (await hand.stock()).get("sku-1", StockRow("sku-1", 10))
                await hand.put_stock([StockRow("sku-1", stock.available, stock.held + count)])

        self.shop(write)
        return numbers

    def statuses(self) -> dict[str, str]:
        return {number: row.status for number, row in self.shop(lambda hand: hand.orders()).items()}

    def stock(self) -> dict[str, tuple[int, int]]:
        return {sku: (row.available, row.held) for sku, row in self.shop(lambda hand: hand.stock()).items()}


@dataclass
class Worker:
    """A command that goes on."""

    process: "subprocess.Popen[str]"
    log: Path

    def lines(self) -> list[dict[str, Any]]:
        """Read its log: one JSON object in each whole line."""
        return [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines()]

    def until(self, event: str) -> None:
        """Wait for a line of its log."""
        eventually_sync(f"{event!r} in the log", lambda: event in self.events(), seconds_max=SECONDS_MAX)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to stop, and answer its exit code."""
        self.process.send_signal(by)
        return self.process.wait(timeout=STOP_SECONDS_MAX)


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.kill()
        process.wait(timeout=STOP_SECONDS_MAX)
