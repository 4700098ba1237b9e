"""What the judge reads: plain rows, and the one contract through which it gets them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from duetime.order import OrderId, State

HoldKey = tuple[str, str, str]
AssetId = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class OrderRow:
    """The shop's row. ``closed_at``, ``reason`` and ``source`` come from it, or from what is kept beside it."""

    id: OrderId
    order_no: str
    state: State | None
    status: str
    expire_at: datetime | None
    closed_at: datetime | None = None
    reason: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class HoldRow:
    """A row of ``duetime_hold``."""

    order_no: str
    kind: str
    ref: str
    quantity: int
    state: str
    held_at: datetime | None = None

    @property
    def key(self) -> HoldKey:
        """Its primary key."""
        return self.order_no, self.kind, self.ref


@dataclass(frozen=True, slots=True)
class FactRow:
    """A row of ``duetime_outbox``."""

    seq: int
    order_no: str
    type: str
    payload: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PaymentRow:
    """A row of ``duetime_payment``."""

    payment_id: str
    order_no: str
    resolution: str


@dataclass(frozen=True, slots=True)
class FailureRow:
    """A row of ``duetime_quarantine``."""

    order_no: str
    stage: str
    state: str
    last_failed_at: datetime


@dataclass(frozen=True, slots=True)
class Dossier:
    """All that is written about one order number, seen at one instant; ``order`` is None where the shop has no row."""

    order_no: str
    order: OrderRow | None
    holds: Sequence[HoldRow] = ()
    facts: Sequence[FactRow] = ()
    payments: Sequence[PaymentRow] = ()
    failures: Sequence[FailureRow] = ()


@dataclass(frozen=True, slots=True)
class DossierPage:
    """Some orders at one instant of the store's clock; ``last`` is where the next page begins, None at the end."""

    now: datetime
    dossiers: Sequence[Dossier]
    last: OrderId | None = None


@dataclass(frozen=True, slots=True)
class FactPage:
    """Orders named by some facts; ``last`` is where the next page begins, None at the end."""

    order_nos: Sequence[str]
    last: int | None


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """How many deliveries were looked at, and which of them point at no fact, as (consumer, seq)."""

    looked_at: int
    astray: Sequence[tuple[str, int]]
    last: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class AssetRow:
    """A counter's numbers, or an instance's state; ``ref`` is how a hold names it."""

    ref: str
    available: int | None = None
    held: int | None = None
    state: str | None = None


class AssetSnapshot(Protocol):
    """Holds and assets at one instant."""

    def holds(self, page_size: int) -> AsyncIterator[Sequence[HoldRow]]:
        """Read all holds, in pages."""
        ...

    def assets(self, kind: str, page_size: int) -> AsyncIterator[Sequence[AssetRow]]:
        """Read all rows of an asset that is not remote, in pages."""
        ...

    async def spelled(self, kind: str, refs: Sequence[str]) -> Mapping[str, str]:
        """Answer how the asset's rows spell those of these references that they spell in another way."""
        ...

    async def missing_orders(self, order_nos: Sequence[str]) -> set[str]:
        """Answer which of these numbers the shop's table does not have."""
        ...


class Books(Protocol):
    """Everything there is, read in pages, each of them as it was at one instant; nothing is locked."""

    async def orders_page(self, after: OrderId | None, limit: int) -> DossierPage:
        """Read the next orders by primary key, with all that is written about them."""
        ...

    async def dossiers(self, order_nos: Sequence[str]) -> DossierPage:
        """Read all that is written about these numbers, whether the shop has such an order or not."""
        ...

    async def first_fact_since(self, at: datetime) -> int | None:
        """Answer the place of the first fact written at or after an instant; None where there is none."""
        ...

    async def facts_page(self, start: int, limit: int) -> FactPage:
        """Read which orders the next facts from ``start`` on are about."""
        ...

    async def waiting_failures(self, limit: int) -> Sequence[str]:
        """Read the order numbers of failures that are not resolved."""
        ...

    async def deliveries_page(self, after: tuple[str, int] | None, limit: int) -> DeliveryPage:
        """Look at the next deliveries."""
        ...

    def asset_snapshot(self) -> AbstractAsyncContextManager[AssetSnapshot]:
        """Open one snapshot for holds and assets together."""
        ...

    async def last_sweep(self) -> datetime | None:
        """Answer when a sweep last came to its end."""
        ...

    async def now(self) -> datetime:
        """Answer the store's clock."""
        ...
