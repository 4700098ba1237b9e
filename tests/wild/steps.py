"""What the tests on these shops do one after the other: the parts of a file, commands, and what has to change."""

from typing import Any

from tests.support.command_line import CommandLine
from tests.wild.dumps import Dump, dump
from tests.wild.hands import ShopHand
from tests.wild.shops import WildShop


def run(hand: ShopHand, script: str) -> None:
    """Run statements in a transaction of their own."""
    hand.script(script)
    hand.commit()


def expected(hand: ShopHand, shop: WildShop) -> Dump:
    """Answer what the shop should look like after a pass, by the shop's own SQL; nothing of it is kept."""
    hand.script(shop.part("expected"))
    return dump(hand)


def answer(command: CommandLine, *arguments: str) -> dict[str, Any]:
    """Run a command that must succeed, and answer what it says."""
    said = command(*arguments, "--json")
    assert said.code == 0, said.err + said.out
    found: dict[str, Any] = said.data
    return found


def first_pass(command: CommandLine, shop: WildShop) -> dict[str, Any]:
    """Sweep once; a shop with a backlog is asked about it, and accepts it."""
    asked = command("sweep", "--once", "--json")
    if not shop.note("backlog"):
        assert asked.code == 0, asked.err
        done: dict[str, Any] = asked.data
        return done
    assert (asked.code, "--accept-backlog" in asked.err) == (2, True), "it was not asked about what was forgotten"
    return answer(command, "sweep", "--once", "--accept-backlog")
