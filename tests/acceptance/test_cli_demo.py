"""`duetime demo` from outside."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from duetime.cli.demo.judge import Expected, Finding, Verdict
from tests.support.command_line import CommandLine, Said


@pytest.fixture
def anywhere(tmp_path: Path) -> CommandLine:
    """A folder whose config would describe a shop that is not there, were it read."""
    Path(tmp_path, "duetime.toml").write_text("[orders]\ntable = 'elsewhere'\n")
    return CommandLine("postgresql://nobody@127.0.0.1:1/nothing", tmp_path)


def demo(anywhere: CommandLine, *arguments: str) -> Said:
    return anywhere.alone("demo", "--for", "2s", "--timeout", "1s", "--seed", "3", *arguments)


def test_demo_ends_by_itself_and_proves_its_promises(anywhere: CommandLine) -> None:
    said = demo(anywhere)
    assert said.code == 0, said.out
    assert said.err == ""
    assert "BROKEN" not in said.out
    assert said.out.count("  kept ") == 9
    assert "Every promise was kept." in said.out
    assert "5. duetime run" in said.out
    assert "lateness of" in said.out
    assert [one.name for one in anywhere.folder.iterdir()] == ["duetime.toml"]


def test_demo_at_a_high_rate_keeps_its_promises(anywhere: CommandLine) -> None:
    said = anywhere.alone("demo", "--for", "3s", "--timeout", "3s", "--rate", "200", "--json")
    data = json.loads(said.out)
    assert data["kept"], data
    assert said.code == 0


def test_broken_promise_is_exit_code_1(anywhere: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(file: Path, expected: Expected) -> Verdict:
        assert file.is_file()
        assert expected.placed > 0
        return Verdict([Finding("stock adds up", kept=False, shown="broken: tea")])

    monkeypatch.setattr("duetime.cli.demo.command.judge", found)
    said = anywhere("demo", "--for", "1s", "--timeout", "500ms")
    assert said.code == 1
    assert "BROKEN  stock adds up: broken: tea" in said.out
    assert "A promise was broken." in said.out


def test_ctrl_c_shuts_the_door_and_still_proves_its_promises(anywhere: CommandLine) -> None:
    command = [sys.executable, "-u", "-m", "duetime", "demo", "--for", "10m", "--timeout", "1s"]
    with subprocess.Popen(
        command, cwd=anywhere.folder, env=anywhere.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while "placed" not in process.stdout.readline():
            assert process.poll() is None
        while "placed 0" in process.stdout.readline():
            assert process.poll() is None
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=50)
        assert process.returncode == 0, out
        assert "Every promise was kept." in out
