"""A world in which whole workers live on a clock that is moved by hand, and in which everything goes wrong.

Each worker is what ``duetime run`` wires, on the model of a store. Between it and the store stands all that happens to
a process: its steps fail, its answers are lost, it is slow, it freezes, it is killed at any await. What it believes of
the time is wrong, drifts and jumps. The store alone is right; it serializes writers, so waiting for locks is not part
of this world (real servers show that, in ``tests/race``).
"""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any

from duetime.errors import DuetimeError
from duetime.settings import Settings, load_settings
from duetime.store import FullTransaction
from duetime.stores.memory import MemoryStore
from duetime.testing import ManualClock
from duetime.testing.faults import (
    ANSWER_LOST,
    BEGIN,
    DEADLOCK,
    NOT_COMMITTED,
    Crash,
    Fault,
    FaultyStore,
    FaultyTrigger,
    RandomFaults,
    Unreliable,
    When,
)
from duetime.wiring import Wired, assemble

GRACE = timedelta(milliseconds=500)
LEASE = timedelta(seconds=5)
SETTINGS: Settings = load_settings(
    environ={},
    store={"url": "sqlite:///never-opened.db"},
    timeouts={"default": "5s", "grace": "500ms"},
    sweep={"interval": "3s", "page_size": 7, "pause": "10ms"},
    closing={"lease": "5s", "batch_size": 5, "max_extension": "1h", "closes_per_second": 500},
    triggers=[{"type": "database"}],
)

LIFE: ContextVar["Life | None"] = ContextVar("LIFE", default=None)
KINDS = (DEADLOCK, ANSWER_LOST, NOT_COMMITTED, Fault(DEADLOCK.error, When.AFTER))


class Life:
    """One process from its start to its end: all of its tasks, and whether it is frozen."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()
        self.awake = asyncio.Event()
        self.awake.set()
        self.dead = False

    async def go_on(self) -> None:
        """Wait while frozen; end where killed."""
        await self.awake.wait()
        if self.dead:
            raise Crash

    async def kill(self) -> None:
        """End every task wherever it stands; what it does on its way out reaches nobody any more."""
        self.dead = True
        self.awake.set()
        for task in tuple(self.tasks):
            task.cancel()
        await asyncio.gather(*tuple(self.tasks), return_exceptions=True)


def tasks_belong_to_lives(loop: asyncio.AbstractEventLoop, work: Any, **how: Any) -> Any:  # noqa: ANN401 - a task factory
    """Make a task, and note whose it is."""
    task = asyncio.Task(work, loop=loop, **how)
    life = LIFE.get()
    if life is not None:
        life.tasks.add(task)
        task.add_done_callback(life.tasks.discard)
    return task


class WrongClock:
    """A machine's clock: minutes off, a little fast or slow, and still while its process is frozen."""

    def __init__(self, right: ManualClock, life: Life, chance: random.Random) -> None:
        self._right, self._life = right, life
        self._off = timedelta(seconds=chance.uniform(-600, 600))
        self._rate = 1 + chance.uniform(-2e-4, 2e-4)

    def now(self) -> datetime:
        return self._right.now() + self._off

    def monotonic(self) -> float:
        return self._right.monotonic() * self._rate

    async def sleep(self, seconds: float) -> None:
        await self._right.sleep(seconds / self._rate)
        await self._life.go_on()

    def jump(self, by: timedelta) -> None:
        self._off += by


class FarStore:
    """The store as a process has it: its answers take their time, and none reaches the dead or the frozen."""

    def __init__(self, store: FaultyStore, life: Life, clock: ManualClock, chance: random.Random) -> None:
        self._store, self._life, self._clock, self._chance = store, life, clock, chance
        self.name, self.capabilities = store.name, store.capabilities
        self.slow = 0.02

    async def check(self) -> None:
        await self._store.check()

    @asynccontextmanager
    async def transaction(self, *, write: bool = True) -> AsyncIterator[FullTransaction]:
        await self._way()
        async with self._store.transaction(write=write) as tx:
            yield tx
            if self._life.dead:
                raise Crash
        await self._way()

    async def _way(self) -> None:
        slow = 2.0 if self._chance.random() < self.slow else 0.004
        await self._clock.sleep(self._chance.uniform(0, slow))
        await self._life.go_on()

    async def aclose(self) -> None:
        """Nothing to give back."""


class Outage:
    """Faults at random, and none at all answered while the store is away."""

    def __init__(self, seed: int, rate: float) -> None:
        self._random = RandomFaults(seed, rate, KINDS)
        self.away = self.over = False

    def next(self, operation: str) -> Fault | None:
        if self.over:
            return None
        if self.away and operation == BEGIN:
            return NOT_COMMITTED
        return self._random.next(operation)


class Process:
    """A worker, or what customers use: everything that a kill takes away."""

    def __init__(self, world: "World", name: str, *, works: bool) -> None:
        self.life = Life()
        seed = world.chance.randrange(2**32)
        self.clock = WrongClock(world.clock, self.life, world.chance)
        self.faults = Outage(seed, world.fault_rate)
        self.store = FarStore(
            FaultyStore(world.store, self.faults), self.life, world.clock, random.Random(seed)
        )  # fmt: skip
        self.wired: Wired = assemble(SETTINGS, self.store, clock=self.clock, worker=name)
        listening = self.wired.service._parts.listening
        assert listening is not None
        how = Unreliable(loses=0.05, repeats=0.1, delays=0.1, reorders=0.3)
        listening.triggers = [FaultyTrigger(one, how, seed=seed) for one in listening.triggers]
        if works:
            self.run(self._start())

    async def _start(self) -> None:
        self.wired.service.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Do something in this process; what it answers reaches nobody where it fails."""

        async def done() -> object:
            with suppress(DuetimeError, Crash):
                return await work
            return None

        token = LIFE.set(self.life)
        try:
            return asyncio.create_task(done())
        finally:
            LIFE.reset(token)


class World:
    """A shop, its workers and its customers."""

    def __init__(self, seed: int, *, workers: int = 3) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.fault_rate = self.chance.choice((0.0, 0.01, 0.05))
        self.clock = ManualClock()
        self.store = MemoryStore(list(SETTINGS.assets), clock=self.clock, states=SETTINGS.orders.states)
        self.customers = Process(self, "customers", works=False)
        self.names = [f"worker-{n}" for n in range(workers)]
        self.workers: dict[str, Process] = {name: Process(self, name, works=True) for name in self.names}

    @property
    def processes(self) -> list[Process]:
        return [self.customers, *self.workers.values()]

    async def kill(self, name: str) -> None:
        await self.workers.pop(name).life.kill()

    def start(self, name: str) -> None:
        if name not in self.workers:
            self.workers[name] = Process(self, name, works=True)

    async def calm(self, seconds: float) -> None:
        """Nothing goes wrong any more, and everybody is there; let time pass."""
        self.store.locked_orders.clear()
        self.store.locked_assets.clear()
        for process in self.processes:
            process.faults.over = True
            process.life.awake.set()
        for name in self.names:
            self.start(name)
            self.workers[name].faults.over = True
        await self.clock.advance(seconds)

    async def end(self) -> None:
        for process in self.processes:
            await process.life.kill()
