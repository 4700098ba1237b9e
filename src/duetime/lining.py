"""Lining: what orders hold where the shop records no holds, read from its own rows (``[[assets]] from``).

The rows are read while the order is locked, in the transaction that closes it or takes its money, one statement for
each such asset and batch. What they say is added up and becomes holds there and then: written in the state in which
they end, so that each of them is one row written once. From then on they are holds like any other.

An order that has any recorded hold of a kind, in any state, is not read again for that kind: it was closed before and
set back to pending by hand, it was placed through duetime, or the shop records that kind itself. Its units were given
back, or will be, by what is recorded (G3). What a shop takes a second time for such an order it must record.

What a row may say, and what becomes of it:

=======================================  ==============================================================
a whole quantity above zero              that many units; several rows of one reference are added up
no quantity column                       each row is one
zero                                     nothing is held
NULL, negative, a fraction               the order is *blocked*: nobody knows what to give back
no reference                             *blocked*; in a column of the order's own row: nothing is held
a reference that no asset row has        *blocked* by ``giving``, as with any hold
no row for the order                     nothing is held
=======================================  ==============================================================

Money is never refused for a line: an order that is paid takes the payment, what its rows say clearly is used up, and
the rest is named in quarantine (``paying``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from duetime.errors import InvalidInput
from duetime.giving import Assets
from duetime.hold import LARGEST_QUANTITY, HeldHold, Hold, HoldState, UnrecordedHold
from duetime.order import Order
from duetime.shop import Asset, FromLines
from duetime.store import Line

_HELD = (HoldState.HELD,)


class _Reading(Protocol):
    """The part of a transaction that is needed here."""

    async def read_holds(self, order_nos: Sequence[str], states: Iterable[HoldState]) -> list[HeldHold]: ...

    async def read_lines(self, kind: str, orders: Sequence[Order]) -> list[Line]: ...


@dataclass(slots=True)
class Found:
    """What orders hold, and what is wrong with the rows of those of which that cannot be said."""

    holds: list[HeldHold]
    blocked: dict[str, str] = field(default_factory=dict)


def lined(assets: Assets) -> list[Asset]:
    """Answer the assets whose holds are read from the shop's own rows."""
    return [asset for asset in assets.values() if asset.from_lines is not None]


async def held_by(tx: _Reading, assets: Assets, orders: Sequence[Order]) -> Found:
    """Answer what orders that are locked here hold: as recorded, else as the shop's own rows say."""
    from_rows = lined(assets)
    numbers = [order.order_no for order in orders]
    if not from_rows:
        return Found(await tx.read_holds(numbers, _HELD))
    recorded = await tx.read_holds(numbers, HoldState)
    found = Found([held for held in recorded if held.state is HoldState.HELD])
    known = {(held.order_no, held.hold.kind) for held in recorded}
    for asset in from_rows:
        unknown = [order for order in orders if (order.order_no, asset.kind) not in known]
        if unknown:
            _add_up(asset, await tx.read_lines(asset.kind, unknown), found)
    return found


def _add_up(asset: Asset, lines: Sequence[Line], found: Found) -> None:
    units: dict[tuple[str, str], int] = {}
    for order_no, ref, quantity in lines:
        whole = quantity if type(quantity) is int else _whole(quantity)
        if ref is None or whole is None or whole < 0:
            found.blocked.setdefault(order_no, _problem(asset, Line(order_no, ref, quantity)))
        elif whole:
            units[order_no, ref] = units.get((order_no, ref), 0) + whole
    kind = asset.kind
    for (order_no, ref), quantity in units.items():
        try:
            hold = Hold(kind, ref, quantity)
        except InvalidInput as error:
            found.blocked.setdefault(order_no, f"{_place(asset)} cannot be recorded: {error}")
        else:
            found.holds.append(UnrecordedHold(order_no, hold))


def _whole(quantity: object) -> int | None:
    """Read a column's value as a whole number; None where it is none."""
    if isinstance(quantity, bool) or not isinstance(quantity, int | float | Decimal):
        return None
    try:
        whole = int(quantity)
    except (ValueError, OverflowError):
        return None
    return whole if whole == quantity and abs(whole) <= LARGEST_QUANTITY else None


def _problem(asset: Asset, line: Line) -> str:
    source = _described(asset)
    if line.ref is None:
        return (
            f"a line in {source.table} names no {asset.kind}: "
            f"{', '.join(source.ref)} is NULL or empty; write what it holds there, or delete the line"
        )
    shown = "NULL" if line.quantity is None else str(line.quantity)
    return (
        f"its line for {asset.kind} {line.ref} in {source.table} has {source.quantity} = "
        f"{shown}, which is no whole number from zero up; correct the line"
    )


def _place(asset: Asset) -> str:
    return f"a {asset.kind} line in {_described(asset).table}"


def _described(asset: Asset) -> FromLines:
    assert asset.from_lines is not None
    return asset.from_lines
