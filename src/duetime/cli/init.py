"""``duetime init``: a commented config, or one that is proposed for a database as it is."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer
from sqlalchemy import URL

from duetime.adopting.proposal import MARK, NO_ASSETS, Proposal, toml
from duetime.adopting.proposing import propose
from duetime.cli.common import JsonOption, finish
from duetime.cli.output import complain, print_json, say
from duetime.config.database_url import async_url, check_driver
from duetime.config.sample import sample_config
from duetime.errors import ConfigError, InvalidInput
from duetime.settings import KNOWN
from duetime.shop import sample_assets
from duetime.stores.sql.looking import look

STDOUT: Final = Path("-")

_HEAD: Final = """\
# Proposed by `duetime init --from-url`: read every line, and each line that is marked "FILL IN" with great care.
# A marked line is a comment until you have settled it: remove the mark, and write what is true.
# Then: `duetime migrate`, `duetime doctor`, `duetime sweep --dry-run`, and `duetime run`, which closes.
# `duetime init --output -` prints all other keys and their meaning.
"""


def init(
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help='Where to write; "-" is standard output.')
    ] = Path("duetime.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
    from_url: Annotated[
        str | None,
        typer.Option(
            "--from-url",
            metavar="URL",
            help="Read this database and propose [orders] and [[assets]]; nothing is written to it.",
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="NAME", help="The table of the orders, where it was guessed wrongly."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a duetime.toml with every key and its meaning, or one for the database that you have.

    With --from-url the tables are looked at (their columns, keys and comments, and some thousands of rows at most):
    every guess says why, and what is not certain is marked to be filled in.
    """
    if table is not None and from_url is None:
        raise InvalidInput("--table goes with --from-url")
    if output != STDOUT and output.exists() and not force:
        raise ConfigError([f"--output: there is a file {output} already; --force overwrites it"])
    proposal = None if from_url is None else finish(_proposed(_read(from_url), table))
    text = _sample() if proposal is None or from_url is None else _written(_read(from_url), proposal)
    if output == STDOUT and not as_json:
        say(text.rstrip("\n"))
    elif output != STDOUT:
        _write(output, text)
    _report(output, proposal, as_json=as_json, text=text)


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError([f"--output: {output} could not be written: {error.strerror}"]) from None


def _sample() -> str:
    assets = [one.model_dump(exclude_none=True, exclude_defaults=True, by_alias=True) for one in sample_assets()]
    plain = [{name: value[0] if isinstance(value, tuple) else value for name, value in one.items()} for one in assets]
    return sample_config(KNOWN, {"assets": plain})


def _read(from_url: str) -> URL:
    try:
        url = async_url(from_url)
    except ValueError as problem:
        raise ConfigError([f"--from-url: {problem}"]) from None
    check_driver(url)
    if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).is_file():
        raise ConfigError([f"--from-url: there is no file {os.fspath(Path(url.database))}"])
    return url


async def _proposed(url: URL, table: str | None) -> Proposal:
    return propose(await look(url, table), table)


def _written(url: URL, proposal: Proposal) -> str:
    unseen = f"# {_unseen(proposal)}\n" if proposal.unseen else ""
    return f"{_HEAD}{unseen}{_assets_first(proposal)}\n{_store(url)}\n{proposal.written}"


def _unseen(proposal: Proposal) -> str:
    return f"Not looked at, because the database does not describe them to this user: {', '.join(proposal.unseen)}"


def _assets_first(proposal: Proposal) -> str:
    """Say that there are no assets before the first section begins: it is a key of the whole file."""
    if proposal.has_assets:
        return ""
    return f"\n# {NO_ASSETS}:\n# is there none? an order that holds nothing gives nothing back\n{MARK}assets = []\n"


def _store(url: URL) -> str:
    """Write ``[store]`` without any secret: a URL with a password belongs to the environment or to a file."""
    plain = url.set(drivername=url.get_backend_name(), query={})
    if url.get_backend_name() == "sqlite":
        return f"[store]\nurl = {toml(plain.render_as_string())}\n"
    where = plain.set(password=None).render_as_string()
    return (
        "[store]\n"
        f"# This is {where}\n"
        "# The URL has a password: set DUETIME_STORE__URL, or DUETIME_STORE__URL_FILE to the name of a file with it.\n"
    )


def _report(output: Path, proposal: Proposal | None, *, as_json: bool, text: str) -> None:
    unsure, unseen = (proposal.unsure, proposal.unseen) if proposal is not None else ((), ())
    if as_json:
        written = {"config": text} if output == STDOUT else {"file": os.fspath(output)}
        print_json({**written, "unsure": unsure, "unseen": unseen})
        return
    tell = complain if output == STDOUT else say
    if output != STDOUT:
        tell(f"wrote {output}")
    if proposal is not None and unseen:
        tell(_unseen(proposal))
    if unsure:
        tell(f'{len(unsure)} lines are marked "{MARK[2:].strip()}", to be settled by you:')
        for sentence in unsure:
            tell(f"  - {sentence}")
