"""The shop's own hand on the model."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from duetime.event import Fact, FactType
from duetime.hold import HeldHold
from duetime.order import Order, State
from duetime.stores.memory import MemoryAsset, MemoryHold, MemoryStore
from duetime.testing.shop_hand import CouponRow, ShopRow, StockRow


class MemoryShopHand:
    """Writes into a ``MemoryStore`` beside duetime."""

    locks_rows = True

    def __init__(self, store: MemoryStore) -> None:
        """Work on ``store``."""
        self._store = store

    async def add_orders(self, rows: Sequence[ShopRow]) -> None:
        """Insert orders."""
        async with self._store.by_hand() as data:
            for row in rows:
                data.last_id += 1
                data.orders[row.order_no] = Order(
                    id=data.last_id,
                    order_no=row.order_no,
                    state=self._store.state_of(row.status),
                    status=row.status,
                    expire_at=row.expire_at,
                    closed_at=row.closed_at,
                    close_reason=row.close_reason,
                    close_source=row.close_source,
                    category=row.category,
                    amount_minor=row.amount_minor,
                    currency=row.currency,
                )
                data.columns[row.order_no] = {"channel": row.channel}

    async def orders(self) -> dict[str, ShopRow]:
        """Read all orders."""
        data = self._store.data
        return {
            number: ShopRow(
                order_no=number,
                expire_at=order.expire_at,
                status=order.status,
                closed_at=order.closed_at,
                close_reason=order.close_reason,
                close_source=order.close_source,
                category=order.category,
                amount_minor=order.amount_minor,
                currency=order.currency,
                channel=_text(data.columns.get(number, {}).get("channel")),
            )
            for number, order in data.orders.items()
        }

    async def set_status(self, order_no: str, status: str) -> None:
        """Write an order's status."""
        async with self._store.by_hand() as data:
            state = self._store.state_of(status)
            data.orders[order_no] = replace(data.orders[order_no], status=status, state=state)

    async def set_expire_at(self, order_no: str, expire_at: datetime | None) -> None:
        """Write an order's deadline."""
        async with self._store.by_hand() as data:
            data.orders[order_no] = replace(data.orders[order_no], expire_at=expire_at)

    async def delete_order(self, order_no: str) -> None:
        """Delete an order's row."""
        async with self._store.by_hand() as data:
            data.orders.pop(order_no, None)

    async def put_stock(self, rows: Sequence[StockRow]) -> None:
        """Insert SKUs, or write their numbers."""
        async with self._store.by_hand() as data:
            data.assets.update({("stock", row.sku): MemoryAsset(row.available, row.held) for row in rows})

    async def stock(self) -> dict[str, StockRow]:
        """Read all SKUs."""
        assets = self._store.data.assets.items()
        return {ref: StockRow(ref, row.available, row.held) for (kind, ref), row in assets if kind == "stock"}

    async def delete_stock(self, sku: str) -> None:
        """Delete a SKU's row."""
        async with self._store.by_hand() as data:
            data.assets.pop(("stock", sku), None)

    async def put_coupons(self, rows: Sequence[CouponRow]) -> None:
        """Insert coupons, or write their states."""
        async with self._store.by_hand() as data:
            data.assets.update(
                {("coupon", row.coupon): MemoryAsset(state=row.state, valid_until=row.valid_until) for row in rows}
            )

    async def coupons(self) -> dict[str, CouponRow]:
        """Read all coupons."""
        assets = self._store.data.assets.items()
        return {
            ref: CouponRow(ref, row.state or "", row.valid_until) for (kind, ref), row in assets if kind == "coupon"
        }

    async def delete_coupon(self, coupon: str) -> None:
        """Delete a coupon's row."""
        async with self._store.by_hand() as data:
            data.assets.pop(("coupon", coupon), None)

    async def add_holds(self, holds: Sequence[HeldHold]) -> None:
        """Insert holds."""
        async with self._store.by_hand() as data:
            for held in holds:
                key = (held.order_no, held.hold.kind, held.hold.ref)
                data.holds[key] = MemoryHold(held, self._store.clock.now())

    async def holds(self) -> list[HeldHold]:
        """Read all holds."""
        return [row.held for _, row in sorted(self._store.data.holds.items(), key=lambda item: item[0])]

    async def facts(self) -> list[Fact]:
        """Read the whole outbox."""
        return [row.fact for row in self._store.data.facts.values()]

    async def register_consumer(self, name: str, events: Sequence[FactType]) -> None:
        """Register a consumer."""
        async with self._store.by_hand() as data:
            data.consumers[name] = frozenset(events)

    async def deliveries(self) -> list[tuple[str, str]]:
        """Read what is owed to consumers."""
        by_seq = {row.seq: event_id for event_id, row in self._store.data.facts.items()}
        owed = sorted((row.seq, row.consumer) for row in self._store.data.deliveries)
        return [(consumer, by_seq[seq]) for seq, consumer in owed]

    async def shift_time(self, by: timedelta) -> None:
        """Move every stored deadline into the past by ``by``."""
        async with self._store.by_hand() as data:
            for number, order in data.orders.items():
                if order.expire_at is not None and order.state is State.PENDING:
                    data.orders[number] = replace(order, expire_at=order.expire_at - by)
            for key, row in data.assets.items():
                if row.valid_until is not None:
                    data.assets[key] = replace(row, valid_until=row.valid_until - by)
            for stage, failure in data.failures.items():
                data.failures[stage] = replace(failure, next_try_at=failure.next_try_at - by)

    @asynccontextmanager
    async def lock_order(self, order_no: str) -> AsyncIterator[None]:
        """Hold an order's row locked."""
        self._store.locked_orders.add(order_no)
        try:
            yield
        finally:
            self._store.locked_orders.discard(order_no)

    @asynccontextmanager
    async def lock_asset(self, kind: str, ref: str) -> AsyncIterator[None]:
        """Hold an asset's row locked."""
        self._store.locked_assets.add((kind, ref))
        try:
            yield
        finally:
            self._store.locked_assets.discard((kind, ref))

    async def aclose(self) -> None:
        """Have no connections to give back."""


def _text(value: object) -> str | None:
    return None if value is None else str(value)
