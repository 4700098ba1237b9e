"""What can happen in a history: duetime's verbs, the shop's own hand, passing time, locked rows and faults."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta

from duetime.closing import CloseRequest, Closing, ClosingOptions
from duetime.extending import Extending, Extension
from duetime.hold import HeldHold, Hold
from duetime.paying import Paying, PaymentNotice
from duetime.placing import Placement, Placing, Timeouts
from duetime.releasing import Releasing, ReleasingOptions
from duetime.retrying import Failures, Retrying, RetryingOptions
from duetime.shop import Asset
from duetime.stores.memory import MemoryStore
from duetime.sweep import Sweep, SweepOptions
from duetime.testing import ManualClock
from duetime.testing.faults import Crash, Fault, FaultAtStep, FaultyStore, NoFaults
from duetime.testing.shop_hand import CouponRow, ShopRow, StockRow
from duetime.testing.suites import StoreBench, suite_assets

MINUTE = timedelta(minutes=1)
GRACE = 5 * MINUTE
TIMEOUTS = Timeouts(30 * MINUTE, {"seckill": 3 * MINUTE})
LONGEST_EXTENSION = 120.5 * MINUTE
"""Half a minute off, so that no sum of whole minutes meets it."""

ORDERS = tuple(f"so-{n}" for n in range(4))
SKUS = tuple(f"sku-{n}" for n in range(3))
COUPONS = tuple(f"c-{n}" for n in range(3))
UNITS = 12
ASSETS: Mapping[str, Asset] = {asset.kind: asset for asset in suite_assets()}


class Process:
    """One running duetime: everything that a crash takes away."""

    def __init__(self, store: FaultyStore) -> None:
        self.closing = Closing(store, ClosingOptions(GRACE, ASSETS))
        self.failures = Failures(store, RetryingOptions(3, 10 * MINUTE, 10 * MINUTE))
        self.retrying = Retrying(store, self.closing, self.failures)
        self.placing = Placing(store, ASSETS, TIMEOUTS)
        self.paying = Paying(store, ASSETS, self.closing)
        self.extending = Extending(store, LONGEST_EXTENSION)
        self.releasing = Releasing(store, self.failures, ReleasingOptions(ASSETS))
        self.sweep = Sweep(store, self.retrying, SweepOptions(GRACE, pause_seconds=0))


class World:
    """A shop with its store, its hand, and one duetime that may crash and start again."""

    def __init__(self, bench: StoreBench) -> None:
        self.bench = bench
        self.hand = bench.hand
        self.store = FaultyStore(bench.store)
        self.process = Process(self.store)
        self.touched: set[str] = set()
        """Assets whose rows the shop's hand has written: nobody can add up their units any more."""
        self.moved: set[str] = set()
        """Orders whose status the shop's hand has written."""

    async def open(self) -> None:
        """Stock the shop."""
        now = await self.now()
        await self.hand.put_stock([StockRow(sku, UNITS) for sku in SKUS])
        ends = (None, now + 25 * MINUTE, now - MINUTE)
        await self.hand.put_coupons(
            [CouponRow(coupon, "unused", end) for coupon, end in zip(COUPONS, ends, strict=True)]
        )

    async def now(self) -> datetime:
        """Answer the store's clock; the model's stands still, and moves a little whenever somebody looks."""
        if isinstance(self.bench.store, MemoryStore) and isinstance(self.bench.store.clock, ManualClock):
            await self.bench.store.clock.advance(0.01)
        return await self.bench.now()

    async def row(self, order_no: str) -> ShopRow | None:
        """Answer what the shop sees of an order."""
        return (await self.hand.orders()).get(order_no)


Step = Callable[[World], Awaitable[object]]


@dataclass(frozen=True)
class Place:
    """The shop places orders through duetime."""

    order_nos: tuple[str, ...]
    holds: tuple[Hold, ...] = ()
    category: str | None = None

    async def __call__(self, world: World) -> object:
        return await world.process.placing.place(
            [Placement(order_no, self.holds, self.category, 1990, "CNY") for order_no in self.order_nos]
        )


@dataclass(frozen=True)
class Pay:
    """A provider reports payments: of the right amount, or of another one."""

    order_nos: tuple[str, ...]
    payment_id: int
    amount_minor: int = 1990

    async def __call__(self, world: World) -> object:
        return await world.process.paying.pay(
            [
                PaymentNotice(order_no, self.id_for(order_no), self.amount_minor, "CNY", "alipay")
                for order_no in self.order_nos
            ]
        )

    def id_for(self, order_no: str) -> str:
        """Answer the payment's id for one of the orders."""
        return f"p-{self.payment_id}-{order_no}"


@dataclass(frozen=True)
class Close:
    """Somebody asks for orders to be closed: a trigger, or a customer."""

    order_nos: tuple[str, ...]
    reason: str = "timeout"

    async def __call__(self, world: World) -> object:
        return await world.process.retrying.close(
            [CloseRequest(order_no, self.reason, "history") for order_no in self.order_nos]
        )


@dataclass(frozen=True)
class Extend:
    """Staff gives an order time."""

    order_no: str
    minutes: int

    async def __call__(self, world: World) -> object:
        until = await world.now() + self.minutes * MINUTE
        return await world.process.extending.extend([Extension(self.order_no, until)])


@dataclass(frozen=True)
class SweepOnce:
    """The sweep runs."""

    async def __call__(self, world: World) -> object:
        run = await world.process.sweep.run_once()
        return (run.due_found, run.closed, run.pending_seen, run.error)


@dataclass(frozen=True)
class ReleaseOnce:
    """The releaser runs."""

    async def __call__(self, world: World) -> object:
        return await world.process.releasing.run_once()


@dataclass(frozen=True)
class RetryOnce:
    """What failed is tried again."""

    async def __call__(self, world: World) -> object:
        outcomes = await world.process.retrying.run_once()
        return sorted(outcomes, key=lambda outcome: outcome.order_no)


@dataclass(frozen=True)
class TimePasses:
    """Nothing happens for a while."""

    minutes: int

    async def __call__(self, world: World) -> None:
        await world.hand.shift_time(self.minutes * MINUTE)


@dataclass(frozen=True)
class HandMoves:
    """The shop's own code moves an order that is in the expected status, and tells nobody."""

    order_no: str
    to: str
    expected: str = "pending"

    async def __call__(self, world: World) -> None:
        row = await world.row(self.order_no)
        if row is not None and row.status == self.expected:
            world.moved.add(self.order_no)
            await world.hand.set_status(self.order_no, self.to)


@dataclass(frozen=True)
class HandDeletes:
    """The shop's own code deletes an order."""

    order_no: str

    async def __call__(self, world: World) -> None:
        world.moved.add(self.order_no)
        await world.hand.delete_order(self.order_no)


@dataclass(frozen=True)
class HandTakesDeadline:
    """The shop's own code takes an order's deadline away."""

    order_no: str

    async def __call__(self, world: World) -> None:
        if await world.row(self.order_no) is not None:
            await world.hand.set_expire_at(self.order_no, None)


@dataclass(frozen=True)
class HandHolds:
    """The shop's own code adds a hold to a pending order, and takes the units, as the docs tell it to."""

    order_no: str
    sku: str

    async def __call__(self, world: World) -> None:
        row, stock = await world.row(self.order_no), (await world.hand.stock()).get(self.sku)
        there = {(held.order_no, held.hold.ref) for held in await world.hand.holds()}
        if row is None or row.status != "pending" or stock is None or stock.available < 1:
            return
        if (self.order_no, self.sku) not in there:
            await world.hand.put_stock([StockRow(self.sku, stock.available - 1, stock.held + 1)])
            await world.hand.add_holds([HeldHold(self.order_no, Hold("stock", self.sku))])


@dataclass(frozen=True)
class HandSpoils:
    """Somebody breaks an asset's row: deletes it, forgets what is held, frees a coupon that is locked."""

    ref: str
    how: str

    async def __call__(self, world: World) -> None:
        world.touched.add(self.ref)
        if self.ref in COUPONS:
            if self.how == "delete":
                await world.hand.delete_coupon(self.ref)
            else:
                await world.hand.put_coupons([CouponRow(self.ref, "unused")])
        elif self.how == "delete":
            await world.hand.delete_stock(self.ref)
        else:
            await world.hand.put_stock([StockRow(self.ref, UNITS, 0 if self.how == "forget" else 5 * UNITS)])


@dataclass(frozen=True)
class WhileLocked:
    """The shop holds rows while something happens, that many minutes later."""

    orders: tuple[str, ...]
    assets: tuple[tuple[str, str], ...]
    step: Close | Pay
    minutes: int = 0

    async def __call__(self, world: World) -> object:
        await world.hand.shift_time(self.minutes * MINUTE)
        async with AsyncExitStack() as locks:
            for order_no in self.orders:
                if await world.row(order_no) is not None:
                    await locks.enter_async_context(world.hand.lock_order(order_no))
            there = {("stock", sku) for sku in await world.hand.stock()}
            there |= {("coupon", coupon) for coupon in await world.hand.coupons()}
            for kind, ref in self.assets:
                if (kind, ref) in there:
                    await locks.enter_async_context(world.hand.lock_asset(kind, ref))
            return await self.step(world)


@dataclass(frozen=True)
class WithFault:
    """Something goes wrong at one step of the store while something happens; after a crash duetime starts again."""

    step: Place | Pay | Close | Extend | SweepOnce
    at: int
    fault: Fault

    async def __call__(self, world: World) -> object:
        world.store.plan = FaultAtStep(self.at, self.fault)
        try:
            return await self.step(world)
        except Crash:
            return self._crashed(world)
        except BaseExceptionGroup as group:
            if not group.subgroup(Crash):
                raise
            return self._crashed(world)
        finally:
            world.store.plan = NoFaults()

    def _crashed(self, world: World) -> str:
        world.process = Process(world.store)
        return "crashed"
