"""The first run on a shop with years of forgotten orders: refused, and the ways on."""

from datetime import UTC, datetime, timedelta

import pytest

from duetime.errors import ConfigError
from tests.support.command_line import CommandLine
from tests.support.shop_database import ShopDatabase
from tests.support.waiting import eventually_sync

DAY = timedelta(days=1)


@pytest.fixture
def forgotten(duetime: CommandLine) -> CommandLine:
    """A shop with orders that were forgotten for three years, and two that are due since a minute."""
    for n in range(36):
        duetime.add_orders(2, late=30 * n * DAY + 10 * DAY, prefix=f"m{n}-", hold=False)
    duetime.add_orders(2, late=timedelta(minutes=1), prefix="new-", hold=False)
    return duetime


def closed(command: CommandLine) -> set[str]:
    return {no for no, status in command.statuses().items() if status == "closed"}


@pytest.mark.parametrize("words", [["run"], ["sweep"], ["sweep", "--once"]])
def test_first_run_is_refused_with_the_numbers_by_month(forgotten: CommandLine, words: list[str]) -> None:
    said = forgotten.alone(*words)
    assert said.code == 2, said.err
    oldest = datetime.now(UTC) - 30 * 35 * DAY - 10 * DAY
    assert f"74 orders are due, the oldest since {oldest:%Y-%m-%d}" in said.err
    assert f"{oldest:%Y-%m}: " in said.err
    for way in ("sweep --dry-run", "closing.not_before = ", "--accept-backlog"):
        assert way in said.err
    assert not closed(forgotten)


def test_what_not_before_leaves_is_named_where_the_rest_is_refused(forgotten: CommandLine) -> None:
    forgotten.more["DUETIME_CLOSING__NOT_BEFORE"] = (datetime.now(UTC) - 100 * DAY).isoformat()
    said = forgotten.alone("run")
    assert said.code == 2
    assert "(not counted: older than closing.not_before, " in said.err


async def test_a_worker_inside_a_program_is_refused_too(shop: ShopDatabase) -> None:
    late = datetime.now(UTC) - 8 * DAY
    insert = "INSERT INTO orders (order_no, status, expire_at) VALUES ('old', 'pending', :late)"
    await shop.execute(insert, late=late)
    async with shop.duetime() as app:
        with pytest.raises(ConfigError, match="1 order is due"):
            async with app.running():
                pytest.fail("it must not run")
        assert await shop.count("closed") == 0
        async with app.running(accept_backlog=True):
            assert (await app.wired.sweep.run_once()).error is None
        assert await shop.count("closed") == 1


def test_dry_run_looks_without_being_refused(forgotten: CommandLine) -> None:
    found = forgotten("sweep", "--dry-run", "--json").data
    assert found["orders"] == 74
    assert found["by_category"] == {"": 74}
    assert not closed(forgotten)


def test_not_before_lists_the_older_ones_and_never_closes_them(forgotten: CommandLine) -> None:
    week_ago = (datetime.now(UTC) - 7 * DAY).isoformat()
    forgotten.more |= {"DUETIME_CLOSING__NOT_BEFORE": week_ago}
    found = forgotten("sweep", "--dry-run", "--json").data
    assert (found["orders"], found["before_not_before"]) == (2, 72)
    assert forgotten("sweep", "--once").code == 0
    assert closed(forgotten) == {"new--00000", "new--00001"}
    assert len(forgotten("orders", "list", "--overdue", "--json").data) == 72


def test_accepted_it_closes_everything_and_is_never_asked_again(forgotten: CommandLine) -> None:
    assert forgotten("sweep", "--once", "--accept-backlog").code == 0
    assert len(closed(forgotten)) == 74
    forgotten.add_orders(1, late=20 * DAY, prefix="later-", hold=False)
    assert forgotten("sweep", "--once").code == 0
    assert len(closed(forgotten)) == 75


def test_a_worker_that_was_told_to_accept_goes_on_to_close_them(forgotten: CommandLine) -> None:
    with forgotten.running:
        worker = forgotten.start("run", "--accept-backlog")
        eventually_sync("all are closed", lambda: len(closed(forgotten)) == 74, seconds_max=60)
        assert worker.stop() == 0


def test_a_shop_without_old_orders_is_not_asked(duetime: CommandLine) -> None:
    duetime.add_orders(3, late=6 * DAY, hold=False)
    assert duetime("sweep", "--once").code == 0
    assert len(closed(duetime)) == 3
