"""Every shop of this folder is adopted by its `duetime.toml` alone.

Exactly the due orders close, everything that they held comes back, and nothing else changes in any row and column of
the shop. What has to change is said by the shop's own SQL (part ``expected`` of each file), run on the same rows in a
transaction that is taken back.
"""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duetime.errors import ConfigError
from duetime.settings import load_settings
from tests.support.command_line import CommandLine
from tests.support.databases import FreshDatabase
from tests.wild.dumps import differences, dump
from tests.wild.hands import ShopHand
from tests.wild.shops import WildShop, wild_shops
from tests.wild.steps import answer, first_pass, run
from tests.wild.steps import expected as expected_of

SHOPS = [pytest.param(shop, marks=pytest.mark.services, id=f"{shop.name}-{shop.kind}") for shop in wild_shops()]


def test_at_least_twelve_schemas_were_found_on_each_database() -> None:
    stories = {shop.name: shop.text.splitlines()[0] for shop in wild_shops()}
    assert all(story.startswith("-- ") and story.endswith(".") for story in stories.values())
    assert len(stories) == len(set(stories.values())) >= 12


@pytest.mark.parametrize("shop", SHOPS)
def test_exactly_the_due_orders_close(shop: WildShop, fresh_database: FreshDatabase, tmp_path: Path) -> None:
    served_by_this_version(shop)
    url = fresh_database(shop.kind)
    (tmp_path / "duetime.toml").write_text(shop.config(url), encoding="utf-8")
    command = CommandLine(shop.zoned(url), tmp_path)
    with shop.hand(url) as hand, command.running:
        run(hand, shop.part("tables"))
        with _only_the_index_is_new(hand) as index:
            index.append(answer(command, "migrate")["index"])
        run(hand, shop.part("rows"))
        before = dump(hand)
        expected = expected_of(hand, shop)
        assert differences(before, expected, frozenset()), "this shop has nothing to close: it would show nothing"

        swept = first_pass(command, shop)
        after = dump(hand)
        assert not differences(expected, after, shop.now_columns), swept
        assert (swept["blocked"], swept["busy"]) == ({}, 0)
        again = answer(command, "sweep", "--once")
        assert again["closed"] == 0
        assert not differences(after, dump(hand), frozenset()), "a second pass found something to change"


@pytest.mark.parametrize("shop", SHOPS)
def test_observed_the_shop_stays_as_it_is_and_its_own_closer_is_told(
    shop: WildShop, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    """The shop's own SQL closes what is due: beside observe mode it is the closer that is there already."""
    served_by_this_version(shop)
    url = fresh_database(shop.kind)
    (tmp_path / "duetime.toml").write_text(shop.config(url), encoding="utf-8")
    command = CommandLine(shop.zoned(url), tmp_path, {"DUETIME_CLOSING__MODE": "observe"})
    with shop.hand(url) as hand, command.running:
        run(hand, shop.part("tables"))
        answer(command, "migrate")
        run(hand, shop.part("rows"))
        before = dump(hand)
        due = answer(command, "sweep", "--dry-run")["orders"]
        would = answer(command, "sweep", "--once")["observed"]["would_close"]
        seen = answer(command, "observe", "report")
        assert would + seen["too_old"] == due > 0
        assert (seen["due"], seen["missed"] + seen["open"]) == (would, seen["observed"])
        assert not differences(before, dump(hand), frozenset()), "observe mode changed rows of the shop"

        run(hand, shop.part("expected"))
        closed = answer(command, "observe", "report")
        assert closed["closed_in_time"] + closed["closed_late"] == would
        assert (closed["missed"], closed["closed_though_paid"], closed["too_old"]) == (0, 0, 0)


def served_by_this_version(shop: WildShop) -> None:
    """Skip a shop that needs what the settings themselves refuse as not there yet."""
    try:
        load_settings(None, environ={}, **tomllib.loads(shop.config("any://host/shop")))
    except ConfigError as error:
        if all(problem.endswith("is not supported by this version yet") for problem in error.problems):
            pytest.skip("; ".join(error.problems))
        raise


@contextmanager
def _only_the_index_is_new(hand: ShopHand) -> Iterator[list[str]]:
    """Fail where the block changes rows of the shop, or defines anything but the index that it names."""
    rows, structure, index = dump(hand), hand.structure(), list[str]()
    yield index
    assert not differences(rows, dump(hand), frozenset()), "rows of the shop were changed"
    found = hand.structure()
    new = {kind: found[kind] ^ structure[kind] for kind in found if found[kind] != structure[kind]}
    assert not new or (new.keys() == {"indexes"} and {row[2] for row in new["indexes"]} == {*index}), new
