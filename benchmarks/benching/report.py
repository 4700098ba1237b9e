"""Figures as a table for people, and as dated JSON for the next who measures."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from duetime import __version__

from .shop import Shop

FOLDER = Path(__file__).resolve().parents[1] / "results"

_DRIVERS = ("sqlalchemy", "psycopg", "asyncmy", "aiosqlite")
_BUSY_LOAD = 0.5
_FACTS = {
    "postgresql": {
        "version": "SELECT current_setting('server_version')",
        "shared_buffers": "SELECT current_setting('shared_buffers')",
        "fsync": "SELECT current_setting('fsync')",
        "synchronous_commit": "SELECT current_setting('synchronous_commit')",
    },
    "mariadb": {
        "version": "SELECT version()",
        "innodb_buffer_pool_size": "SELECT @@innodb_buffer_pool_size",
        "innodb_flush_log_at_trx_commit": "SELECT @@innodb_flush_log_at_trx_commit",
        "log_bin": "SELECT @@log_bin",
    },
    "sqlite": {
        "version": "SELECT sqlite_version()",
        "journal_mode": "SELECT journal_mode FROM pragma_journal_mode",
        "synchronous": "SELECT synchronous FROM pragma_synchronous",
    },
}


async def database_facts(shop: Shop) -> dict[str, Any]:
    """Answer the database's version and what its durability and memory are set to."""
    return {name: (await shop.row(query))[0] for name, query in _FACTS[shop.kind].items()}


def machine_facts() -> dict[str, Any]:
    """Answer what somebody needs to judge the figures; nothing that names the machine."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: found for name in _DRIVERS if (found := _installed(name))},
        "duetime": __version__,
        "commit": _commit(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    command = ["git", "-c", "safe.directory=*", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(  # noqa: S603 -- a fixed command
            command, cwd=FOLDER.parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def warn_if_busy() -> None:
    """Say so where other work on this machine spoils the figures."""
    load = os.getloadavg()[0]
    if load > _BUSY_LOAD:
        print(f"This machine is busy (load {load:.1f}): the figures are preliminary.")


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; numbers stand right."""
    written = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[at]) for line in [list(titles), *written]) for at in range(len(titles))]
    print("  ".join(title.ljust(width) for title, width in zip(titles, widths, strict=True)).rstrip())
    for line in written:
        print("  ".join(_placed(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: object) -> str:
    return f"{value:,.0f}" if isinstance(value, float) and abs(value) >= 100 else (  # noqa: PLR2004 -- three digits do
        f"{value:.2f}" if isinstance(value, float) else str(value)
    )  # fmt: skip


def _placed(cell: str, width: int) -> str:
    return cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)


def save(benchmark: str, content: Mapping[str, Any], folder: Path) -> Path:
    """Write a result; one of the same benchmark and day is replaced."""
    now = datetime.now(UTC)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now.date().isoformat()}-{benchmark}.json"
    path.write_text(json.dumps({"benchmark": benchmark, "at": now.isoformat(timespec="seconds"), **content}, indent=2))
    with path.open("a", encoding="utf-8") as file:
        file.write("\n")
    return path
