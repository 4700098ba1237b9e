"""The model keeps the contract that it is the model of."""

import pytest

from duetime.stores.memory import MemoryStore
from duetime.testing import ManualClock
from duetime.testing.memory_hand import MemoryShopHand
from duetime.testing.suites import StoreBench, StoreSuite, suite_assets


class TestMemoryStore(StoreSuite):
    @pytest.fixture
    async def bench(self) -> StoreBench:
        store = MemoryStore(suite_assets(), ManualClock())
        return StoreBench(store, MemoryShopHand(store))
