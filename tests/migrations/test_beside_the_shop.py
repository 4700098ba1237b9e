"""The index is built while the shop sells, waits for nobody for long, and survives every kind of abort."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from time import monotonic

import pytest

from duetime.errors import StoreConflict
from tests.migrations.database import Database
from tests.migrations.explained import plan_of_due_page
from tests.migrations.shop import open_transaction, selling
from tests.support.waiting import eventually, let_pass

INDEX = "duetime_due_orders"
SERVERS = [pytest.param(kind, marks=pytest.mark.services) for kind in ("postgresql", "mariadb")]
SHOP_WAITS_SECONDS_MAX = 1.0
SCHEDULING_SECONDS = 0.4
"""What a busy machine adds to a wait of one second on the server before a test sees its end."""


async def build_while_the_shop_sells(database: Database, orders: int) -> None:
    await database.fill_sample_shop(orders)
    async with selling(database) as sales:
        await eventually("the shop sells", lambda: len(sales.took) > 20)
        begun = monotonic()
        report = await database.migrator().run()
        ran = monotonic() - begun
    assert (report.index, report.index_built) == (INDEX, True)
    assert max(sales.took) < SHOP_WAITS_SECONDS_MAX
    if database.kind != "sqlite":
        assert max(sales.took) < ran / 2, "an order waited for the build"
    assert INDEX in await plan_of_due_page(database)


async def test_the_shop_sells_on_while_the_index_is_built(database: Database) -> None:
    await build_while_the_shop_sells(database, 200_000)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", SERVERS, indirect=True)
async def test_the_shop_sells_on_while_the_index_is_built_on_a_large_table(database: Database) -> None:
    await build_while_the_shop_sells(database, 5_000_000)


@pytest.mark.parametrize("kind", SERVERS, indirect=True)
async def test_an_open_transaction_is_waited_for_without_stopping_the_shop(database: Database) -> None:
    await database.fill_sample_shop(2000)
    said: list[str] = []
    async with selling(database) as sales, asyncio.TaskGroup() as group, open_transaction(database):
        run = group.create_task(database.migrator().run(progress=said.append))
        await eventually("migrate says what it waits for", lambda: any(_waits(words) for words in said))
        await let_pass(3, because="the shop must be seen selling for longer than one wait may last")
        assert not run.done()
    assert run.result().index_built
    assert await database.index_names() == {INDEX}
    assert max(sales.took) < SHOP_WAITS_SECONDS_MAX + SCHEDULING_SECONDS
    assert len(sales.took) > 50


def _waits(words: str) -> bool:
    return "waiting for" in words.lower() or "open transactions keep table orders" in words


@pytest.mark.parametrize("kind", SERVERS, indirect=True)
async def test_patience_ends_with_a_sentence_and_the_next_run_completes(database: Database) -> None:
    await database.fill_sample_shop(2000)
    async with open_transaction(database):
        with pytest.raises(StoreConflict, match="waited 2 s, nothing was lost: run `duetime migrate` again"):
            await database.migrator(patience=timedelta(seconds=2)).run()
    report = await database.migrator().run()
    assert (report.index, report.index_built) == (INDEX, True)
    assert await database.index_names() == {INDEX}


async def test_another_writer_is_waited_for_on_sqlite(sqlite: Database) -> None:
    await sqlite.fill_sample_shop(200)
    said: list[str] = []
    async with asyncio.TaskGroup() as group, open_transaction(sqlite):
        run = group.create_task(sqlite.migrator().run(progress=said.append))
        await eventually("migrate says what it waits for", lambda: any("locked" in words for words in said))
    assert run.result().index_built
    async with open_transaction(sqlite):
        with pytest.raises(StoreConflict, match="another writer; waited 1 s, nothing"):
            await sqlite.migrator(patience=timedelta(seconds=1)).run()


async def test_two_runs_at_once_do_not_break_each_other(database: Database) -> None:
    await database.fill_sample_shop(20_000)
    await database.execute("DROP TABLE duetime_version", "DROP TABLE duetime_hold")
    runs = await asyncio.gather(*(database.migrator().run() for _ in range(3)))
    assert sorted(run.index_built for run in runs) == [False, False, True]
    assert sorted(run.applied for run in runs) == [(), (), ("0001",)]
    assert {run.index for run in runs} == {INDEX}
    assert await database.index_names() == {INDEX}


PROGRAM = """
import asyncio, sys
from duetime.shop import OrdersTable
from duetime.stores.sql.migrate import Migrator
asyncio.run(Migrator(sys.argv[1], OrdersTable()).run())
"""


@asynccontextmanager
async def another_process(database: Database) -> AsyncIterator[Process]:
    """A run in a process of its own, which does not outlive the block."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, database.text_url, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.communicate()


_AT_WORK = {
    "postgresql": "SELECT 1 FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting for writers%'",
    "mariadb": "SELECT 1 FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE%' AND db = database()",
}


@pytest.mark.parametrize("kind", SERVERS, indirect=True)
async def test_a_run_killed_half_way_is_completed_by_the_next(database: Database) -> None:
    await database.fill_sample_shop(20_000)
    async with open_transaction(database), another_process(database) as process:

        async def at_work() -> bool:
            assert process.returncode is None
            return bool(await database.rows(_AT_WORK[database.kind]))

        await eventually("the statement has begun", at_work)
        process.send_signal(signal.SIGKILL)
    await database.migrator().run()
    assert await database.index_names() == {INDEX}
    assert INDEX in await plan_of_due_page(database)


async def test_an_index_whose_session_was_cut_off_is_built_again(postgresql: Database) -> None:
    await postgresql.fill_sample_shop(2000)
    async with open_transaction(postgresql), another_process(postgresql) as process:

        async def cut_off() -> bool:
            cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting for %'"
            return bool(await postgresql.rows(cut))

        await eventually("the statement has begun", cut_off)
        _, words = await process.communicate()
        assert b"StoreUnavailable" in words
    assert await postgresql.invalid_indexes() == {INDEX}
    report = await postgresql.migrator().run()
    assert report.index_built
    assert await postgresql.invalid_indexes() == set()
    assert INDEX in await plan_of_due_page(postgresql)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seconds", [0.5, 1, 1.5, 2, 3])
async def test_a_run_killed_at_any_moment_is_completed_by_the_next(database: Database, seconds: float) -> None:
    await database.fill_sample_shop(1_000_000)
    async with another_process(database):
        await let_pass(seconds, because="the moment of the kill is what varies")
    await database.migrator().run()
    assert await database.index_names() == {INDEX}
    assert INDEX in await plan_of_due_page(database)
