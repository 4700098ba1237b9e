"""`duetime init --from-url` on every shop of this folder: what it proposes without a mark is right."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.databases import FreshDatabase
from tests.wild.shops import WildShop, wild_shops

SHOPS = [pytest.param(shop, marks=pytest.mark.services, id=f"{shop.name}-{shop.kind}") for shop in wild_shops()]
NAMES = ("kind",)
"""What a shop may name as it likes."""


@pytest.mark.parametrize("shop", SHOPS)
def test_every_value_is_right_or_marked(shop: WildShop, fresh_database: FreshDatabase, tmp_path: Path) -> None:
    url = fresh_database(shop.kind)
    with shop.hand(url) as hand:
        hand.script(shop.part("tables"))
        if "duetime_hold" not in shop.part("rows"):
            hand.script(shop.part("rows"))
        hand.commit()
    said = CommandLine(url, tmp_path)("init", "--from-url", shop.zoned(url), "--json")
    assert said.code == 0, said.err
    text = (tmp_path / "duetime.toml").read_text(encoding="utf-8")
    assert text.count("# FILL IN: ") == len(said.data["unsure"])
    assert url.split("@")[0].rpartition(":")[2] not in text + said.out + said.err, "the password was written down"

    proposed, truth = tomllib.loads(text), tomllib.loads(shop.description(url))
    wrong = _wrong("orders", proposed["orders"], truth["orders"])
    for number, asset in enumerate(proposed["assets"]):
        wrong += _wrong(f"assets[{number}]", asset, truth["assets"][number])
    assert not wrong
    assert len(proposed["assets"]) == len(truth["assets"])


def _wrong(where: str, proposed: Mapping[str, Any], truth: Mapping[str, Any]) -> list[str]:
    default = {"time_form": "instant", "amount_form": "minor"}
    return [
        f"{where}.{key}: proposed {value!r}, and it is {truth.get(key, default.get(key))!r}"
        for key, value in proposed.items()
        if key not in NAMES and not _same(value, truth.get(key, default.get(key)))
    ]


def _same(proposed: object, truth: object) -> bool:
    """A table's name may be written with its database or without."""
    if isinstance(proposed, str) and isinstance(truth, str):
        return proposed == truth or truth.endswith(f".{proposed}")
    return proposed == truth
