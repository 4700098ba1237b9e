"""What duetime needs from a database: the one contract that decides (*triggers suggest, the store decides*).

A ``Store`` gives transactions; a ``Transaction`` has the writes that closing, placing, paying and extending are made
of. Each write names its guard: it touches rows that are as the caller believes them to be, or raises and leaves
nothing. Everything takes and returns lists.

Rules for implementations, checked by ``duetime.testing.StoreSuite``:

* READ COMMITTED or stronger; a transaction that ends with an exception leaves nothing behind.
* ``now`` is the store's own clock. It may lag behind the truth, never run ahead of it.
* ``lock_orders(wait=False)`` and ``lock_assets(wait=False)`` return at once: what somebody else holds is left out.
* Where a lock is waited for, it is for a bounded time; then ``StoreConflict``.
* A transaction that stands still for five seconds is ended by the store, so that a frozen process cannot keep the
  shop's rows (where the store is a server).
* Deadlock, serialization failure, lock time-out: ``StoreConflict``. Connection lost or store away:
  ``StoreUnavailable``. A constraint: ``StoreRefused``. A missing table or column: ``StoreMisfit``; a right: its
  ``StoreDenied``.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol

from duetime.event import Fact
from duetime.fleet import Fleet
from duetime.hold import AssetKey, Effect, HeldHold, HoldState
from duetime.observation import Observation
from duetime.order import Order, OrderId, State


@dataclass(frozen=True, slots=True)
class StoreCapabilities:
    """What a store can do beyond the contract; suites print what they skip for the lack of it.

    ``row_locks``: two transactions can hold different rows at the same time (SQLite and memory lock as a whole).
    ``own_clock``: its clock is not this process's (a database server).
    ``outlives_process``: what was committed is there after the process ended.
    """

    row_locks: bool
    own_clock: bool
    outlives_process: bool


@dataclass(frozen=True, slots=True)
class CloseNote:
    """Why, by whom and when an order was closed; ``at`` may be None where the shop's own row tells it."""

    at: datetime | None
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class OrderNote:
    """What the shop's row has no place for. ``extended`` counts extensions, ``extended_by`` adds them up."""

    order_no: str
    extended: int = 0
    extended_by: timedelta = timedelta(0)
    policy: str | None = None
    close: CloseNote | None = None


@dataclass(frozen=True, slots=True)
class OrderWrite:
    """One guarded write: ``order`` becomes ``to``, if it is still pending (and due by ``due_by``, where given)."""

    order: Order
    to: State
    due_by: datetime | None = None
    close: CloseNote | None = None
    expire_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NewOrder:
    """A row to be placed. ``columns`` are further columns of the shop's table, by name."""

    order_no: str
    expire_at: datetime
    policy: str
    category: str | None = None
    amount_minor: int | None = None
    currency: str | None = None
    columns: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssetRow:
    """One locked row of an asset's table: a counter's numbers, or an instance's state (None where not described).

    ``expired`` is True when an instance's own validity ran out, by the store's clock.
    """

    available: int | None = None
    held: int | None = None
    state: str | None = None
    expired: bool = False


@dataclass(frozen=True, slots=True)
class AssetLock:
    """What ``lock_assets`` found: rows now locked, and references that have no row; the rest is locked elsewhere."""

    rows: Mapping[str, AssetRow]
    missing: frozenset[str]


class Line(NamedTuple):
    """One of the shop's own rows that says what an order holds: of ``ref`` (None: it names nothing) so many units.

    ``quantity`` is what the column holds, whatever that is; 1 where no column is described.
    """

    order_no: str
    ref: str | None
    quantity: object = 1


@dataclass(frozen=True, slots=True)
class PageKey:
    """Where a keyset page ended: the last row's deadline and primary key.

    ``stored`` is the deadline as the store sorts it (``Order.page_key``): SQLite sorts text, and 10:00:00 and
    10:00:00.000000 are one instant but two texts.
    """

    expire_at: datetime | None
    id: OrderId
    stored: object = None


@dataclass(frozen=True, slots=True)
class DueQuery:
    """One page of pending orders in the order of their deadlines.

    ``due_by``: deadlines up to and including this instant. ``not_before``: none older than this.
    """

    due_by: datetime
    limit: int
    after: PageKey | None = None
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment notice as it was first answered. ``resolution``: paid, manual (later: reopened, refund)."""

    payment_id: str
    order_no: str
    provider: str
    amount_minor: int
    currency: str
    received_at: datetime
    resolution: str


class Stage(StrEnum):
    """Where an order failed: at its close, or at giving back what it held."""

    CLOSE = "close"
    RELEASE = "release"


class Quarantine(StrEnum):
    """Where a failing order stands."""

    RETRYING = "retrying"
    QUARANTINED = "quarantined"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Failure:
    """An order that failed to close, or to give back, with its count and the next try."""

    order_no: str
    stage: Stage
    failures: int
    first_failed_at: datetime
    last_failed_at: datetime
    next_try_at: datetime
    state: Quarantine
    error: str


@dataclass(frozen=True, slots=True)
class FailureQuery:
    """Which failures: of these orders (None: of all), in these states, at this stage, to be tried by ``try_by``."""

    order_nos: Sequence[str] | None = None
    states: frozenset[Quarantine] = frozenset(Quarantine)
    stage: Stage | None = None
    try_by: datetime | None = None
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class SweepRun:
    """One run of the sweep over one shard. ``pending_seen``: the shop had any pending order at all."""

    shard: int
    worker: str
    started_at: datetime
    finished_at: datetime
    due_found: int
    closed: int
    error: str | None = None
    pending_seen: bool | None = None


@dataclass(frozen=True, slots=True)
class HoldPage:
    """Some hundred holds in the order of their orders' numbers, read by number and not by state.

    ``held``: orders of the page that hold something. ``finished``: orders with a hold that was finished before the
    instant asked for. ``upto``: where the next page begins (None: this was the last one).
    """

    held: Sequence[str]
    finished: Sequence[str]
    upto: str | None


@dataclass(frozen=True, slots=True)
class ObservedQuery:
    """One page of observed orders by (deadline, order number).

    ``since``: deadlines from this instant on, and at this very instant only numbers after ``after_no``. ``before``:
    deadlines before this instant. ``followed``: only orders that are looked at again.
    """

    since: datetime
    before: datetime
    limit: int
    after_no: str = ""
    followed: bool = False


class Transaction(Protocol):
    """The writes that everything duetime does is made of, inside one transaction."""

    async def now(self) -> datetime:
        """Answer the store's clock, as an aware instant in UTC."""
        ...

    # Orders

    async def lock_orders(
        self, order_nos: Sequence[str], *, due_by: datetime | None = None, pending: bool = True, wait: bool = False
    ) -> list[Order]:
        """Lock rows in the order of their primary keys and answer them as they are now.

        Conditions: the number is among ``order_nos``; with ``pending`` the order is pending; with ``due_by`` its
        deadline is at or before that instant. With ``wait`` False rows locked by somebody else are left out.
        ``Order.order_no`` is what the row says, which may differ in case from what was asked for.
        """
        ...

    async def find_orders(self, order_nos: Sequence[str]) -> list[Order]:
        """Read rows without locking them, with why and when they were closed, wherever that is kept."""
        ...

    async def due_page(self, query: DueQuery) -> list[Order]:
        """Read one page of pending orders by (deadline, primary key), without locking."""
        ...

    async def count_without_deadline(self, *, limit: int) -> int:
        """Count pending orders that have no deadline, or nothing that can be read as one, up to ``limit``."""
        ...

    async def write_if_pending(self, writes: Sequence[OrderWrite]) -> None:
        """Write orders that were locked here.

        Raises:
            StoreConflict: a row was no longer pending (or not due by ``due_by``); nothing must be kept.
        """
        ...

    async def insert_orders(self, orders: Sequence[NewOrder]) -> None:
        """Insert pending orders.

        Raises:
            StoreRefused: a number exists already, or the shop's table refuses a row.
        """
        ...

    async def find_notes(self, order_nos: Sequence[str]) -> dict[str, OrderNote]:
        """Read what duetime keeps about orders beside the shop's row; absent where there is nothing."""
        ...

    async def put_notes(self, notes: Sequence[OrderNote]) -> None:
        """Write extensions, policy and the close, replacing what stood there."""
        ...

    # Holds and assets

    async def read_holds(self, order_nos: Sequence[str], states: Iterable[HoldState]) -> list[HeldHold]:
        """Read the holds of orders in the given states; locked through their order's row."""
        ...

    async def read_lines(self, kind: str, orders: Sequence[Order]) -> list[Line]:
        """Read the shop's own rows (``[[assets]] from``) that say what these orders hold of this kind.

        A column of the order's own row that is NULL, empty or the number 0 says that nothing is held: no line.

        Raises:
            StoreRefused: it cannot be told which of several orders a row belongs to; each alone can be read.
        """
        ...

    async def lock_holds(self, key: AssetKey, state: HoldState, *, limit: int, skip: Sequence[str]) -> list[HeldHold]:
        """Lock up to ``limit`` holds on one asset in one state, except those of the orders in ``skip``."""
        ...

    async def insert_holds(self, holds: Sequence[HeldHold]) -> None:
        """Record what orders have taken, in the state that each hold says.

        Raises:
            StoreRefused: an order already has a hold on the same asset.
        """
        ...

    async def move_holds(self, holds: Sequence[HeldHold], to: HoldState, at: datetime) -> None:
        """Move exactly these holds from the state they were read in.

        Raises:
            StoreConflict: one of them was no longer in that state; nothing must be kept.
        """
        ...

    async def lock_assets(self, kind: str, refs: Sequence[str], *, wait: bool = False) -> AssetLock:
        """Lock asset rows in the order of their keys. With ``wait`` False rows locked elsewhere are left out."""
        ...

    async def change_assets(self, kind: str, units: Mapping[str, int], effect: Effect) -> None:
        """Take, give back or use up units on rows that were locked here.

        Raises:
            StoreConflict: a row was not as it was when it was locked.
            StoreRefused: a constraint of the shop's table forbids it.
        """
        ...

    # Facts and payments

    async def add_facts(self, facts: Sequence[Fact], at: datetime) -> None:
        """Write facts, in this order, and what is owed of them to every registered consumer."""
        ...

    async def find_facts(self, *, event_ids: Sequence[str] = (), order_no: str | None = None) -> list[Fact]:
        """Read facts by identifier, or all facts of one order, oldest first."""
        ...

    async def record_payments(self, payments: Sequence[Payment]) -> dict[str, Payment]:
        """Write notices whose payment id is new; answer, by payment id, those that were there *before*."""
        ...


class Records(Protocol):
    """duetime's own books, beside the orders: what failed, what waits to be given back, which sweeps ran."""

    async def put_failures(self, failures: Sequence[Failure]) -> None:
        """Write failures, replacing those of the same order and stage."""
        ...

    async def find_failures(self, query: FailureQuery) -> list[Failure]:
        """Read failures, those to be tried next first."""
        ...

    async def unfinished_assets(self, *, limit: int, now: datetime) -> list[tuple[AssetKey, HoldState]]:
        """Read assets that some hold still waits for, except where every such order is in quarantine or backing off.

        Remote assets are left out: their receivers finish them.
        """
        ...

    async def put_sweep_run(self, run: SweepRun) -> SweepRun:
        """Write a sweep run, filling in ``pending_seen`` where it is None, and answer it as written."""
        ...

    async def find_payments(self, order_no: str) -> list[Payment]:
        """Read all payments that named this order, oldest first."""
        ...

    async def ever_swept(self) -> bool:
        """Say whether any sweep run is on record."""
        ...

    async def hold_page(self, after: str, *, rows: int, finished_before: datetime | None = None) -> HoldPage:
        """Read about ``rows`` holds of the orders that follow ``after`` ("" to begin), all of an order together."""
        ...

    async def closed_here(self, order_nos: Sequence[str]) -> set[str]:
        """Answer which of these orders duetime has closed itself, by its facts.

        An order that was brought back and holds again (``generation``) needs a close of ours for each life.
        """
        ...

    async def remove_holds(self, order_nos: Sequence[str], *, finished_before: datetime) -> int:
        """Remove holds of these orders that were released or consumed before this instant; answer how many."""
        ...

    async def remove_facts(self, *, before: datetime, after_seq: int, limit: int) -> tuple[int, int | None]:
        """Look at up to ``limit`` facts after ``after_seq``; remove those from before, if nothing is owed of them.

        Answers how many were removed, and where to go on (None: no older one is left).
        """
        ...

    async def remove_sweep_runs(self, *, before: datetime, limit: int) -> int:
        """Remove up to ``limit`` sweep runs that began before this instant, never the newest; answer how many."""
        ...


class Observed(Protocol):
    """What observe mode remembers; it writes nowhere else."""

    async def observed_page(self, query: ObservedQuery) -> list[Observation]:
        """Read one page of observed orders by (deadline, order number)."""
        ...

    async def find_observed(self, order_nos: Sequence[str]) -> list[Observation]:
        """Read what is remembered of orders."""
        ...

    async def put_observed(self, observations: Sequence[Observation]) -> None:
        """Write observations, replacing those of the same orders."""
        ...

    async def remove_observed(self, *, before: datetime, limit: int) -> int:
        """Remove up to ``limit`` observed orders whose deadline was before this instant; answer how many."""
        ...


class Leases(Protocol):
    """Which workers are alive, and what was said to all of them."""

    async def renew_lease(self, worker: str, lease: timedelta) -> None:
        """Say that a worker is alive for so long from now on."""
        ...

    async def end_lease(self, worker: str) -> None:
        """Say that a worker has gone."""
        ...

    async def fleet(self) -> Fleet:
        """Answer who is alive, and what was said about the pace."""
        ...

    async def set_pause(self, paused_by: str | None) -> None:
        """Let nothing be closed any more, on whose word; None ends it."""
        ...

    async def set_rate(self, rate: float | None) -> None:
        """Let all workers together close so many orders a second (``UNLIMITED``); None leaves it to the config."""
        ...


class FullTransaction(Transaction, Records, Observed, Leases, Protocol):
    """What a store's transactions offer in all."""


class Store(Protocol):
    """A database with the shop's tables and duetime's own."""

    name: str
    capabilities: StoreCapabilities

    async def check(self) -> None:
        """Look at the server's version, the tables and columns described, and what must be unique.

        Raises:
            ConfigError: the description does not fit the database; every misfit in a sentence.
            StoreUnavailable: the store does not answer.
        """
        ...

    def transaction(self, *, write: bool = True) -> AbstractAsyncContextManager[FullTransaction]:
        """Open a transaction: committed at the end of the block, rolled back where the block raises."""
        ...

    async def aclose(self) -> None:
        """Give back all connections."""
        ...
