"""The store contract on PostgreSQL; all tests share connections, because opening them takes longer than most tests."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from duetime.testing.suites import StoreBench, StoreSuite
from tests.support.servers import PostgreSQLServer
from tests.support.sql_bench import cleared, filled_database, sql_bench


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(postgresql_server: PostgreSQLServer) -> AsyncIterator[StoreBench]:
    with filled_database(postgresql_server) as url:
        async with sql_bench(url) as bench:
            yield bench


@pytest.mark.asyncio(loop_scope="module")
class TestPostgreSQLStore(StoreSuite):
    @pytest_asyncio.fixture(loop_scope="module")
    async def bench(self, opened: StoreBench) -> StoreBench:
        return await cleared(opened)
