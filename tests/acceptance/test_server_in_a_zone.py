"""A MariaDB whose own zone, that of its system, has daylight saving: as a machine in Berlin has it set up.

A zone that the server takes from its system is not read as one that it knows by name: in the hour that comes twice it
takes a local time for the other pass.
"""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acceptance.test_times_on_servers import BERLIN, COLUMNS, through_both_changes
from tests.docs.by_hand import run_sql
from tests.support.absence import without
from tests.support.databases import DatabaseKind, fresh_name
from tests.support.moved_time import MOVED
from tests.support.servers import MariaDBServer
from tests.support.services import Services

KIND: DatabaseKind = "mariadb"
pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def in_berlin() -> Iterator[MariaDBServer]:
    # Not tmp_path: when root runs the tests, the server's own account cannot enter it.
    folder = Path(tempfile.mkdtemp(prefix="duetime-services-"))
    folder.chmod(0o755)
    services = Services(folder)
    started = services.run("up", KIND, TZ=BERLIN)
    if started.returncode:
        without(KIND, started.stderr.strip())
    url = services.url(KIND)
    assert url is not None
    yield MariaDBServer(url)
    services.run("wipe")
    shutil.rmtree(folder, ignore_errors=True)


def test_server_is_in_berlin(in_berlin: MariaDBServer) -> None:
    ((zone, july, december),) = run_sql(
        in_berlin.url, "SELECT @@session.time_zone, FROM_UNIXTIME(1782900000), FROM_UNIXTIME(1796119200)"
    )
    assert (zone, f"{july}", f"{december}") == ("SYSTEM", "2026-07-01 12:00:00", "2026-12-01 11:00:00")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "name", ["timestamp", "timestamp-6", "plus-timestamp", "utc", "berlin-on-a-server-in-new-york"]
)
async def test_nothing_closes_early_nor_later_than_said(in_berlin: MariaDBServer, name: str) -> None:
    column = replace(COLUMNS[name], server_zone=BERLIN)
    url = in_berlin.create(fresh_name())
    await through_both_changes(url, column, MOVED[KIND](), column.table(KIND))
