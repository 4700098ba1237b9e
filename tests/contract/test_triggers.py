"""The trigger suite on the reference implementation, and on one that is as unreliable as the contract allows."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from duetime.testing import ManualClock
from duetime.testing.faults import FaultyTrigger, Unreliable
from duetime.testing.memory_trigger import MemoryTrigger
from duetime.testing.suites import TriggerBench, TriggerSuite
from duetime.triggers.wheel import WheelTrigger


class TestMemoryTrigger(TriggerSuite):
    @pytest.fixture
    async def bench(self) -> AsyncIterator[TriggerBench]:
        clock = ManualClock()
        bench = TriggerBench(MemoryTrigger(clock), clock)
        yield bench
        await bench.trigger.aclose()


class TestMemoryTriggerThatTakesNothingBack(TestMemoryTrigger):
    @pytest.fixture
    async def bench(self) -> AsyncIterator[TriggerBench]:
        clock = ManualClock()
        trigger = MemoryTrigger(clock)
        trigger.limits = replace(trigger.limits, can_disarm=False, longest_delay=None, precision=timedelta(seconds=1))
        yield TriggerBench(trigger, clock)
        await trigger.aclose()


class TestWheelTrigger(TriggerSuite):
    @pytest.fixture
    async def bench(self) -> TriggerBench:
        clock = ManualClock()
        return TriggerBench(WheelTrigger(clock, name="wheel"), clock)


class TestTriggerThatRepeatsAndReorders(TriggerSuite):
    @pytest.fixture
    async def bench(self) -> AsyncIterator[TriggerBench]:
        clock = ManualClock()
        trigger = FaultyTrigger(MemoryTrigger(clock), Unreliable(repeats=0.5, reorders=0.5), seed=7)
        yield TriggerBench(trigger, clock)
        await trigger.aclose()
