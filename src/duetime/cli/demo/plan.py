"""What the demo's customers will do, decided beforehand from a seed, so that the same seed makes the same shop."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from duetime.hold import Hold

SKUS: Final = ("tea", "cup", "pot", "kettle", "tray", "spoon", "honey", "biscuits")
SCARCE: Final = "kettle"
COUPONS_AT_MOST: Final = 500
CURRENCY: Final = "EUR"


class Wish(StrEnum):
    """What becomes of an order, as far as its customer is concerned."""

    PAY = "pay"
    PAY_LATE = "pay late"
    CANCEL = "cancel"
    RACE = "race"
    EXTEND = "extend"
    FORGET = "forget"


_WEIGHTS: Final = {
    Wish.PAY: 38,
    Wish.PAY_LATE: 12,
    Wish.CANCEL: 12,
    Wish.RACE: 6,
    Wish.EXTEND: 2,
    Wish.FORGET: 30,
}


@dataclass(frozen=True, slots=True)
class Visit:
    """One customer: comes at ``at`` seconds, orders, and does as wished after ``share`` of the time to pay.

    ``PAY_LATE`` acts around the very end of it; ``RACE`` pays and cancels at the same moment.
    """

    at: float
    order_no: str
    holds: tuple[Hold, ...]
    amount_minor: int
    wish: Wish
    share: float


@dataclass(frozen=True, slots=True)
class Shop:
    """What the shop starts with."""

    stock: dict[str, int]
    coupons: tuple[str, ...]


def opening(*, rate: float, seconds: float, timeout_seconds: float) -> Shop:
    """Answer a stock that lasts, but for one article that runs out now and then."""
    orders = rate * seconds
    plenty = round(50 + 2 * orders)
    held_at_once = rate * timeout_seconds
    scarce = round(5 + 0.1 * held_at_once + 0.03 * orders)
    coupons = min(COUPONS_AT_MOST, round(10 + orders / 4))
    return Shop(
        {sku: scarce if sku == SCARCE else plenty for sku in SKUS}, tuple(f"tea-{n:03}" for n in range(1, coupons + 1))
    )


def visits(shop: Shop, *, rate: float, seconds: float, seed: int) -> Iterator[Visit]:
    """Answer the customers in the order in which they come."""
    chance = random.Random(seed)  # noqa: S311 - a demo that can be repeated, nothing secret
    wishes, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    for n in range(max(1, round(rate * seconds))):
        skus = chance.sample(SKUS, chance.choices((1, 2, 3), (6, 3, 1))[0])
        holds = [Hold("stock", sku, chance.choice((1, 1, 1, 2, 3))) for sku in skus]
        if chance.random() < 0.2:  # noqa: PLR2004 - every fifth customer has a coupon
            holds.append(Hold("coupon", chance.choice(shop.coupons)))
        wish = chance.choices(wishes, weights)[0]
        late = wish is Wish.PAY_LATE
        yield Visit(
            at=n / rate,
            order_no=f"T-{n + 1:05}",
            holds=tuple(holds),
            amount_minor=sum(hold.quantity for hold in holds) * 450,
            wish=wish,
            share=chance.gauss(1.0, 0.05) if late else chance.uniform(0.1, 0.85),
        )
