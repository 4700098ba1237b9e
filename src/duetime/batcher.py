"""The batcher: while one batch is being written, the next one gathers.

Nothing waits for a batch to fill: whoever comes while a writer is idle is written at once, alone if need be. What comes
while all writers are at work waits, earliest deadline first, and goes out together with whatever else has come, up to
``size``. That is how one order costs no delay, and a burst costs few transactions.

A key that waits is not taken a second time; what came with it is kept beside it and learns the same outcome. One that
is being written goes in again afterwards. ``put`` waits while too much waits here: that holds back the wheel, and
through it the triggers.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Entry(Generic[T]):
    """One order: when it is due (ticks), and all that was said about it."""

    key: str
    due: int
    items: list[T] = field(default_factory=list)
    tries: int = 0


@dataclass(frozen=True, slots=True)
class BatcherOptions:
    """``size``: of a batch. ``writers``: batches written at once. ``waiting_at_most``: orders that may wait here."""

    size: int = 500
    writers: int = 2
    waiting_at_most: int = 10_000


class Batcher(Generic[T]):
    """Gathers entries and hands them on in batches."""

    def __init__(self, write: Callable[[Sequence[Entry[T]]], Awaitable[None]], options: BatcherOptions) -> None:
        """Hand batches to ``write``, which must not raise; nothing runs before ``start``."""
        self._write = write
        self._options = options
        self._known: dict[str, Entry[T]] = {}
        self._waiting: list[tuple[int, int, Entry[T]]] = []
        self._written: set[Entry[T]] = set()
        self._later: dict[str, list[Entry[T]]] = {}
        self._number = 0
        self._changed = asyncio.Condition()
        self._stopping = False
        self._writers: list[asyncio.Task[None]] = []

    @property
    def waiting(self) -> int:
        """How many orders wait to be written."""
        return len(self._waiting)

    def start(self) -> None:
        """Start the writers."""
        self._stopping = False
        names = [f"duetime batch writer {n}" for n in range(self._options.writers)]
        self._writers = [asyncio.create_task(self._run(), name=name) for name in names]

    async def put(self, entries: Sequence[Entry[T]]) -> None:
        """Take entries, in parts where there is no room for all of them at once; after ``stop`` they are dropped."""
        async with self._changed:
            for entry in entries:
                if not self._has_room():
                    self._changed.notify_all()
                    await self._changed.wait_for(self._has_room)
                if self._stopping:
                    return
                self._take(entry)
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return self._stopping or len(self._waiting) < self._options.waiting_at_most

    def _take(self, entry: Entry[T]) -> None:
        known = self._known.setdefault(entry.key, entry)
        if known is entry:
            self._number += 1
            heapq.heappush(self._waiting, (entry.due, self._number, entry))
        elif known in self._written:
            # Its outcome may be decided already: it goes in again when this batch is done.
            self._later.setdefault(entry.key, []).append(entry)
        else:
            known.items += entry.items

    async def stop(self, *, patience_seconds: float = 8.0) -> None:
        """Let the batches in hand be written, for so long; what waits is dropped: the store knows it still."""
        async with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._writers:
            _, late = await asyncio.wait(self._writers, timeout=patience_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._writers, return_exceptions=True)
        self._writers, self._waiting, self._known, self._later = [], [], {}, {}
        self._written.clear()

    async def _run(self) -> None:
        while batch := await self._next():
            try:
                await self._write(batch)
            finally:
                async with self._changed:
                    self._done(batch)
                    self._changed.notify_all()

    def _done(self, batch: Sequence[Entry[T]]) -> None:
        for entry in batch:
            self._written.discard(entry)
            self._known.pop(entry.key, None)
            for later in self._later.pop(entry.key, ()):
                self._take(later)

    async def _next(self) -> list[Entry[T]]:
        async with self._changed:
            await self._changed.wait_for(lambda: self._stopping or bool(self._waiting))
            if self._stopping:
                return []
            count = min(self._options.size, len(self._waiting))
            batch = [heapq.heappop(self._waiting)[2] for _ in range(count)]
            self._written.update(batch)
            self._changed.notify_all()
            return batch
