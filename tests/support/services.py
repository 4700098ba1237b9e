"""Stopping and starting the servers in the middle of a test."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "services"
SECONDS_MAX = 300


def stop_server(name: str) -> None:
    """Stop a server that scripts/services started; sessions are cut, data stays."""
    _run("stop", name)


def start_server(name: str) -> None:
    """Start it again on the same port with the same data; return when it answers."""
    _run("start", name)


def _run(command: str, name: str) -> None:
    subprocess.run([sys.executable, SCRIPT, command, name], check=True, timeout=SECONDS_MAX, capture_output=True)


@dataclass(frozen=True)
class Services:
    """The script with a data folder of its own: servers beside those that the other tests use."""

    folder: Path

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = os.environ | {"DUETIME_SERVICES_DIR": str(self.folder)} | environment
        command = [sys.executable, str(SCRIPT), *arguments]
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=110, check=False)

    def url(self, name: str = "postgresql") -> str | None:
        """Return the URL that `env` exports, if it exports one."""
        line = self.run("env", name).stdout.strip()
        return line.partition("=")[2] or None

    def pid(self, name: str = "postgresql") -> int:
        return int((self.folder / f"{name}.pid").read_text())
