"""scripts/services, from outside: a set of servers of its own, beside the one that the other tests use."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.absence import without
from tests.support.services import Services
from tests.support.waiting import eventually_sync


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    # Not tmp_path: when root runs the tests, the server's own account cannot enter it.
    folder = Path(tempfile.mkdtemp(prefix="duetime-services-"))
    folder.chmod(0o755)
    services = Services(folder)
    started = services.run("up", "postgresql")
    if started.returncode:
        without("PostgreSQL", started.stderr.strip())
    yield services
    services.run("wipe")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def up(services: Services) -> Services:
    """The script, with its server running whatever the test before did to it."""
    assert services.run("up", "postgresql").returncode == 0
    return services


def answer(url: str | None) -> int:
    assert url is not None
    with psycopg.connect(url, connect_timeout=5) as connection:
        row = connection.execute("SELECT 1").fetchone()
    assert row is not None
    return int(row[0])


def test_up_starts_what_env_exports(up: Services) -> None:
    assert answer(up.url()) == 1


def test_up_may_be_repeated(up: Services) -> None:
    before = (up.pid(), up.url())
    assert up.run("up", "postgresql").returncode == 0
    assert (up.pid(), up.url()) == before


def test_server_comes_back_with_its_data_on_its_port(up: Services) -> None:
    url = up.url()
    assert url is not None
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (id integer)")

    assert up.run("stop", "postgresql").returncode == 0
    assert up.url() is None
    assert up.run("status", "postgresql").returncode == 1
    assert up.run("start", "postgresql").returncode == 0

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_killed_server_is_noticed_and_started_again(up: Services) -> None:
    os.kill(up.pid(), signal.SIGKILL)
    eventually_sync("status notices", lambda: up.run("status", "postgresql").returncode == 1)
    assert up.run("up", "postgresql").returncode == 0
    assert answer(up.url()) == 1


def test_process_of_somebody_else_behind_a_stale_pid_file_is_left_alone(up: Services) -> None:
    up.run("down")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        (up.folder / "postgresql.pid").write_text(str(stranger.pid))
        assert up.run("status", "postgresql").returncode == 1
        assert up.run("down").returncode == 0
        assert stranger.poll() is None
        assert stranger.stdin is not None
        stranger.stdin.close()


@pytest.mark.parametrize(
    "arguments, environment, sentence",
    [
        (["up", "oracle"], {}, "unknown server oracle; there are: postgresql, mariadb"),
        (["restart"], {}, "restart needs a name"),
        (["up", "postgresql"], {"DUETIME_POSTGRESQL_PORT": "many"}, "a port is a number from 1024 to 65535"),
    ],
)
def test_wrong_usage_is_a_sentence(
    services: Services, arguments: list[str], environment: dict[str, str], sentence: str
) -> None:
    result = services.run(*arguments, **environment)
    assert result.returncode in {1, 2}
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
