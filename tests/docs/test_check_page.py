"""The page on `doctor` and `verify` names every check and every kind of finding, in their order."""

import re
from pathlib import Path

from duetime.cli.doctor import first_checks
from duetime.settings import load_settings
from duetime.wiring import doctor_checks, wire
from tests.docs.snippets import ROOT

PAGE = "docs/how-to/check-an-installation.md"


def first_cells(heading: str) -> list[str]:
    """Return the names in a table's first column."""
    table = (ROOT / PAGE).read_text(encoding="utf-8").partition(f"| {heading} |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def test_every_check_is_explained() -> None:
    settings = load_settings(environ={}, store={"url": "sqlite:///shop.db"})
    checks = [*first_checks(settings), *doctor_checks(wire(settings))]
    assert first_cells("check") == [check.name for check in checks]


def test_every_kind_of_finding_is_explained() -> None:
    found: list[str] = []
    for file in ("orders", "assets", "work"):
        code = Path(ROOT, f"src/duetime/verifying/{file}.py").read_text(encoding="utf-8")
        found += re.findall(r'(?:finding|Finding)\(\s*"([a-z-]+)"', code)
    assert len(found) > 20
    assert set(first_cells("kind in `--json`")) == set(found)
