"""The shop's own hand: what a shop does to its tables beside duetime, without telling it.

The published suites and the random histories need somebody who adds orders and stock, pays and cancels by plain
writes, holds rows locked for a while, and looks at the result from outside. ``ShopHand`` is that somebody; it works on
the sample shop's tables and on duetime's own, and on other connections than the store under test.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from duetime.event import Fact, FactType
from duetime.hold import HeldHold


@dataclass(frozen=True, slots=True)
class ShopRow:
    """One row of the sample shop's order table, as the shop sees it; ``channel`` stands for columns of its own."""

    order_no: str
    expire_at: datetime | None
    status: str = "pending"
    closed_at: datetime | None = None
    close_reason: str | None = None
    close_source: str | None = None
    category: str | None = None
    amount_minor: int | None = None
    currency: str | None = None
    channel: str | None = None


@dataclass(frozen=True, slots=True)
class StockRow:
    """One SKU: units that can be sold, and units that pending orders hold."""

    sku: str
    available: int
    held: int = 0


@dataclass(frozen=True, slots=True)
class CouponRow:
    """One coupon and the end of its own validity."""

    coupon: str
    state: str = "unused"
    valid_until: datetime | None = None


class ShopHand(Protocol):
    """Reads and writes beside duetime. Every write is committed when it returns."""

    locks_rows: bool
    """It can hold single rows locked while duetime works (not so where a writer locks the whole database)."""

    async def add_orders(self, rows: Sequence[ShopRow]) -> None:
        """Insert orders, whatever their status."""
        ...

    async def orders(self) -> dict[str, ShopRow]:
        """Read all orders, by number."""
        ...

    async def set_status(self, order_no: str, status: str) -> None:
        """Write an order's status, as the shop's own payment or cancelling code does."""
        ...

    async def set_expire_at(self, order_no: str, expire_at: datetime | None) -> None:
        """Write an order's deadline."""
        ...

    async def delete_order(self, order_no: str) -> None:
        """Delete an order's row."""
        ...

    async def put_stock(self, rows: Sequence[StockRow]) -> None:
        """Insert SKUs, or write their numbers."""
        ...

    async def stock(self) -> dict[str, StockRow]:
        """Read all SKUs."""
        ...

    async def delete_stock(self, sku: str) -> None:
        """Delete a SKU's row."""
        ...

    async def put_coupons(self, rows: Sequence[CouponRow]) -> None:
        """Insert coupons, or write their states."""
        ...

    async def coupons(self) -> dict[str, CouponRow]:
        """Read all coupons."""
        ...

    async def delete_coupon(self, coupon: str) -> None:
        """Delete a coupon's row."""
        ...

    async def add_holds(self, holds: Sequence[HeldHold]) -> None:
        """Insert rows of ``duetime_hold``, as a shop does in its own transactions."""
        ...

    async def holds(self) -> list[HeldHold]:
        """Read all rows of ``duetime_hold``, by order number, kind and reference."""
        ...

    async def facts(self) -> list[Fact]:
        """Read the whole outbox, oldest first."""
        ...

    async def register_consumer(self, name: str, events: Sequence[FactType]) -> None:
        """Insert a row of ``duetime_consumer``."""
        ...

    async def deliveries(self) -> list[tuple[str, str]]:
        """Read what is owed to consumers: their names with the facts' identifiers, oldest fact first."""
        ...

    async def shift_time(self, by: timedelta) -> None:
        """Move every stored deadline into the past by ``by``: what passing time means to a clock nobody can move.

        Deadlines are those of pending orders, the validity of coupons, and the next try of what failed.
        """
        ...

    def lock_order(self, order_no: str) -> AbstractAsyncContextManager[None]:
        """Hold an order's row locked for the time of the block. Needs ``locks_rows``."""
        ...

    def lock_asset(self, kind: str, ref: str) -> AbstractAsyncContextManager[None]:
        """Hold the row of a SKU (kind ``stock``) or coupon locked for the time of the block. Needs ``locks_rows``."""
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...
