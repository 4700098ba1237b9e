"""Reads the code blocks of a page and runs them in their order, in an empty folder.

What is done with a block depends on its language, and on an HTML comment in the line before it:

=======================  ========  ===================================================================================
comment                  language  what is done
=======================  ========  ===================================================================================
none                     python    run; names live on to the page's next block, and ``await`` works at the top
none                     toml      loaded as a config, which must be allowed; then it is the folder's ``duetime.toml``
none                     json      parsed
none                     sh, sql   each ``duetime`` command must exist, with its options; nothing is run
``file name``            python    written to that file of the folder, for the commands that follow; not run by itself
``run``                  sh        run by bash; must end with exit code 0. Exported variables live on
``run until words``      sh        run until it has printed the words, then stopped by Ctrl-C; must end with exit code 0
``run on postgresql``    sql       run on a database of that kind that ``migrate --sample-shop`` has prepared
``output``               text      must be what the block before printed; ``…`` stands for anything
``skip: reason``         any       not run; python, toml and json must still parse
=======================  ========  ===================================================================================

Where a page names the URL of a server, the test's own takes its place.
"""

import ast
import asyncio
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duetime import Duetime
from duetime.settings import load_settings
from tests.docs.by_hand import run_sql
from tests.support.databases import DatabaseKind
from tests.support.waiting import eventually_sync

ROOT = Path(__file__).resolve().parents[2]
SERVERS: tuple[DatabaseKind, ...] = ("postgresql", "mariadb")
KINDS: tuple[DatabaseKind, ...] = ("sqlite", *SERVERS)
URLS: dict[DatabaseKind, str] = {kind: f"{kind}://shop:secret@127.0.0.1/shop" for kind in SERVERS}

_BLOCK = re.compile(
    r"(?:^<!-- (?P<comment>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
SECONDS_MAX = 60


@dataclass(frozen=True)
class Block:
    """One code block."""

    page: str
    line: int
    language: str
    text: str
    comment: str = ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def skipped(self) -> bool:
        return self.comment.startswith("skip")

    @property
    def runs_on(self) -> DatabaseKind | None:
        return next((kind for kind in KINDS if self.comment == f"run on {kind}"), None)


def pages() -> list[str]:
    """Return the pages of the documentation, by path from the root of the repository."""
    return ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def blocks(page: str) -> list[Block]:
    """Return the code blocks of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(page, text[: found.start("text")].count("\n"), found["language"], found["text"], found["comment"] or "")
        for found in _BLOCK.finditer(text)
    ]


def servers_of(page: str) -> list[DatabaseKind]:
    """Return the kinds of server that a page's blocks are run on."""
    run = [one for one in blocks(page) if not one.skipped and (one.comment or one.language in {"python", "toml"})]
    return [kind for kind, url in URLS.items() if any(url in one.text or one.runs_on == kind for one in run)]


@dataclass
class Folder:
    """Where the blocks of one page run: its files, its variables, the names of its Python, its databases.

    ``before_python`` prepares what the page takes as given, and answers names.
    """

    path: Path
    urls: Mapping[DatabaseKind, str]
    before_python: Callable[[], Mapping[str, Any]] = dict
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str = ""

    def __post_init__(self) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environ = {**inherited, "PATH": programs, "COLUMNS": "200"}

    def run(self, page: str) -> None:
        """Run all blocks."""
        with asyncio.Runner() as runner:
            self.runner = runner
            try:
                for block in blocks(page):
                    self._take(block)
            finally:
                for left_open in [one for one in self.names.values() if isinstance(one, Duetime)]:
                    runner.run(left_open.aclose())

    def _take(self, block: Block) -> None:
        try:
            self._done(block)
        except Exception as error:
            error.add_note(f"in the block at {block.place}")
            raise

    def _done(self, block: Block) -> None:
        match block.language, block.comment:
            case "python", str(comment) if comment.startswith("file "):
                self._file(block)
            case "python", _:
                self._python(block)
            case "toml", _:
                self._toml(block)
            case "json", _:
                json.loads(block.text)
            case "sh", str(comment) if comment.startswith("run"):
                self._shell(block)
            case "sql", _ if block.runs_on is not None:
                run_sql(self.urls[block.runs_on], block.text)
            case "text", "output":
                assert matches(block.text, self.printed), f"printed was:\n{self.printed}"
            case _:
                pass

    def text(self, block: Block) -> str:
        """Return a block with the test's own servers."""
        text = block.text
        for kind, url in URLS.items():
            text = text.replace(url, self.urls.get(kind, url))
        return text

    def _python(self, block: Block) -> None:
        top = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(self.text(block), block.place, "exec", flags=top, dont_inherit=True)
        if block.skipped:
            return
        self.names |= self.before_python()
        self.before_python = dict
        done = eval(code, self.names)  # noqa: S307 -- running the documentation's own code is the point
        if inspect.iscoroutine(done):
            self.runner.run(done)

    def _file(self, block: Block) -> None:
        text = self.text(block)
        compile(text, block.place, "exec", dont_inherit=True)
        path = self.path / block.comment.removeprefix("file ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _toml(self, block: Block) -> None:
        tomllib.loads(block.text)
        if not block.skipped:
            (self.path / "duetime.toml").write_text(self.text(block), encoding="utf-8")
            load_settings(self.path / "duetime.toml", environ={})

    def _shell(self, block: Block) -> None:
        script = f"set -eu; trap 'env -0 > .env' EXIT\n{self.text(block)}"
        out, err = self.path / ".out", self.path / ".err"
        with out.open("w") as stdout, err.open("w") as stderr:
            process = subprocess.Popen(
                ["bash", "-c", script], cwd=self.path, env=self.environ, stdout=stdout, stderr=stderr, process_group=0
            )
        try:
            if words := block.comment.removeprefix("run until ").removeprefix("run"):
                eventually_sync(words, lambda: words in out.read_text() + err.read_text(), seconds_max=SECONDS_MAX)
                os.killpg(process.pid, signal.SIGINT)
            process.wait(SECONDS_MAX)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.printed = out.read_text()
        assert process.returncode == 0, f"exit code {process.returncode}\n{self.printed}\n{err.read_text()}"
        left = (self.path / ".env").read_text(encoding="utf-8").split("\0")
        self.environ = dict(one.split("=", 1) for one in left if "=" in one)


def matches(expected: str, printed: str) -> bool:
    """Say whether ``printed`` is what a page shows; ``…`` stands for anything, and ends of lines do not matter."""
    wanted = "\n".join(line.rstrip() for line in expected.strip().splitlines())
    found = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    return re.fullmatch(".*?".join(map(re.escape, wanted.split("…"))), found, re.DOTALL) is not None
