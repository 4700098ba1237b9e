"""The suite that docs/reference/testing.md shows how to subclass really runs, and is green."""

import subprocess
import sys
from pathlib import Path

from tests.docs.snippets import blocks

SECONDS_MAX = 120


def test_the_suite_of_the_page_is_green(tmp_path: Path) -> None:
    (snippet,) = [block for block in blocks("docs/reference/testing.md") if "(StoreSuite)" in block.text]
    (tmp_path / "test_my_store.py").write_text(snippet.text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--asyncio-mode=auto",
        "-p",
        "no:cacheprovider",
        "test_my_store.py",
    ]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout
