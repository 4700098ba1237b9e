"""What happens in the world, drawn by a seed: customers, the shop's own hand, and everything that goes wrong."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from duetime.closing import CloseRequest
from duetime.extending import Extension
from duetime.hold import HeldHold, Hold, HoldState
from duetime.order import Order, State
from duetime.paying import PaymentNotice
from duetime.placing import Placement
from duetime.stores.memory import MemoryAsset, MemoryData, MemoryHold
from tests.simulation.world import World

SKUS = tuple(f"sku-{n}" for n in range(4))
UNITS = 500
BAD = "bad"
"""Begins the number of an order whose SKU has no row: it can never be closed."""

Event = Callable[["Run"], Awaitable[None]]


class Run:
    """One life of the world: the events of some time, one after the other."""

    def __init__(self, world: World) -> None:
        self.world, self.chance = world, world.chance
        self.numbers: list[str] = []
        self.by_hand: set[str] = set()
        """Orders that the shop's hand has moved, whose holds are the shop's to judge."""
        self.held: dict[str, Hold] = {}

    async def go(self, seconds: float) -> None:
        async with self.hand() as data:
            data.assets.update({("stock", sku): MemoryAsset(UNITS, 0) for sku in SKUS})
        events = [event for event, weight in EVENTS for _ in range(weight)]
        until = self.world.clock.monotonic() + seconds
        while self.world.clock.monotonic() < until:
            await self.world.clock.advance(self.chance.expovariate(4.0))
            await self.chance.choice(events)(self)

    @asynccontextmanager
    async def hand(self) -> AsyncIterator[MemoryData]:
        """Write by the shop's hand, between any two transactions; time goes on while it waits for its turn."""
        by_hand = self.world.store.by_hand()
        coming = asyncio.ensure_future(by_hand.__aenter__())
        while not coming.done():
            await self.world.clock.advance(0.02)
        try:
            yield coming.result()
        finally:
            await by_hand.__aexit__(None, None, None)

    def some(self) -> str:
        """Name an order, a young one rather than an old one."""
        return self.chance.choice(self.numbers[-12:] or ["nobody"])

    def later(self, seconds: float, what: Callable[[], object]) -> None:
        """Do something when so much time has passed."""

        async def wait() -> None:
            await self.world.clock.sleep(seconds)
            what()

        self.world.customers.run(wait())

    def holds(self) -> list[Hold]:
        return [Hold("stock", sku, self.chance.randint(1, 3)) for sku in self.chance.sample(SKUS, 2)]

    def new(self, prefix: str) -> str:
        self.numbers.append(f"{prefix}-{len(self.numbers)}")
        return self.numbers[-1]


async def shop_places(run: Run) -> None:
    """The shop inserts an order and its holds itself; it may commit when the deadline is near, or over."""
    number, world = run.new("own"), run.world
    at = world.clock.now() + timedelta(seconds=run.chance.uniform(-1, 12))
    async with run.hand() as data:
        data.last_id += 1
        data.orders[number] = Order(data.last_id, number, State.PENDING, "pending", at, amount_minor=5, currency="CNY")
        for hold in run.holds():
            asset = data.assets["stock", hold.ref]
            available, held = (asset.available or 0) - hold.quantity, (asset.held or 0) + hold.quantity
            data.assets["stock", hold.ref] = MemoryAsset(available, held)
            row = MemoryHold(HeldHold(number, hold, HoldState.HELD), world.clock.now())
            data.holds[number, "stock", hold.ref] = row


async def bad_order(run: Run) -> None:
    """An order that nobody can close comes into the same batches as the others."""
    number, world = run.new(BAD), run.world
    at = world.clock.now() + timedelta(seconds=run.chance.uniform(0, 8))
    async with run.hand() as data:
        data.last_id += 1
        data.orders[number] = Order(data.last_id, number, State.PENDING, "pending", at)
        held = HeldHold(number, Hold("stock", "gone", 1), HoldState.HELD)
        data.holds[number, "stock", "gone"] = MemoryHold(held, world.clock.now())


async def places(run: Run) -> None:
    process = run.chance.choice(run.world.processes)
    placement = Placement(run.new("placed"), run.holds(), None, 5, "CNY")
    process.run(process.wired.placing.place([placement]))


async def pays(run: Run) -> None:
    number, paying = run.some(), run.world.customers.wired.paying
    notice = PaymentNotice(number, f"p-{number}-{run.chance.randrange(2)}", 5, "CNY", "alipay")
    run.world.customers.run(paying.pay([notice]))


async def cancels(run: Run) -> None:
    closing = run.world.customers.wired.closing
    run.world.customers.run(closing.close([CloseRequest(run.some(), reason="customer", source="app")]))


async def extends(run: Run) -> None:
    to = run.world.clock.now() + timedelta(seconds=run.chance.uniform(1, 10))
    run.world.customers.run(run.world.customers.wired.extending.extend([Extension(run.some(), to)]))


async def hand_pays(run: Run) -> None:
    """The shop's own code marks an order paid, and leaves its holds alone."""
    number = run.some()
    async with run.hand() as data:
        order = data.orders.get(number)
        if order is not None and order.state is State.PENDING and number not in run.world.store.locked_orders:
            data.orders[number] = Order(order.id, number, State.PAID, "paid", order.expire_at)
            run.by_hand.add(number)


async def locks_an_order(run: Run) -> None:
    number, locked = run.some(), run.world.store.locked_orders
    locked.add(number)
    run.later(run.chance.uniform(0, 4), lambda: locked.discard(number))


async def locks_a_row(run: Run) -> None:
    key, locked = ("stock", run.chance.choice(SKUS)), run.world.store.locked_assets
    locked.add(key)
    run.later(run.chance.uniform(0, 4), lambda: locked.discard(key))


async def kills(run: Run) -> None:
    if len(run.world.workers) > 1:
        name = run.chance.choice(sorted(run.world.workers))
        await run.world.kill(name)
        run.later(run.chance.uniform(0, 8), lambda: run.world.start(name))


async def freezes(run: Run) -> None:
    life = run.chance.choice(run.world.processes[1:]).life
    life.awake.clear()
    run.later(run.chance.uniform(0, 12), life.awake.set)


async def jumps(run: Run) -> None:
    clock = run.chance.choice(run.world.processes).clock
    clock.jump(timedelta(seconds=run.chance.uniform(-3600, 3600)))


async def goes_away(run: Run) -> None:
    faults = run.chance.choice(run.world.processes).faults
    faults.away = True
    run.later(run.chance.uniform(0, 5), lambda: setattr(faults, "away", False))


async def pauses(run: Run) -> None:
    async with run.hand() as data:
        data.paused_by = "mia"

    async def resume(after_seconds: float) -> None:
        await run.world.clock.sleep(after_seconds)
        async with run.world.store.by_hand() as data:
            data.paused_by = None

    run.world.customers.run(resume(run.chance.uniform(0, 5)))


EVENTS: tuple[tuple[Event, int], ...] = (
    (shop_places, 10), (places, 8), (pays, 6), (cancels, 3), (extends, 4), (hand_pays, 1), (bad_order, 1),
    (locks_an_order, 2), (locks_a_row, 2), (kills, 2), (freezes, 2), (jumps, 1), (goes_away, 1), (pauses, 1),
)  # fmt: skip
