"""The batcher: no waiting when idle, the nearest deadline first, bounded, and no order twice at the same time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from duetime.batcher import Batcher, BatcherOptions, Entry
from duetime.testing import ManualClock


class Writes:
    """A writer that is told when to finish each batch."""

    def __init__(self) -> None:
        self.begun: list[list[str]] = []
        self.open = asyncio.Semaphore(0)
        self.at_once = self.most_at_once = 0
        self.items: dict[str, list[int]] = {}

    async def __call__(self, batch: Sequence[Entry[int]]) -> None:
        self.begun.append([entry.key for entry in batch])
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.open.acquire()
        self.items |= {entry.key: list(entry.items) for entry in batch}
        self.at_once -= 1


@asynccontextmanager
async def batching(writes: Writes, **options: int) -> AsyncIterator[Batcher[int]]:
    batcher = Batcher(writes, BatcherOptions(**options))
    batcher.start()
    try:
        yield batcher
    finally:
        for _ in range(100):
            writes.open.release()
        await batcher.stop()


def entries(*keys: str, due: int = 0) -> list[Entry[int]]:
    return [Entry(key, due, [n]) for n, key in enumerate(keys)]


async def turns() -> None:
    """Let every task do what it can do now."""
    await ManualClock().advance(0)


async def test_one_order_is_written_at_once_and_the_next_gather_meanwhile() -> None:
    writes = Writes()
    async with batching(writes, writers=1) as batcher:
        await batcher.put(entries("a"))
        await turns()
        assert writes.begun == [["a"]]
        await batcher.put(entries("b"))
        await batcher.put(entries("c", "d"))
        await turns()
        assert writes.begun == [["a"]]
        writes.open.release()
        await turns()
        assert writes.begun == [["a"], ["b", "c", "d"]]


async def test_the_nearest_deadline_goes_first_and_batches_are_bounded() -> None:
    writes = Writes()
    async with batching(writes, writers=1, size=2) as batcher:
        await batcher.put(entries("first"))
        await turns()
        await batcher.put([*entries("late", due=30), *entries("early", due=10), *entries("middle", due=20)])
        writes.open.release()
        writes.open.release()
        await turns()
        assert writes.begun == [["first"], ["early", "middle"], ["late"]]


async def test_writers_are_bounded() -> None:
    writes = Writes()
    async with batching(writes, writers=2, size=1) as batcher:
        await batcher.put(entries("a", "b", "c", "d"))
        await turns()
        assert writes.most_at_once == 2
        assert len(writes.begun) == 2


async def test_an_order_that_waits_is_taken_once_with_all_that_was_said_of_it() -> None:
    writes = Writes()
    async with batching(writes, writers=1) as batcher:
        await batcher.put(entries("first"))
        await turns()
        await batcher.put([Entry("a", 1, [1]), Entry("a", 1, [2])])
        writes.open.release()
        writes.open.release()
        await turns()
        assert writes.begun == [["first"], ["a"]]
        assert writes.items["a"] == [1, 2]


async def test_an_order_that_is_being_written_goes_in_again_afterwards() -> None:
    """Its outcome may be decided already, so what is said meanwhile must not be lost in it."""
    writes = Writes()
    async with batching(writes, writers=2) as batcher:
        await batcher.put([Entry("a", 1, [1])])
        await turns()
        await batcher.put([Entry("a", 1, [2])])
        await turns()
        assert writes.begun == [["a"]]
        writes.open.release()
        writes.open.release()
        await turns()
        assert writes.begun == [["a"], ["a"]]
        assert writes.items["a"] == [2]


async def test_whoever_brings_too_much_waits_until_there_is_room() -> None:
    writes = Writes()
    async with batching(writes, writers=1, size=2, waiting_at_most=3) as batcher:
        putting = asyncio.ensure_future(batcher.put(entries(*"abcdefgh")))
        await turns()
        assert not putting.done()
        assert batcher.waiting <= 3
        for _ in range(4):
            writes.open.release()
            await turns()
        await putting


async def test_stopping_finishes_what_is_being_written_and_lets_nobody_wait() -> None:
    writes = Writes()
    batcher = Batcher(writes, BatcherOptions(size=1, writers=1, waiting_at_most=1))
    batcher.start()
    putting = asyncio.ensure_future(batcher.put(entries("a", "b", "c", "d")))
    await turns()
    stopping = asyncio.ensure_future(batcher.stop())
    await turns()
    assert not stopping.done()
    writes.open.release()
    await asyncio.wait_for(asyncio.gather(stopping, putting), 5)
    assert writes.begun == [["a"]]
