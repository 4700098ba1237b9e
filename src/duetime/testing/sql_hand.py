"""The shop's own hand on a database that SQLAlchemy can reach.

It has its own engine, hence its own connections, and knows duetime's tables only as plain rows: what it reads is what
anybody would read from outside.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import URL, MetaData, RowMapping, Table, delete, event, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from duetime.event import Fact, FactType
from duetime.hold import HeldHold, Hold, HoldState
from duetime.stores.sql.schema import OwnTables, SampleShop
from duetime.testing.shop_hand import CouponRow, ShopRow, StockRow

_ROWS_IN_ONE_STATEMENT = 500


class SqlShopHand:
    """Writes into the sample shop's tables, and reads duetime's own."""

    def __init__(self, url: URL | str, *, locks_rows: bool = True, schema: str | None = None) -> None:
        """Work on the database at ``url``, which names an asyncio driver; ``schema`` holds duetime's own tables."""
        self.locks_rows = locks_rows
        self.engine: AsyncEngine = create_async_engine(url, pool_size=2, pool_recycle=3)
        if self.engine.dialect.name == "sqlite":
            event.listen(self.engine.sync_engine, "connect", _wait_for_the_writer)
        self._own = OwnTables(schema, partial_indexes=self.engine.dialect.name not in {"mysql", "mariadb"})
        self._shop = SampleShop()
        # Old shops have pending orders without a deadline, and the suites need some.
        self._shop.orders.c.expire_at.nullable = True

    async def create_tables(self) -> None:
        """Create the sample shop's tables and duetime's own, where they are missing."""
        async with self.engine.begin() as connection:
            await connection.run_sync(self._shop.metadata.create_all)
            await connection.run_sync(self._own.metadata.create_all)

    async def clear(self) -> None:
        """Empty all tables."""
        async with self.engine.begin() as connection:
            for table in (*self._tables(self._shop.metadata), *self._tables(self._own.metadata)):
                await connection.execute(delete(table))

    @staticmethod
    def _tables(metadata: MetaData) -> Sequence[Table]:
        return metadata.sorted_tables[::-1]

    async def add_orders(self, rows: Sequence[ShopRow]) -> None:
        """Insert orders."""
        await self._insert(self._shop.orders, [_values(row) for row in rows])

    async def orders(self) -> dict[str, ShopRow]:
        """Read all orders."""
        fields = ShopRow.__dataclass_fields__
        rows = [ShopRow(**{name: _aware(row[name]) for name in fields}) for row in await self._rows(self._shop.orders)]
        return {row.order_no: row for row in rows}

    async def set_status(self, order_no: str, status: str) -> None:
        """Write an order's status."""
        orders = self._shop.orders
        await self._execute(update(orders).where(orders.c.order_no == order_no).values(status=status))

    async def set_expire_at(self, order_no: str, expire_at: datetime | None) -> None:
        """Write an order's deadline."""
        orders = self._shop.orders
        values = {"expire_at": self._bound(expire_at)}
        await self._execute(update(orders).where(orders.c.order_no == order_no).values(values))

    async def delete_order(self, order_no: str) -> None:
        """Delete an order's row."""
        await self._execute(delete(self._shop.orders).where(self._shop.orders.c.order_no == order_no))

    async def put_stock(self, rows: Sequence[StockRow]) -> None:
        """Insert SKUs, or write their numbers."""
        values = [{"sku_id": row.sku, "available": row.available, "held": row.held} for row in rows]
        await self._put(self._shop.stock, "sku_id", values)

    async def stock(self) -> dict[str, StockRow]:
        """Read all SKUs."""
        rows = await self._rows(self._shop.stock)
        return {row["sku_id"]: StockRow(row["sku_id"], row["available"], row["held"]) for row in rows}

    async def delete_stock(self, sku: str) -> None:
        """Delete a SKU's row."""
        await self._execute(delete(self._shop.stock).where(self._shop.stock.c.sku_id == sku))

    async def put_coupons(self, rows: Sequence[CouponRow]) -> None:
        """Insert coupons, or write their states."""
        values = [{"coupon_id": row.coupon, "state": row.state, "valid_until": row.valid_until} for row in rows]
        await self._put(self._shop.coupon, "coupon_id", values)

    async def coupons(self) -> dict[str, CouponRow]:
        """Read all coupons."""
        rows = await self._rows(self._shop.coupon)
        found = [CouponRow(row["coupon_id"], row["state"], _aware(row["valid_until"])) for row in rows]
        return {row.coupon: row for row in found}

    async def delete_coupon(self, coupon: str) -> None:
        """Delete a coupon's row."""
        await self._execute(delete(self._shop.coupon).where(self._shop.coupon.c.coupon_id == coupon))

    async def add_holds(self, holds: Sequence[HeldHold]) -> None:
        """Insert holds."""
        rows = [
            {
                "order_no": held.order_no,
                "kind": held.hold.kind,
                "ref": held.hold.ref,
                "quantity": held.hold.quantity,
                "state": str(held.state),
            }
            for held in holds
        ]
        await self._insert(self._own.hold, rows)

    async def holds(self) -> list[HeldHold]:
        """Read all holds."""
        found = [
            HeldHold(row["order_no"], Hold(row["kind"], row["ref"], row["quantity"]), HoldState(row["state"]))
            for row in await self._rows(self._own.hold)
        ]
        return sorted(found, key=lambda held: (held.order_no, held.hold.kind, held.hold.ref))

    async def facts(self) -> list[Fact]:
        """Read the whole outbox."""
        rows = sorted(await self._rows(self._own.outbox), key=lambda row: row["seq"])
        return [Fact(row["event_id"], row["order_no"], FactType(row["type"]), row["payload"]) for row in rows]

    async def register_consumer(self, name: str, events: Sequence[FactType]) -> None:
        """Register a consumer."""
        await self._insert(self._own.consumer, [{"name": name, "events": [str(kind) for kind in events]}])

    async def deliveries(self) -> list[tuple[str, str]]:
        """Read what is owed to consumers."""
        ids = {row["seq"]: row["event_id"] for row in await self._rows(self._own.outbox)}
        owed = sorted((row["seq"], row["consumer"]) for row in await self._rows(self._own.delivery))
        return [(consumer, ids[seq]) for seq, consumer in owed]

    async def shift_time(self, by: timedelta) -> None:
        """Move every stored deadline into the past by ``by``."""
        await self._shift(self._shop.orders, ("order_no",), "expire_at", by, only={"status": "pending"})
        await self._shift(self._shop.coupon, ("coupon_id",), "valid_until", by)
        await self._shift(self._own.quarantine, ("order_no", "stage"), "next_try_at", by)

    @asynccontextmanager
    async def lock_order(self, order_no: str) -> AsyncIterator[None]:
        """Hold an order's row locked."""
        orders = self._shop.orders
        async with self._locking(select(orders.c.id).where(orders.c.order_no == order_no)):
            yield

    @asynccontextmanager
    async def lock_asset(self, kind: str, ref: str) -> AsyncIterator[None]:
        """Hold an asset's row locked."""
        key = self._shop.stock.c.sku_id if kind == "stock" else self._shop.coupon.c.coupon_id
        async with self._locking(select(key).where(key == ref)):
            yield

    async def aclose(self) -> None:
        """Give back connections."""
        await self.engine.dispose()

    @asynccontextmanager
    async def _locking(self, rows: Any) -> AsyncIterator[None]:  # noqa: ANN401 -- a SELECT of any column
        async with self.engine.connect() as connection:
            found = (await connection.execute(rows.with_for_update())).all()
            assert len(found) == 1, "there is no such row to lock"
            try:
                yield
            finally:
                await connection.rollback()

    async def _execute(self, statement: Any) -> None:  # noqa: ANN401 -- any writing statement
        async with self.engine.begin() as connection:
            await connection.execute(statement)

    async def _rows(self, table: Table) -> Sequence[RowMapping]:
        async with self.engine.connect() as connection:
            return (await connection.execute(select(table))).mappings().all()

    async def _insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        async with self.engine.begin() as connection:
            await self._insert_by(connection, table, rows)

    async def _insert_by(self, connection: AsyncConnection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        bound = [{name: self._bound(value) for name, value in row.items()} for row in rows]
        for start in range(0, len(bound), _ROWS_IN_ONE_STATEMENT):
            await connection.execute(insert(table), bound[start : start + _ROWS_IN_ONE_STATEMENT])

    async def _put(self, table: Table, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        async with self.engine.begin() as connection:
            await connection.execute(delete(table).where(table.c[key].in_([row[key] for row in rows])))
            await self._insert_by(connection, table, rows)

    async def _shift(
        self, table: Table, key: Sequence[str], column: str, by: timedelta, only: Mapping[str, str] | None = None
    ) -> None:
        """Rewrite instants one by one: date arithmetic is spelled differently on every database."""
        async with self.engine.begin() as connection:
            for row in (await connection.execute(select(table))).mappings().all():
                if row[column] is None or any(row[name] != value for name, value in (only or {}).items()):
                    continue
                this = [table.c[name] == row[name] for name in key]
                await connection.execute(update(table).where(*this).values({column: row[column] - by}))

    def _bound(self, value: Any) -> Any:  # noqa: ANN401 -- a value of any column
        """Write an instant as the column holds it: with its zone where the database keeps one, else as UTC."""
        if not isinstance(value, datetime) or self.engine.dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)


def _values(row: ShopRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ShopRow.__dataclass_fields__}


def _aware(value: Any) -> Any:  # noqa: ANN401 -- a value of any column
    if not isinstance(value, datetime):
        return value
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _wait_for_the_writer(connection: Any, _entry: ConnectionPoolEntry) -> None:  # noqa: ANN401 -- a driver's connection
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout = 10000")
    cursor.close()
