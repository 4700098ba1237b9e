"""Install the Debian packages of a server without letting Debian start an instance of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class ServicesError(Exception):
    """A sentence for the person who typed the command."""


def install(name: str, packages: tuple[str, ...]) -> None:
    """Install Debian packages as root, without letting Debian start its own instance of the server."""
    wanted = " ".join(packages)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ServicesError(
            f"{name}: no server found on this machine. On Debian and Ubuntu: apt-get install {wanted}. "
            f"Elsewhere: docker compose up -d, and the exports that compose.yaml names."
        )
    print(f"{name}: installing {wanted}")
    with no_service_starts():
        apt_get("update")
        apt_get("install", "--yes", "--no-install-recommends", *packages)


def apt_get(*arguments: str) -> None:
    """Run apt-get without questions; show its output only when it fails."""
    command = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", *arguments]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    result = subprocess.run(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if result.returncode:
        raise ServicesError(f"{' '.join(command)} failed:\n{result.stdout}")


@contextlib.contextmanager
def no_service_starts() -> Iterator[None]:
    """Answer "no" to every package that asks whether it may start its service; put back what answered before."""
    policy = Path("/usr/sbin/policy-rc.d")
    saved = policy.with_name("policy-rc.d.before-duetime")
    if policy.exists():
        policy.rename(saved)
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)
        if saved.exists():
            saved.rename(policy)
