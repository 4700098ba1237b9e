"""Giving back and using up: what happens to holds and asset rows when their order closes or is paid.

This is the last step of such a transaction, so that rows which many orders want are locked shortest. It never waits:
an asset row that somebody else has locked at this moment is left alone, its holds become ``releasing`` (``consuming``)
with the order, and the releaser follows right after. A closer that waited here while it holds orders and other assets
would be one edge of a deadlock with every cart that locks two of the same rows in the other order.

What must be true of a row is checked while it is locked, and named when it is not: a stock row that was deleted, a
coupon that was freed by hand. It is never skipped in silence: that would lose units.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from duetime.errors import BatchBlocked
from duetime.hold import DONE, LATER, Effect, HeldHold, HoldState, UnrecordedHold
from duetime.shop import Asset
from duetime.store import AssetLock, AssetRow, Transaction

Assets = Mapping[str, Asset]
"""The described assets by kind."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How holds end, and when. ``leave_rows``: asset rows are left to the releaser, one and all."""

    effect: Effect
    at: datetime
    leave_rows: bool = False


@dataclass(slots=True)
class _Plan:
    """What is to be done with the holds of one batch."""

    done: list[HeldHold] = field(default_factory=list)
    later: list[HeldHold] = field(default_factory=list)
    units: dict[str, dict[str, int]] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)
    too_much: str = ""


def needs_row(asset: Asset, effect: Effect) -> bool:
    """Say whether ``effect`` writes to the asset's own row at all."""
    if asset.storage == "remote":
        return False
    if effect is Effect.CONSUME:
        return asset.held is not None if asset.storage == "counter" else asset.used_value is not None
    return True


async def settle(tx: Transaction, assets: Assets, holds: Sequence[HeldHold], ending: Ending) -> list[HeldHold]:
    """Finish ``holds`` of orders that are locked here; answer those that are left to the releaser.

    Raises:
        BatchBlocked: an asset's row is missing or not as it must be (only where holds are given back: a payment is
            never refused because of a stock row, its holds become ``consuming`` instead).
    """
    plan = _Plan()
    for kind, group in _by_kind(holds):
        await _plan_kind(tx, assets.get(kind), plan, (group, ending))
    if plan.blocked or plan.too_much:
        raise BatchBlocked(plan.too_much or next(iter(plan.blocked.values())), plan.blocked)
    effect = ending.effect
    await _end(tx, [(plan.done, DONE[effect]), (plan.later, LATER[effect])], ending.at)
    for kind, units in plan.units.items():
        await tx.change_assets(kind, units, effect)
    return plan.later


async def _end(tx: Transaction, ends: Sequence[tuple[list[HeldHold], HoldState]], at: datetime) -> None:
    """Move what is recorded; record what was read from the shop's rows, at once in the state that it ends in."""
    new: list[HeldHold] = []
    for holds, state in ends:
        recorded = [held for held in holds if not isinstance(held, UnrecordedHold)]
        if recorded:
            await tx.move_holds(recorded, state, at)
        if len(recorded) < len(holds):
            read = (held for held in holds if isinstance(held, UnrecordedHold))
            new += [HeldHold(held.order_no, held.hold, state) for held in read]
    if new:
        await tx.insert_holds(new)


async def _plan_kind(
    tx: Transaction, asset: Asset | None, plan: _Plan, work: tuple[list[HeldHold], Ending]
) -> None:  # fmt: skip
    holds, ending = work
    kind, effect = holds[0].hold.kind, ending.effect
    if asset is None and effect is Effect.CONSUME:
        plan.later.extend(holds)
    elif asset is None:
        why = f"its hold is of kind {kind}, which [[assets]] does not describe"
        plan.blocked |= {held.order_no: why for held in holds}
    elif not needs_row(asset, effect):
        (plan.later if effect is Effect.RELEASE else plan.done).extend(holds)
    elif ending.leave_rows or (effect is Effect.RELEASE and asset.release == "after"):
        plan.later.extend(holds)
    else:
        lock = await tx.lock_assets(kind, sorted({held.hold.ref for held in holds}))
        _sort_out(plan, asset, (holds, lock, effect))


def _sort_out(plan: _Plan, asset: Asset, work: tuple[list[HeldHold], AssetLock, Effect]) -> None:
    holds, lock, effect = work
    for ref, group in _by_ref(holds):
        row = lock.rows.get(ref)
        units = sum(held.hold.quantity for held in group)
        if row is None and ref not in lock.missing:
            plan.later.extend(group)
            continue
        problem = f"{asset.kind} {ref} has no row in {asset.table}" if row is None else misfit(asset, ref, row, units)
        if not problem:
            plan.done.extend(group)
            plan.units.setdefault(asset.kind, {})[ref] = units
        elif effect is Effect.CONSUME:
            plan.later.extend(group)
        elif row is not None and len(group) > 1:
            plan.too_much = problem
        else:
            plan.blocked |= {held.order_no: problem for held in group}


def misfit(asset: Asset, ref: str, row: AssetRow, units: int) -> str | None:
    """Say why a locked row cannot give up ``units`` that are held; None where it can."""
    if asset.storage == "instance":
        if row.state != str(asset.held_value):
            return f"{asset.kind} {ref} is {row.state!r} in {asset.table}.{asset.state}, expected {asset.held_value!r}"
        return f"{asset.kind} {ref} is one piece, but {units} are held" if units != 1 else None
    if row.held is not None and row.held < units:
        return f"{asset.kind} {ref} has {row.held} in {asset.table}.{asset.held}, fewer than the {units} held"
    return None


def _by_kind(holds: Sequence[HeldHold]) -> Iterable[tuple[str, list[HeldHold]]]:
    groups: dict[str, list[HeldHold]] = {}
    for held in holds:
        groups.setdefault(held.hold.kind, []).append(held)
    return sorted(groups.items())


def _by_ref(holds: Sequence[HeldHold]) -> Iterable[tuple[str, list[HeldHold]]]:
    groups: dict[str, list[HeldHold]] = {}
    for held in holds:
        groups.setdefault(held.hold.ref, []).append(held)
    return groups.items()
