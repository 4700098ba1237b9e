"""A worker in a process of its own, to be killed, frozen and woken: ``Worker`` starts this file with a config.

python -m tests.support.worker CONFIG REPORT [PLACE]

It runs what ``duetime run`` runs, and ends by SIGTERM. The report, written at the end, counts what the server refused,
by error code, and the outcomes of closing. With PLACE, as in "lock_orders ... commit", the process stops
itself by SIGSTOP in the first transaction that has come past one operation of the store's contract and to the other.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, event

from duetime import Duetime, wiring
from duetime.observer import Attempt, Followed, Watched
from duetime.order import outcome_word
from duetime.store import Failure, SweepRun
from duetime.stores.sql.store import SqlStore
from duetime.testing.faults import BEGIN, Fault, FaultyStore
from tests.support.shop_database import error_code
from tests.support.waiting import eventually, eventually_sync

REPOSITORY = Path(__file__).resolve().parents[2]
READY = "ready"
EXIT_SECONDS_MAX = 10


class Worker:
    """The process, from outside. Use it as a context manager: whatever became of it, it is gone afterwards."""

    def __init__(self, config: str, folder: Path, name: str, *, freeze_at: str | None = None) -> None:
        self.name = name
        self._config = folder / f"{name}.toml"
        self._config.write_text(config)
        self._report = folder / f"{name}.json"
        self._log = folder / f"{name}.log"
        self._freeze = [freeze_at] if freeze_at else []
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        files = [str(self._config), str(self._report)]
        command = [sys.executable, "-m", "tests.support.worker", *files, *self._freeze]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=log, text=True)
        return self

    def __enter__(self) -> Self:
        return self if self._process else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        if self.process.stdout:
            self.process.stdout.close()

    @property
    def process(self) -> "subprocess.Popen[str]":
        assert self._process is not None, "start it first"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def report(self) -> dict[str, dict[str, int]]:
        """What it wrote at its end."""
        report: dict[str, dict[str, int]] = json.loads(self._report.read_text())
        return report

    def until_ready(self) -> Self:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line == READY, f"{self.name} ended at its start:\n{self.log}"
        return self

    def kill(self) -> None:
        """End it at once, frozen or not."""
        self.process.kill()
        self.process.wait(timeout=EXIT_SECONDS_MAX)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        eventually_sync(f"{self.name} is frozen", lambda: self.is_frozen)

    async def until_frozen(self) -> None:
        await eventually(f"{self.name} freezes itself", lambda: self.is_frozen, seconds_max=30)

    @property
    def is_frozen(self) -> bool:
        # The state follows the program's name in brackets, which may itself hold brackets.
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def terminate(self) -> int:
        """Ask it to end; answer its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=EXIT_SECONDS_MAX)


@contextmanager
def workers(config: str, folder: Path, *names: str) -> Iterator[list[Worker]]:
    """Start several workers with the same configuration and wait until all are ready."""
    started = [Worker(config, folder, name).start() for name in names]
    try:
        yield [worker.until_ready() for worker in started]
    finally:
        for worker in started:
            worker.__exit__(None, None, None)


class Tally:
    """Counts what a worker hears, and what its database refuses."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.troubles: Counter[str] = Counter()
        event.listen(Engine, "handle_error", self._refused)

    def _refused(self, context: Any) -> None:  # noqa: ANN401 -- SQLAlchemy's
        self.errors[error_code(context.original_exception)] += 1

    def attempted(self, attempt: Attempt) -> None:
        self.outcomes.update(outcome_word(outcome) for _, outcome in attempt.outcomes)

    def swept(self, run: SweepRun) -> None:
        self.outcomes["sweep runs"] += 1
        del run

    def released(self, *, kind: str, ref: str, holds: int) -> None:
        self.outcomes["finished by the releaser"] += holds
        del kind, ref

    def followed(self, followed: Followed) -> None:
        self.outcomes.update({met.value: count for met, count in followed.settled.items()})

    def watched(self, watched: Watched) -> None:
        self.outcomes["would have closed"] += watched.would_close

    def failed(self, failure: Failure) -> None:
        self.outcomes[f"failed, now {failure.state}"] += 1

    def troubled(self, what: str, error: BaseException) -> None:
        self.troubles[what] += 1
        sys.stderr.write(f"{what}: {type(error).__name__}: {error}\n")

    def write(self, report: Path) -> None:
        content = {"outcomes": self.outcomes, "errors": self.errors, "troubles": self.troubles}
        report.write_text(json.dumps(content))


class Freezer:
    """Stops the process once, before an operation, in the first transaction that has come past another one."""

    def __init__(self, place: str) -> None:
        self._past, _, self._before = place.partition(" ... ")
        # Several transactions are open at a time, each in a task of its own.
        self._done: WeakKeyDictionary[object, set[str]] = WeakKeyDictionary()

    def next(self, operation: str) -> Fault | None:
        task = asyncio.current_task()
        done = self._done.setdefault(task, set())
        if operation == BEGIN:
            done.clear()
        if operation == self._before and self._past in done:
            self._before = ""
            os.kill(os.getpid(), signal.SIGSTOP)
        done.add(operation)
        return None


def freeze(place: str) -> None:
    """Let this process freeze once in the middle of a transaction."""
    real = SqlStore

    def freezing(*args: Any, **kwargs: Any) -> FaultyStore:  # noqa: ANN401 -- the store's own arguments
        return FaultyStore(real(*args, **kwargs), Freezer(place))

    wiring.SqlStore = freezing  # type: ignore[assignment, attr-defined]  # a store in front of a store


def say(word: str) -> None:
    """Tell whoever started this process."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def work(config: str, report: Path) -> None:
    tally, stop = Tally(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    app = Duetime.from_config(config, observers=[tally])
    async with app, app.running():
        say(READY)
        await stop.wait()
    tally.write(report)


def main(arguments: Sequence[str]) -> None:
    config, report, *places = arguments
    for place in places:
        freeze(place)
    asyncio.run(work(config, Path(report)))


if __name__ == "__main__":
    main(sys.argv[1:])
