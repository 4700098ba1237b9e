"""What `duetime init --from-url` proposes for each shop of this folder runs, once its marked lines are settled.

The very file is used for `migrate`, `doctor` and the sweep, and judged as the description that we wrote by hand is:
exactly the due orders close, and nothing else changes in the shop.
"""

from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.databases import FreshDatabase
from tests.wild.dumps import differences, dump
from tests.wild.filling import filled_in, unasked
from tests.wild.shops import GRACE, WildShop, wild_shops
from tests.wild.steps import answer, expected, first_pass, run

SHOPS = [pytest.param(shop, marks=pytest.mark.services, id=f"{shop.name}-{shop.kind}") for shop in wild_shops()]


@pytest.mark.parametrize("shop", SHOPS)
def test_the_proposed_file_runs_once_it_is_filled_in(
    shop: WildShop, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    url = fresh_database(shop.kind)
    command = CommandLine(shop.zoned(url), tmp_path, {"DUETIME_TIMEOUTS__GRACE": GRACE})
    with shop.hand(url) as hand, command.running:
        run(hand, shop.part("tables"))
        if not _records_holds(shop):
            run(hand, shop.part("rows"))
        _propose_and_fill_in(command, shop, url)
        answer(command, "migrate")
        if _records_holds(shop):
            run(hand, shop.part("rows"))

        examined = answer(command, "doctor")
        assert not examined["failed"], examined
        before, after = dump(hand), expected(hand, shop)
        planned = answer(command, "sweep", "--dry-run")
        assert not differences(before, dump(hand), frozenset()), "the dry run changed something"
        swept = first_pass(command, shop)
        assert not differences(after, dump(hand), shop.now_columns), swept
        assert (swept["blocked"], swept["closed"]) == ({}, planned["orders"])


def _records_holds(shop: WildShop) -> bool:
    """True where the shop writes ``duetime_hold``, which it can only once `migrate` has made it."""
    return "duetime_hold" in shop.part("rows")


def _propose_and_fill_in(command: CommandLine, shop: WildShop, url: str) -> None:
    answer(command, "init", "--from-url", command.url)
    file = command.folder / "duetime.toml"
    settled = filled_in(file.read_text(encoding="utf-8"), shop.description(url))
    assert not unasked(settled, shop.description(url)), "nothing in the proposal asks for these"
    file.write_text(settled, encoding="utf-8")
