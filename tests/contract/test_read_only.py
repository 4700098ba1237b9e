"""A server that takes no writes is noticed at the start, not at the first close."""

import pytest

from duetime.app import Duetime
from duetime.errors import ConfigError
from duetime.settings import load_settings
from tests.support.databases import FreshDatabase
from tests.support.small_shop import a_shop, run

pytestmark = pytest.mark.services


async def test_a_database_that_takes_no_writes_is_refused(fresh_database: FreshDatabase) -> None:
    url = fresh_database("postgresql")
    name = url.rpartition("/")[2]
    async with a_shop(url) as (_, engine):
        await run(engine, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    settings = load_settings(None, environ={}, store={"url": url})
    with pytest.raises(ConfigError, match="nothing can be written here: default_transaction_read_only is on; name"):
        async with Duetime(settings):
            pytest.fail("it must not be served")
