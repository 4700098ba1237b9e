"""A database under test: statements as they stand, tables filled by the hundred thousand, catalogs as plain values."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from duetime.config.database_url import async_url
from duetime.shop import OrdersTable
from duetime.stores.sql.migrate import Migrator
from tests.support.databases import DatabaseKind

NO_PARAMETERS = {"no_parameters": True}
PATIENCE = timedelta(seconds=30)

_NUMBERED = {
    "postgresql": "SELECT g AS n, statement_timestamp() AS moment FROM generate_series({first}, {last}) g",
    "mariadb": "SELECT seq AS n, UTC_TIMESTAMP(6) AS moment FROM seq_{first}_to_{last}",
    "sqlite": "WITH RECURSIVE g (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM g WHERE n < {last}) "
    "SELECT n, datetime('now') AS moment FROM g",
}
_ORDER_NO = {"postgresql": "'o' || n", "mariadb": "concat('o', n)", "sqlite": "'o' || n"}


class Database:
    """One database of one kind."""

    def __init__(self, kind: DatabaseKind, url: str) -> None:
        self.kind = kind
        self.url = async_url(url)

    @property
    def text_url(self) -> str:
        return self.url.render_as_string(hide_password=False)

    def migrator(
        self, orders: OrdersTable | None = None, schema: str | None = None, *, patience: timedelta = PATIENCE
    ) -> Migrator:
        return Migrator(self.text_url, orders or OrdersTable(), schema, patience=patience)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncConnection]:
        """A connection in autocommit; on SQLite one that waits for its turn."""
        options: dict[str, Any] = {"connect_args": {"timeout": 10}} if self.kind == "sqlite" else {}
        engine = create_async_engine(self.url, poolclass=NullPool, isolation_level="AUTOCOMMIT", **options)
        try:
            async with engine.connect() as connection:
                yield connection
        finally:
            await engine.dispose()

    async def execute(self, *statements: str) -> None:
        async with self.session() as connection:
            for statement in statements:
                await connection.exec_driver_sql(statement, execution_options=NO_PARAMETERS)

    async def rows(self, query: str) -> Sequence[Row[Any]]:
        async with self.session() as connection:
            return (await connection.exec_driver_sql(query, execution_options=NO_PARAMETERS)).all()

    def quote(self, *parts: str) -> str:
        mark = "`" if self.kind == "mariadb" else '"'
        return ".".join(mark + part.replace(mark, 2 * mark) + mark for part in parts)

    async def fill_sample_shop(self, count: int) -> None:
        """Create the sample shop without an index, with one pending order among twenty."""
        await self.migrator().run(shop_ddl=False, sample_shop=True)
        await self.add_orders(count)

    async def add_orders(self, count: int) -> None:
        status = "CASE WHEN n % 20 = 0 THEN 'pending' ELSE 'closed' END"
        numbered = _NUMBERED[self.kind].format(first=1, last=count)
        columns = f"SELECT {_ORDER_NO[self.kind]}, {status}, moment FROM ({numbered}) numbered"
        await self.execute(f"INSERT INTO orders (order_no, status, expire_at) {columns}")
        if self.kind != "mariadb":
            await self.execute("ANALYZE")

    async def index_names(self, table: str = "orders") -> set[str]:
        """Names of the table's indexes that serve (on PostgreSQL: valid ones) and belong to no constraint."""
        queries = {
            "postgresql": "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            f"JOIN pg_class t ON t.oid = i.indrelid WHERE t.relname = '{table}' AND i.indisvalid AND NOT i.indisunique",
            "mariadb": "SELECT DISTINCT index_name FROM information_schema.statistics "
            f"WHERE table_schema = database() AND table_name = '{table}' AND non_unique = 1",
            "sqlite": f"SELECT name FROM pragma_index_list('{table}') WHERE origin = 'c'",
        }
        return {row[0] for row in await self.rows(queries[self.kind])}

    async def invalid_indexes(self) -> set[str]:
        query = "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE NOT i.indisvalid"
        return {row[0] for row in await self.rows(query)}
