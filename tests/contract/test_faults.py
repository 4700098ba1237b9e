"""The faulty store fails where it was told to, and each failure leaves what it should."""

import asyncio

import pytest

from duetime.errors import StoreConflict, StoreUnavailable
from duetime.stores.memory import MemoryStore
from duetime.testing import ManualClock
from duetime.testing.faults import (
    ANSWER_LOST,
    BEGIN,
    COMMIT,
    KINDS,
    NOT_COMMITTED,
    Crash,
    Fault,
    FaultAtStep,
    FaultsAt,
    FaultyStore,
    NoFaults,
    RandomFaults,
    When,
    crash_at_await,
)
from duetime.testing.memory_hand import MemoryShopHand
from duetime.testing.suites import StoreBench, StoreSuite, suite_assets
from duetime.testing.suites.bench import some_fact
from tests.support.waiting import let_pass


class TestFaultyStoreWithoutFaults(StoreSuite):
    @pytest.fixture
    async def bench(self) -> StoreBench:
        store = MemoryStore(suite_assets(), ManualClock())
        return StoreBench(FaultyStore(store), MemoryShopHand(store))


async def write(store: FaultyStore) -> None:
    async with store.transaction() as tx:
        now = await tx.now()
        await tx.add_facts([some_fact()], now)


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore(suite_assets(), ManualClock())


async def test_the_steps_of_a_transaction_are_counted(memory: MemoryStore) -> None:
    plan = NoFaults()
    await write(FaultyStore(memory, plan))
    assert plan.steps == [BEGIN, "now", "add_facts", COMMIT]


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("fault", KINDS, ids=lambda fault: f"{fault.error.__name__}-{fault.when}")
async def test_only_a_fault_after_the_commit_leaves_anything(memory: MemoryStore, step: int, fault: Fault) -> None:
    with pytest.raises(fault.error):
        await write(FaultyStore(memory, FaultAtStep(step, fault)))
    committed = step == 3 and fault.when is When.AFTER
    assert len(memory.data.facts) == committed
    await write(FaultyStore(memory))
    assert len(memory.data.facts) == committed + 1


async def test_the_two_lost_commits_look_alike_and_are_not(memory: MemoryStore) -> None:
    store = FaultyStore(memory, FaultsAt({COMMIT: [NOT_COMMITTED, None, ANSWER_LOST]}))
    for expected in (0, 1, 2):
        try:
            await write(store)
        except StoreUnavailable:
            assert expected != 1
        assert len(memory.data.facts) == expected


async def test_a_transaction_is_over_after_a_fault_though_the_error_was_swallowed(memory: MemoryStore) -> None:
    store = FaultyStore(memory, FaultsAt({"now": [Fault(StoreConflict)]}))

    async def swallow() -> None:
        async with store.transaction() as tx:
            try:
                await tx.now()
            except StoreConflict:
                await tx.add_facts([some_fact()], memory.clock.now())

    with pytest.raises(StoreConflict):
        await swallow()
    assert memory.data.facts == {}


async def test_the_same_seed_fails_in_the_same_way(memory: MemoryStore) -> None:
    async def run(seed: int) -> list[str]:
        store, seen = FaultyStore(memory, RandomFaults(seed, 0.3)), list[str]()
        for _ in range(50):
            try:
                await write(store)
                seen.append("well")
            except (StoreConflict, StoreUnavailable, Crash) as error:
                seen.append(repr(error))
        return seen

    assert await run(7) == await run(7) != await run(8)


@pytest.mark.parametrize("turns", range(6))
async def test_work_that_is_cancelled_anywhere_leaves_all_or_nothing(memory: MemoryStore, turns: int) -> None:
    async def slow_write() -> None:
        async with memory.transaction() as tx:
            await tx.add_facts([some_fact()], await tx.now())
            await let_pass(0, because="here the work can be cancelled")
            await tx.add_facts([some_fact()], await tx.now())
            await let_pass(0, because="here the work can be cancelled")

    await crash_at_await(asyncio.ensure_future(slow_write()), turns)
    assert len(memory.data.facts) in {0, 2}
