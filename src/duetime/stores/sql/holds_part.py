"""The operations on holds and on the assets' rows, on SQL."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Row
from sqlalchemy.exc import DBAPIError

from duetime.errors import StoreConflict, StoreRefused
from duetime.hold import DONE, AssetKey, Effect, HeldHold, HoldState, stored_hold
from duetime.order import Order
from duetime.shop import split_ref
from duetime.store import AssetLock, AssetRow, Line
from duetime.stores.sql.column_kinds import typed
from duetime.stores.sql.description import AssetTable, optional_time
from duetime.stores.sql.dialect import bound
from duetime.stores.sql.session import Session, unique
from duetime.stores.sql.statements import ASSET_ROLES

_Key = tuple[object, ...]
FINISHED = frozenset(DONE.values())
STATES = {state.value: state for state in HoldState}
NAMED_AT_MOST = 10
"""Rows that a refusal names: more than one order usually holds of one kind."""

HOLD_COLUMNS = ("order_no", "kind", "ref", "quantity", "state", "held_at", "released_at")


class HoldsPart(Session):
    """Reads, locks and moves holds; locks and changes assets."""

    async def read_holds(self, order_nos: Sequence[str], states: Iterable[HoldState]) -> list[HeldHold]:
        """Read the holds of orders in the given states; locked through their order's row."""
        if not order_nos:
            return []
        parameters = bound(order_nos=unique(order_nos), states=[state.value for state in states])
        rows = await self._rows(self._statements.read_holds(), parameters)
        return [_held(row) for row in rows]

    async def read_lines(self, kind: str, orders: Sequence[Order]) -> list[Line]:
        """Read the shop's own rows that say what these orders hold of this kind."""
        lines = self._statements.shop.lines[kind]
        column = lines.order.type
        by_value = {typed(str(lines.value_of(order)), column): order for order in orders}
        rows = await self._rows(self._statements.read_lines(kind), bound(orders=list(by_value)))
        found = lines.lines(rows, by_value)
        if found is None:
            raise StoreRefused(f"{lines.settings.table}: it cannot be told which of several orders a row belongs to")
        return found

    async def lock_holds(self, key: AssetKey, state: HoldState, *, limit: int, skip: Sequence[str]) -> list[HeldHold]:
        """Lock up to ``limit`` holds on one asset in one state, except those of the orders in ``skip``."""
        parameters = bound(kind=key[0], ref=key[1], state=state.value, hold_limit=limit)
        if skip:
            parameters |= bound(skip=unique(skip))
        rows = await self._rows(self._statements.lock_holds(skip=bool(skip)), parameters)
        return [_held(row) for row in rows]

    async def insert_holds(self, holds: Sequence[HeldHold]) -> None:
        """Record what orders have taken."""
        if not holds:
            return
        at = self._own(self._opened_at)
        rows = [
            {
                "order_no": held.order_no,
                "kind": held.hold.kind,
                "ref": held.hold.ref,
                "quantity": held.hold.quantity,
                "state": held.state.value,
                "held_at": at,
                "released_at": at if held.state in FINISHED else None,
            }
            for held in holds
        ]
        own = self._statements.own.hold
        await self._insert(self._statements.insert(own, HOLD_COLUMNS), rows)

    async def move_holds(self, holds: Sequence[HeldHold], to: HoldState, at: datetime) -> None:
        """Move exactly these holds from the state they were read in."""
        for state in unique(held.state for held in holds):
            group = [held for held in holds if held.state is state]
            dialect, own = self._statements.dialect, self._statements.own
            moved = await dialect.move_holds(self._connection, own, group, (to, at if to in FINISHED else None))
            if moved != len(group):
                msg = f"duetime_hold: {moved} of {len(group)} holds were still {state}"
                raise StoreConflict(msg)

    async def lock_assets(self, kind: str, refs: Sequence[str], *, wait: bool = False) -> AssetLock:
        """Lock asset rows in the order of their keys. With ``wait`` False rows locked elsewhere are left out."""
        asset = self._statements.asset(kind)
        values, missing = self._keys(asset, refs)
        if not values:
            return AssetLock({}, frozenset(missing))
        found = await self._rows(self._statements.lock_assets(kind, wait=wait), self._among(values))
        read = self._reader(asset)
        count = len(asset.keys)
        rows = {ref: read(row) for ref, row in _by_ref(values, found, count).items()}
        absent = [ref for refs_of in values.values() for ref in refs_of if ref not in rows]
        if absent:
            missing |= await self._absent(asset, absent)
        return AssetLock(rows, frozenset(missing))

    async def _absent(self, asset: AssetTable, refs: Sequence[str]) -> set[str]:
        values, _ = self._keys(asset, refs)
        found = await self._rows(self._statements.find_assets(asset.settings.kind), self._among(values))
        return set(refs) - _by_ref(values, found, len(asset.keys)).keys()

    async def change_assets(self, kind: str, units: Mapping[str, int], effect: Effect) -> None:
        """Take, give back or use up units; a refusal names the rows, which some databases leave out."""
        try:
            await self._change(kind, units, effect)
        except DBAPIError as error:
            failure = self._statements.dialect.failure(error)
            if not isinstance(failure, StoreRefused):
                raise
            more = f" and {len(units) - NAMED_AT_MOST} more" if len(units) > NAMED_AT_MOST else ""
            raise StoreRefused(f"{kind} {', '.join(sorted(units)[:NAMED_AT_MOST])}{more}: {failure}") from error

    async def _change(self, kind: str, units: Mapping[str, int], effect: Effect) -> None:
        """Change rows: one statement for all that change by the same number."""
        asset = self._statements.asset(kind)
        if asset.settings.storage == "instance":
            await self._change_instances(asset, list(units), effect)
            return
        statement = self._statements.change_counter(kind, effect)
        if statement is None:
            return
        alike: dict[int, list[str]] = {}
        for ref, quantity in units.items():
            alike.setdefault(quantity, []).append(ref)
        for quantity, refs in alike.items():
            values, _ = self._keys(asset, refs)
            await self._exactly(len(refs), statement, self._among(values) | bound(units=quantity))

    async def _change_instances(self, asset: AssetTable, refs: Sequence[str], effect: Effect) -> None:
        statement = self._statements.change_instance(asset.settings.kind, effect)
        if statement is None:
            return
        values, _ = self._keys(asset, refs)
        parameters = self._among(values)
        if effect is Effect.RELEASE and asset.valid_until is not None:
            parameters |= bound(now=asset.valid_until.bound(self._opened_at))
        await self._exactly(len(refs), statement, parameters)

    def _reader(self, asset: AssetTable) -> Callable[[Row[Any]], AssetRow]:
        """Answer how to read the rows of ``lock_assets`` of this asset."""
        places = self._statements.asset_places(asset.settings.kind)
        none = -1
        available, held, state, valid_until = (places.get(role, none) for role in ASSET_ROLES)

        def read(row: Row[Any]) -> AssetRow:
            values: tuple[Any, ...] = (*row, None)
            until = optional_time(asset.valid_until, values[valid_until])
            word = values[state]
            return AssetRow(
                available=values[available],
                held=values[held],
                state=None if word is None else str(word),
                expired=until is not None and until <= self._opened_at,
            )

        return read

    def _keys(self, asset: AssetTable, refs: Sequence[str]) -> tuple[dict[_Key, list[str]], set[str]]:
        """Read references as values of the key's columns; answer also those that can be none."""
        values: dict[_Key, list[str]] = {}
        impossible: set[str] = set()
        kinds = [column.type for column in asset.keys]
        for ref in unique(refs):
            parts = split_ref(ref, len(kinds))
            key = tuple(map(typed, parts, kinds)) if parts is not None else (None,)
            if None in key:
                impossible.add(ref)
            else:
                values.setdefault(key, []).append(ref)
        return values, impossible

    def _among(self, values: Iterable[_Key]) -> dict[str, Any]:
        """Give values to the parameters that name rows of an asset."""
        keys = list(values)
        if len(keys[0]) == 1:
            return bound(refs=[key[0] for key in keys])
        each = {f"key_{n}": unique(column) for n, column in enumerate(zip(*keys, strict=True))}
        return bound(refs=self._statements.dialect.whole_keys(keys), **each)


def _held(row: Row[Any]) -> HeldHold:
    order_no, kind, ref, quantity, state = tuple(row)
    return HeldHold(order_no, stored_hold(kind, ref, quantity), STATES[state])


def _by_ref(values: Mapping[_Key, list[str]], found: Sequence[Row[Any]], count: int) -> dict[str, Row[Any]]:
    """Answer the row of each reference: its own, or that which a case-insensitive column finds, SKU-1 for sku-1.

    Decimal keys were asked for as text, because drivers differ in what they make of decimals.
    """
    exact = {tuple(str(one) if isinstance(one, Decimal) else one for one in row[:count]): row for row in found}
    folded = {_folded(key): row for key, row in exact.items()}
    rows = ((refs, exact.get(key, folded.get(_folded(key)))) for key, refs in values.items())
    return {ref: row for refs, row in rows if row is not None for ref in refs}


def _folded(key: _Key) -> _Key:
    return tuple(part.casefold().rstrip() if isinstance(part, str) else part for part in key)
