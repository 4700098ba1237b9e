"""``duetime migrate``: duetime's own tables, and the index that the due query reads on the shop's order table.

Nothing else of the shop's is ever changed, and nothing is read from its rows. A run can be repeated, two can meet, and
one that was killed is completed by the next.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from duetime.shop import OrdersTable
from duetime.stores.sql.migrating import own_tables
from duetime.stores.sql.migrating.ground import Ground, Job
from duetime.stores.sql.migrating.mysql import MySQLGround
from duetime.stores.sql.migrating.postgresql import PostgreSQLGround
from duetime.stores.sql.migrating.sqlite import SQLiteGround

DEFAULT_PATIENCE: Final = timedelta(minutes=10)

_GROUNDS: Final[dict[str, Callable[[Job], Ground]]] = {
    "postgresql": PostgreSQLGround,
    "mysql": MySQLGround,
    "mariadb": MySQLGround,
    "sqlite": SQLiteGround,
}
_BY_HAND: Final = "or let `duetime migrate --sql` print the statements for somebody who may"


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What a run found and did.

    ``applied``: revisions of the own tables that were run now; ``revision``: where they are.
    ``index``: the index that serves the due query, None where the shop's table was not looked at.
    """

    revision: str
    applied: tuple[str, ...] = ()
    sample_tables: tuple[str, ...] = ()
    index: str | None = None
    index_built: bool = False


@dataclass(frozen=True, slots=True)
class IndexState:
    """The indexes that serve the due query, ours first; ``misfit``: what is wrong with ours where it does not."""

    wanted: str
    serving: tuple[str, ...]
    misfit: str = ""


def newest_revision() -> str:
    """Answer the revision of the own tables that this release works with."""
    return own_tables.newest()


def _silent(_words: str) -> None:
    pass


class Migrator:
    """Migrates one database: the own tables in ``schema`` (None: beside the shop's), the index on ``orders``."""

    def __init__(
        self,
        url: str | URL,
        orders: OrdersTable,
        schema: str | None = None,
        *,
        patience: timedelta = DEFAULT_PATIENCE,
    ) -> None:
        """``url`` names the asyncio driver; ``patience`` is how long locks of others are waited for in all."""
        self._url, self._orders, self._schema = make_url(url), orders, schema
        self._patience = patience.total_seconds()

    async def run(
        self, *, shop_ddl: bool = True, sample_shop: bool = False, progress: Callable[[str], None] = _silent
    ) -> MigrationReport:
        """Do all that is missing. Without ``shop_ddl`` the shop's tables are left alone.

        Raises:
            ConfigError: the database is too old, or the order table is not there, is a view or lacks a column.
            StoreConflict: others held locks for longer than the patience; what was done stays done.
            StoreMisfit: a right is missing, or the database cannot build the index beside the shop's writes.
            StoreUnavailable: the database does not answer.
        """
        ground = self._ground(progress)
        async with self._at_work(ground) as connection:
            if shop_ddl and not sample_shop:
                await ground.described(connection)  # what is wrong there is said before anything is written
            with ground.explained("creating duetime's own tables", f"grant the right to create tables, {_BY_HAND}"):
                applied = await ground.own_tables(connection)
            if not applied:
                progress(f"own tables: nothing to do, they are at revision {own_tables.newest()}")
            sample: tuple[str, ...] = ()
            if sample_shop:
                with ground.explained("creating the sample shop", "grant the right to create tables"):
                    sample = await ground.sample_shop(connection)
            if not shop_ddl:
                return MigrationReport(own_tables.newest(), applied, sample)
            remedy = f"grant the right to create an index on {self._orders.table}, {_BY_HAND}"
            with ground.explained(f"building the deadline index on {self._orders.table}", remedy):
                index, built = await ground.due_index(connection)
        return MigrationReport(own_tables.newest(), applied, sample, index, built)

    async def revision(self) -> str | None:
        """Answer where the own tables of the database are; None where there are none."""
        ground = self._ground(_silent)
        async with ground.connected(self._url) as connection:
            return await connection.run_sync(own_tables.current, ground.home)

    async def deadline_index(self) -> IndexState:
        """Look whether an index serves the due query; nothing is changed."""
        ground = self._ground(_silent)
        try:
            async with ground.connected(self._url) as connection:
                table = await ground.described(connection)
                found = await ground.indexes(connection, table)
        except (DBAPIError, OSError) as error:
            raise ground.dialect.failure(error) from error
        ours = ground.wanted.name
        serving = sorted(
            (index.name for index in found if ground.serving(table, [index])), key=lambda name: name != ours
        )
        leftover = None if ours in serving else ground.leftover(found)
        return IndexState(ours, tuple(serving), "" if leftover is None else ground.wanted.misfit(leftover))

    def sql(self, *, shop_ddl: bool = True, sample_shop: bool = False, since: str | None = None) -> str:
        """Print what ``run`` would execute, without any server; ``since`` leaves out revisions that are there."""
        ground = self._ground(_silent)
        parts = [_heading(ground.printing.name, self._schema)]
        if self._schema is not None and since is None:
            parts.append(f"CREATE SCHEMA IF NOT EXISTS {ground.quote(self._schema)};")
        parts.append(own_tables.script(ground.printing.name, ground.home, since))
        if sample_shop:
            parts += ["-- The sample shop", *(f"{statement};" for statement in ground.sample_statements())]
        if shop_ddl:
            parts.append(f"-- The deadline index. {ground.by_hand}")
            parts += [f"{statement};" for statement in ground.statements(self._orders.qualified)]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _ground(self, progress: Callable[[str], None]) -> Ground:
        job = Job(self._orders, self._schema, self._patience, progress)
        return _GROUNDS[self._url.get_backend_name()](job)

    @asynccontextmanager
    async def _at_work(self, ground: Ground) -> AsyncIterator[AsyncConnection]:
        try:
            async with ground.connected(self._url) as connection, ground.alone(connection):
                yield connection
        except (DBAPIError, OSError) as error:
            raise ground.dialect.failure(error) from error


def _heading(dialect: str, schema: str | None) -> str:
    where = "the shop's database" if schema is None else f"schema {schema}"
    return f"-- duetime's own tables in {where}, for {dialect}. Nothing here is run: read it, then run it yourself."
