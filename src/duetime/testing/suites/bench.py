"""What the tests of a store work with, and the words in which they are written."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duetime.event import Fact, FactType, fact
from duetime.hold import HeldHold, Hold, HoldState
from duetime.identity import new_event_id
from duetime.order import Order
from duetime.shop import Asset, sample_assets
from duetime.store import Failure, FullTransaction, Payment, Quarantine, Stage, Store, StoreCapabilities
from duetime.testing.shop_hand import CouponRow, ShopHand, ShopRow, StockRow

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

NOT_PENDING = ("paid", "closed", "shipped", "on hold by hand")
"""Statuses in which an order may not be touched: two that the description names, and two that it does not."""


def suite_assets() -> tuple[Asset, ...]:
    """Answer the assets that a store under test has to describe: those of the sample shop, and a remote one."""
    return (*sample_assets(), Asset(kind="points", storage="remote"))


@dataclass(frozen=True)
class StoreBench:
    """An empty store and the shop's hand beside it.

    The store describes the sample shop's order table and ``suite_assets()``.
    """

    store: Store
    hand: ShopHand

    def need(self, capability: str) -> None:
        """Skip the test, visibly, where the store lacks a capability."""
        if not getattr(self.store.capabilities, capability):
            pytest.skip(f"{self.store.name} has no {capability}: {_meaning(capability)}")

    def need_hand_locks(self) -> None:
        """Skip the test, visibly, where the shop's hand cannot hold a row beside duetime."""
        if not self.hand.locks_rows:
            pytest.skip(f"{self.store.name}: whoever writes locks everything, so nobody holds a single row")

    async def now(self) -> datetime:
        """Answer the store's clock."""
        async with self.store.transaction(write=False) as tx:
            return await tx.now()

    async def order(self, order_no: str = "so-1", status: str = "pending", **values: Any) -> Order:  # noqa: ANN401 -- fields of ShopRow
        """Let the shop add an order, due a minute ago unless told otherwise, and answer it as the store reads it."""
        expire_at = values.pop("expire_at", await self.now() - MINUTE)
        await self.hand.add_orders([ShopRow(order_no, expire_at, status, **values)])
        return await self.read(order_no)

    async def read(self, order_no: str) -> Order:
        """Read one order through the store."""
        async with self.store.transaction(write=False) as tx:
            (found,) = await tx.find_orders([order_no])
        return found

    async def stock(self, sku: str, available: int = 10, held: int = 0) -> None:
        """Let the shop have a SKU."""
        await self.hand.put_stock([StockRow(sku, available, held)])

    async def coupon(self, coupon: str, state: str = "unused", valid_until: datetime | None = None) -> None:
        """Let the shop have a coupon."""
        await self.hand.put_coupons([CouponRow(coupon, state, valid_until)])

    @asynccontextmanager
    async def refusing(self, *errors: type[BaseException]) -> AsyncIterator[FullTransaction]:
        """Open a transaction that has to end in one of these errors and to leave everything as it was."""
        before = await self.state()
        with pytest.raises(errors):
            async with self.store.transaction() as tx:
                yield tx
        assert await self.state() == before

    async def state(self) -> list[object]:
        """Read everything that the tests of a refused write compare before and after."""
        hand = self.hand
        return [
            await hand.orders(),
            await hand.stock(),
            await hand.coupons(),
            await hand.holds(),
            await hand.facts(),
            await hand.deliveries(),
        ]


def _meaning(capability: str) -> str:
    """Answer what the contract says about a capability, so that the reader of a skip knows what was not shown."""
    for line in (StoreCapabilities.__doc__ or "").splitlines():
        name, colon, meaning = line.strip().partition(": ")
        if colon and name.strip("`") == capability:
            return meaning
    return "see StoreCapabilities"


def held(order_no: str, ref: str = "sku-1", quantity: int = 1, state: HoldState = HoldState.HELD) -> HeldHold:
    """Answer a hold on a SKU."""
    return HeldHold(order_no, Hold("stock", ref, quantity), state)


def some_fact(order_no: str = "so-1", kind: FactType = FactType.ORDER_CLOSED, **payload: Any) -> Fact:  # noqa: ANN401 -- any JSON
    """Answer a fact with an identifier of its own."""
    return fact(new_event_id(), order_no, kind, **payload)


def payment(payment_id: str, order_no: str = "so-1", **values: Any) -> Payment:  # noqa: ANN401 -- fields of Payment
    """Answer a notice about 19.90."""
    some = {
        "provider": "alipay",
        "amount_minor": 1990,
        "currency": "CNY",
        "received_at": datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC),
        "resolution": "paid",
    }
    return Payment(payment_id, order_no, **{**some, **values})


def failure(order_no: str, next_try_at: datetime, **values: Any) -> Failure:  # noqa: ANN401 -- fields of Failure
    """Answer an order that failed once to close."""
    some = {
        "stage": Stage.CLOSE,
        "failures": 1,
        "first_failed_at": next_try_at - SECOND,
        "last_failed_at": next_try_at - SECOND,
        "state": Quarantine.RETRYING,
        "error": "no row sku-1 in stock",
    }
    return Failure(order_no, next_try_at=next_try_at, **{**some, **values})


def numbers(orders: Sequence[Order]) -> list[str]:
    """Answer order numbers, sorted: what a test compares where the contract leaves the order open."""
    return sorted(order.order_no for order in orders)


class OnPurpose(Exception):
    """Raised by a test inside a transaction, to see it rolled back."""
