"""The store contract on SQLite."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from duetime.testing.suites import StoreBench, StoreSuite
from tests.support.sql_bench import cleared, create_tables, sql_bench


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StoreBench]:
    url = f"sqlite:///{tmp_path_factory.mktemp('sqlite') / 'shop.db'}"
    await create_tables(url)
    async with sql_bench(url, locks_rows=False) as bench:
        yield bench


@pytest.mark.asyncio(loop_scope="module")
class TestSQLiteStore(StoreSuite):
    @pytest_asyncio.fixture(loop_scope="module")
    async def bench(self, opened: StoreBench) -> StoreBench:
        return await cleared(opened)
