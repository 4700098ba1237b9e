"""Stores and triggers that fail on purpose, as real ones do.

``FaultyStore`` goes wrong at chosen points of a transaction: before an operation, after it, or at the commit, where
both endings are possible: the commit did not take place, or it did and only its answer was lost. To the caller they
look alike, which is the whole difficulty. ``Crash`` stands for the end of the process at that point: nothing that
handles errors may catch it.

``FaultyTrigger`` loses signals, says them twice, says them late and out of order, and says what was settled again.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, cast

from duetime.errors import StoreConflict, StoreUnavailable
from duetime.store import FullTransaction, Store
from duetime.trigger import Arming, ArmResult, Signal, Trigger, TriggerHealth

BEGIN, COMMIT = "begin", "commit"


class Crash(BaseException):
    """The process ends here. A test catches it, throws the process's objects away and starts new ones."""


class When(StrEnum):
    """Before an operation took place, or after it, when only the answer is missing."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong: ``error`` is raised before or after the operation."""

    error: type[BaseException] = StoreUnavailable
    when: When = When.BEFORE


ANSWER_LOST = Fault(StoreUnavailable, When.AFTER)
"""At a commit: it took place, and nobody is told."""

NOT_COMMITTED = Fault(StoreUnavailable, When.BEFORE)
"""At a commit: the connection was lost on the way there."""

DEADLOCK = Fault(StoreConflict, When.BEFORE)

KINDS = (
    DEADLOCK,
    ANSWER_LOST,
    NOT_COMMITTED,
    Fault(StoreConflict, When.AFTER),
    Fault(Crash, When.BEFORE),
    Fault(Crash, When.AFTER),
)
"""Every way in which a step can end badly."""


class FaultPlan(Protocol):
    """Decides at every step whether something goes wrong."""

    def next(self, operation: str) -> Fault | None:
        """Answer the fault of this step; ``operation`` is a method of the contract, ``begin`` or ``commit``."""
        ...


class NoFaults:
    """Nothing goes wrong; counts the steps, so that a test can then fail at each of them in turn."""

    def __init__(self) -> None:
        """Start at no steps."""
        self.steps: list[str] = []

    def next(self, operation: str) -> Fault | None:
        """Count."""
        self.steps.append(operation)
        return None


class FaultAtStep:
    """The n-th step from now on goes wrong (the first is 0), all others go well."""

    def __init__(self, step: int, fault: Fault) -> None:
        """Plan one fault."""
        self._faults = {step: fault}
        self._step = -1

    def next(self, operation: str) -> Fault | None:  # noqa: ARG002 -- the number decides, not the name
        """Answer the fault of this step."""
        self._step += 1
        return self._faults.get(self._step)


class FaultsAt:
    """Given operations go wrong, each as often as it has faults in its list, then well."""

    def __init__(self, faults: Mapping[str, Sequence[Fault | None]]) -> None:
        """Plan by the name of the operation; None stands for a time that goes well."""
        self._faults = {name: list(planned) for name, planned in faults.items()}

    def next(self, operation: str) -> Fault | None:
        """Answer the next fault of this operation."""
        planned = self._faults.get(operation)
        return planned.pop(0) if planned else None


class RandomFaults:
    """Any step goes wrong with a given probability; the same seed fails in the same way."""

    def __init__(self, seed: int, rate: float, kinds: Sequence[Fault] = KINDS) -> None:
        """Draw from ``kinds`` at ``rate``."""
        self._random = random.Random(seed)
        self._rate = rate
        self._kinds = kinds

    def next(self, operation: str) -> Fault | None:  # noqa: ARG002 -- chance decides
        """Draw."""
        return self._random.choice(self._kinds) if self._random.random() < self._rate else None


class FaultyStore:
    """A store with faults; ``plan`` can be exchanged at any time."""

    def __init__(self, store: Store, plan: FaultPlan | None = None) -> None:
        """Stand in front of ``store``."""
        self._store = store
        self.plan: FaultPlan = plan or NoFaults()
        self.name = store.name
        self.capabilities = store.capabilities

    async def check(self) -> None:
        """Pass on."""
        await self._store.check()

    @asynccontextmanager
    async def transaction(self, *, write: bool = True) -> AsyncIterator[FullTransaction]:
        """Open a transaction that may end at any of its steps."""
        begin = self.plan.next(BEGIN)
        if begin is not None:
            raise begin.error("on purpose, at the beginning")
        lost: Fault | None = None
        async with self._store.transaction(write=write) as tx:
            faulty = _FaultyTransaction(tx, self)
            yield cast("FullTransaction", faulty)
            faulty.refuse_after_a_fault()
            lost = self.plan.next(COMMIT)
            if lost is not None and lost.when is When.BEFORE:
                raise lost.error("on purpose, on the way to the commit")
        if lost is not None:
            raise lost.error("on purpose, after the commit")

    async def aclose(self) -> None:
        """Pass on."""
        await self._store.aclose()


class _FaultyTransaction:
    """Every operation of the contract, by name: a wrapper that listed them would have to be changed with each."""

    def __init__(self, tx: FullTransaction, store: FaultyStore) -> None:
        self._tx = tx
        self._store = store
        self._broken: BaseException | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- any method of the contract
        operation = getattr(self._tx, name)

        async def with_fault(*args: object, **kwargs: object) -> object:
            self.refuse_after_a_fault()
            fault = self._store.plan.next(name)
            if fault is not None and fault.when is When.BEFORE:
                self._fail(fault, name)
            result = await operation(*args, **kwargs)
            if fault is not None:
                self._fail(fault, name)
            return result

        return with_fault

    def refuse_after_a_fault(self) -> None:
        """Keep a caller who swallowed an error from going on: the transaction is gone."""
        if self._broken is not None:
            raise self._broken

    def _fail(self, fault: Fault, name: str) -> None:
        self._broken = fault.error(f"on purpose, {fault.when} {name}")
        raise self._broken


@dataclass(frozen=True, slots=True)
class Unreliable:
    """How often a trigger does what it may do: shares between 0 and 1, and how many signals a delay holds back."""

    loses: float = 0.0
    repeats: float = 0.0
    delays: float = 0.0
    reorders: float = 0.0


class FaultyTrigger:
    """A trigger as unreliable as the contract allows, and (``loses``) a little more."""

    def __init__(self, trigger: Trigger, how: Unreliable, *, seed: int = 0) -> None:
        """Stand in front of ``trigger``."""
        self._trigger = trigger
        self._how = how
        self._random = random.Random(seed)
        self._held_back: list[Signal] = []
        self.name = trigger.name
        self.limits = trigger.limits

    async def arm(self, armings: Sequence[Arming]) -> ArmResult:
        """Arm, but lose some."""
        kept = [arming for arming in armings if not self._happens(self._how.loses)]
        return await self._trigger.arm(kept)

    async def disarm(self, order_nos: Sequence[str]) -> None:
        """Pass on."""
        await self._trigger.disarm(order_nos)

    async def signals(self) -> AsyncIterator[Sequence[Signal]]:
        """Say them, with faults. What is held back comes with the next list."""
        async for signals in self._trigger.signals():
            said = self._held_back + list(signals)
            self._held_back = [signal for signal in said if self._happens(self._how.delays)]
            said = [signal for signal in said if signal not in self._held_back]
            said += [signal for signal in said if self._happens(self._how.repeats)]
            if self._happens(self._how.reorders):
                self._random.shuffle(said)
            if said:
                yield said

    async def settle(self, signals: Sequence[Signal]) -> None:
        """Settle, but lose some, which then come again."""
        await self._trigger.settle([signal for signal in signals if not self._happens(self._how.loses)])

    async def postpone(self, signals: Sequence[Signal], until: datetime) -> None:
        """Pass on."""
        await self._trigger.postpone(signals, until)

    async def ping(self) -> TriggerHealth:
        """Pass on."""
        return await self._trigger.ping()

    async def aclose(self) -> None:
        """Pass on."""
        await self._trigger.aclose()

    def _happens(self, share: float) -> bool:
        return self._random.random() < share


async def crash_at_await(work: "asyncio.Task[Any]", turns: int) -> None:
    """Cancel ``work`` after ``turns`` turns of the event loop, as a kill would meet it anywhere; wait for its end."""
    for _ in range(turns):
        if work.done():
            break
        await asyncio.sleep(0)
    work.cancel()
    await asyncio.wait([work])
