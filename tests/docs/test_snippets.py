"""What the documentation shows is run: Python, configs, commands, statements."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from duetime import Closed, Duetime, Hold
from duetime.cli.app import command
from duetime.settings import load_settings, store_url
from duetime.wiring import migrator
from tests.docs.by_hand import prepare, run_sql
from tests.docs.snippets import KINDS, SERVERS, Block, Folder, blocks, matches, pages, servers_of
from tests.support.databases import DatabaseKind, FreshDatabase
from tests.support.servers import run_apart

LANGUAGES = {"", "java", "json", "mermaid", "pyi", "python", "sh", "sql", "text", "toml", "xml"}

PAGES = [
    pytest.param(page, marks=[pytest.mark.services, pytest.mark.timeout(300)] if servers_of(page) else ())
    for page in pages()
    if blocks(page)
]


KINDS_TO_TRY = ["sqlite", *(pytest.param(kind, marks=pytest.mark.services) for kind in SERVERS)]

SHOP_OF_THE_README = """
    CREATE TABLE t_order (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sn VARCHAR(32) NOT NULL UNIQUE,
        state SMALLINT NOT NULL, pay_deadline TIMESTAMPTZ NOT NULL
    );
    CREATE TABLE t_sku (id BIGINT PRIMARY KEY, stock INTEGER NOT NULL, locked_stock INTEGER NOT NULL);
    INSERT INTO t_order (sn, state, pay_deadline) VALUES ('so-1', 0, now() + INTERVAL '30 minutes');
    INSERT INTO t_sku (id, stock, locked_stock) VALUES (42, 8, 2);
"""


def shop_of_the_readme() -> dict[str, object]:
    """Make the shop that the README's config describes, with an order; its Python takes them as given."""
    settings = load_settings(Path("duetime.toml"), environ={})
    url = store_url(settings).render_as_string(hide_password=False)
    run_sql(settings.store.url.get_secret_value(), SHOP_OF_THE_README)
    run_apart(migrator(settings).run())
    return {"engine": create_async_engine(url, poolclass=NullPool), "order_no": "so-1"}


TAKEN_AS_GIVEN = {"README.md": shop_of_the_readme}


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_works(
    page: str, tmp_path: Path, fresh_database: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    urls = {kind: fresh_database(kind) for kind in KINDS if kind in servers_of(page) or _runs_on(page, kind)}
    for kind, url in urls.items():
        if _runs_on(page, kind):
            prepare(url)
    Folder(tmp_path, urls, TAKEN_AS_GIVEN.get(page, dict)).run(page)


def _runs_on(page: str, kind: DatabaseKind) -> bool:
    return any(block.runs_on == kind for block in blocks(page))


@pytest.mark.parametrize("kind", KINDS_TO_TRY)
async def test_an_order_placed_by_plain_sql_gives_everything_back(
    kind: DatabaseKind, fresh_database: FreshDatabase
) -> None:
    url = fresh_database(kind)
    prepare(url)
    placing = next(block for block in blocks("docs/how-to/plain-sql.md") if block.runs_on == kind)
    run_sql(url, placing.text)
    async with Duetime(load_settings(environ={}, store={"url": url})) as duetime:
        outcome = await duetime.close("A-1")
    assert isinstance(outcome, Closed)
    assert outcome.released == (Hold("coupon", "c-9", 1), Hold("stock", "sku-1", 2))
    assert run_sql(url, "SELECT available, held, state FROM stock, coupon") == [(10, 0, "unused")]


@pytest.mark.parametrize("page", [page for page in pages() if blocks(page)])
def test_every_block_says_what_it_is(page: str) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, block.place
        if block.skipped:
            assert len(block.comment.removeprefix("skip:").split()) > 1, f"{block.place}: skipped for no reason"


@pytest.mark.parametrize("page", [page for page in pages() if any(block.language == "sh" for block in blocks(page))])
def test_every_command_that_is_shown_exists(page: str) -> None:
    for block in blocks(page):
        for words in commands(block):
            assert not unknown(words), f"{block.place}: {' '.join(words)}: there is no {unknown(words)}"


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the duetime commands of a shell block, as words."""
    if block.language == "sh":
        for line in block.text.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["duetime"]:
                yield words[1:]


def unknown(words: list[str]) -> str | None:
    """Answer the first word that the command line would not know, among names of commands and of options."""
    at: Any = command()
    known = {option for one in at.params for option in one.opts}
    for word in words:
        if word.startswith("-"):
            if word.partition("=")[0] not in known:
                return word
        elif hasattr(at, "commands"):
            if word not in at.commands:
                return word
            at = at.commands[word]
            known |= {option for one in at.params for option in one.opts}
    return None


def test_an_unknown_command_is_found() -> None:
    assert unknown(["order", "show", "A-1", "--json"]) is None
    assert unknown(["order", "kill", "A-1"]) == "kill"
    assert unknown(["sweep", "--twice"]) == "--twice"


def test_output_is_compared_but_for_what_varies() -> None:
    assert matches("closed at …, by sweep\n", "closed at 12:00, by sweep\n\n")
    assert not matches("closed at …, by sweep\n", "closed at 12:00, by staff\n")
