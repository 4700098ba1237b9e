"""What an order has taken and gives back when it closes, or uses up when it is paid. Pure: no I/O, no clock.

A hold is given back exactly once. ``HOLD_MOVES`` is the whole of what may happen to it; ``releasing`` and ``consuming``
are promises already written with the order, kept by the releaser as soon as the asset's row is free.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from duetime.errors import InvalidInput
from duetime.order import checked_name

LARGEST_QUANTITY = 2**62
"""Units in one hold: sums of two still fit a 64-bit column."""


class HoldState(StrEnum):
    """Where a hold stands."""

    HELD = "held"
    RELEASING = "releasing"
    RELEASED = "released"
    CONSUMING = "consuming"
    CONSUMED = "consumed"


class HoldMove(StrEnum):
    """What may happen to a hold; ``*_later`` when its asset is locked by somebody else at that moment."""

    RELEASE = "release"
    RELEASE_LATER = "release later"
    CONSUME = "consume"
    CONSUME_LATER = "consume later"
    FINISH = "finish"


HOLD_MOVES: Mapping[tuple[HoldState, HoldMove], HoldState] = MappingProxyType(
    {
        (HoldState.HELD, HoldMove.RELEASE): HoldState.RELEASED,
        (HoldState.HELD, HoldMove.RELEASE_LATER): HoldState.RELEASING,
        (HoldState.HELD, HoldMove.CONSUME): HoldState.CONSUMED,
        (HoldState.HELD, HoldMove.CONSUME_LATER): HoldState.CONSUMING,
        (HoldState.RELEASING, HoldMove.FINISH): HoldState.RELEASED,
        (HoldState.CONSUMING, HoldMove.FINISH): HoldState.CONSUMED,
    }
)


class Effect(StrEnum):
    """What happens to an asset's row."""

    TAKE = "take"
    RELEASE = "release"
    CONSUME = "consume"


LATER: Mapping[Effect, HoldState] = MappingProxyType(
    {
        Effect.RELEASE: HoldState.RELEASING,
        Effect.CONSUME: HoldState.CONSUMING,
    }
)
DONE: Mapping[Effect, HoldState] = MappingProxyType(
    {
        Effect.RELEASE: HoldState.RELEASED,
        Effect.CONSUME: HoldState.CONSUMED,
    }
)
UNFINISHED: Mapping[HoldState, Effect] = MappingProxyType({state: effect for effect, state in LATER.items()})


@dataclass(frozen=True, slots=True, order=True)
class Hold:
    """``quantity`` units of the asset ``ref`` of one ``kind``: two of stock sku-1, one coupon c-9.

    Raises:
        InvalidInput: the quantity is not a whole number above zero, or a name cannot be stored.
    """

    kind: str
    ref: str
    quantity: int = 1

    def __post_init__(self) -> None:
        """Refuse what could never be given back."""
        checked_name(self.kind, "a hold's kind")
        checked_name(self.ref, f"the reference of a {self.kind} hold")
        if not isinstance(self.quantity, int) or isinstance(self.quantity, bool):
            msg = f"the quantity of {self.kind} {self.ref} must be a whole number, found {self.quantity!r}"
            raise InvalidInput(msg)
        if not 0 < self.quantity <= LARGEST_QUANTITY:
            msg = f"the quantity of {self.kind} {self.ref} must be above zero, found {self.quantity}"
            raise InvalidInput(msg)


def stored_hold(kind: str, ref: str, quantity: int) -> Hold:
    """Make a hold of what a store has kept: it was checked when it was written, and there may be very many of them."""
    hold = object.__new__(Hold)
    object.__setattr__(hold, "kind", kind)
    object.__setattr__(hold, "ref", ref)
    object.__setattr__(hold, "quantity", quantity)
    return hold


@dataclass(frozen=True, slots=True)
class HeldHold:
    """A hold with the order that took it and where it stands."""

    order_no: str
    hold: Hold
    state: HoldState = HoldState.HELD


@dataclass(frozen=True, slots=True)
class UnrecordedHold(HeldHold):
    """A hold that is known from the shop's own rows alone (see ``lining``)."""


AssetKey = tuple[str, str]
"""Kind and reference of one asset."""


def summed(holds: Iterable[Hold]) -> tuple[Hold, ...]:
    """Add up the holds on the same asset, sorted by kind and reference (the order in which assets are locked)."""
    total: dict[AssetKey, int] = {}
    for hold in holds:
        key = (hold.kind, hold.ref)
        total[key] = total.get(key, 0) + hold.quantity
    return tuple(Hold(kind, ref, quantity) for (kind, ref), quantity in sorted(total.items()))


def by_order(holds: Sequence[HeldHold]) -> dict[str, list[Hold]]:
    """Group what was held by order number."""
    grouped: dict[str, list[Hold]] = {}
    for held in holds:
        grouped.setdefault(held.order_no, []).append(held.hold)
    return grouped
