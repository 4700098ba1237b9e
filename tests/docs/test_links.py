"""What the documentation points at is there, and everything that is there can be found."""

import re
from functools import cache
from pathlib import Path

import pytest

import duetime
from tests.docs.snippets import ROOT, pages

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`((?:src|tests|scripts|benchmarks)/[\w./-]+?)(?:::(\w+))?`")
OUTSIDE = ("http://", "https://", "mailto:")
INDEX = "docs/README.md"


@cache
def prose(page: str) -> str:
    """Return a page without its code blocks."""
    return FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))


def links(page: str) -> list[tuple[str, str]]:
    """Return the relative links of a page: path from the root of the repository, and the heading."""
    found = []
    for link in LINK.findall(prose(page)):
        if not link.startswith(OUTSIDE):
            path, _, heading = link.partition("#")
            to = (ROOT / page).parent / path if path else ROOT / page
            found.append((str(to.resolve().relative_to(ROOT)), heading))
    return found


def anchors(page: str) -> set[str]:
    """Return the headings of a page as links write them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages())
def test_every_link_leads_somewhere(page: str) -> None:
    for path, heading in links(page):
        assert (ROOT / path).exists(), f"{page}: there is no {path}"
        if heading:
            assert heading in anchors(path), f"{page}: {path} has no heading #{heading}"


@pytest.mark.parametrize("page", pages())
def test_every_file_and_test_that_is_named_is_there(page: str) -> None:
    for path, name in NAMED.findall((ROOT / page).read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), f"{page}: there is no {path}"
        if name:
            assert re.search(rf"\b(def|class) {name}\b", (ROOT / path).read_text()), f"{page}: {path} has no {name}"


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, to_read = set(), [INDEX]
    while to_read:
        page = to_read.pop()
        if page in reached or not page.endswith(".md"):
            continue
        reached.add(page)
        to_read += [path for path, _ in links(page)]
    assert set(pages()) - {"README.md"} <= reached


def test_the_readme_leads_to_the_index() -> None:
    assert INDEX in {path for path, _ in links("README.md")}


@pytest.mark.parametrize("name", sorted(duetime.__all__))
def test_every_public_name_is_described(name: str) -> None:
    assert f"### `duetime.{name}`" in (ROOT / "docs/reference/python.md").read_text()


def test_pages_do_not_name_a_machine(tmp_path: Path) -> None:
    for page in pages():
        assert str(tmp_path.parent) not in prose(page)
        assert str(ROOT) not in prose(page)
