"""What must hold for assets: units held are the sum of what orders hold, and a held piece is held by one order."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from duetime.shop import Asset
from duetime.verifying.finding import Finding
from duetime.verifying.orders import OPEN_STATES
from duetime.verifying.rows import AssetRow, HoldRow


@dataclass(slots=True)
class Holders:
    """Who holds one asset: the units in all, and the first few orders."""

    units: int = 0
    orders: list[str] = field(default_factory=list)

    def add(self, hold: HoldRow) -> None:
        """Count one hold."""
        self.join(Holders(hold.quantity, [hold.order_no]))

    def join(self, other: "Holders") -> None:
        """Count the holds of another name for the same asset."""
        self.units += other.units
        self.orders = [*self.orders, *other.orders][:3]


class AssetJudge:
    """Adds up what is held, then compares it with the assets' rows, page by page."""

    def __init__(self, assets: Sequence[Asset]) -> None:
        """Judge assets that have a table."""
        self._assets = {asset.kind: asset for asset in assets if asset.storage != "remote"}
        self._held: dict[str, dict[str, Holders]] = {kind: {} for kind in self._assets}
        self._seen: dict[str, set[str]] = {kind: set() for kind in self._assets}

    def count(self, holds: Sequence[HoldRow]) -> None:
        """Add holds up."""
        for hold in holds:
            if hold.state in OPEN_STATES and hold.kind in self._held:
                ref = _one_spelling(self._assets[hold.kind], hold.ref)
                self._held[hold.kind].setdefault(ref, Holders()).add(hold)

    def held_refs(self, kind: str) -> list[str]:
        """Answer what is held of a kind, as the holds name it."""
        return list(self._held[kind])

    def respell(self, kind: str, spelled: Mapping[str, str]) -> None:
        """Take holds together that the shop's column takes for the same: SKU-1 and sku-1, where case is ignored."""
        held = self._held[kind]
        for ref, row_ref in spelled.items():
            held.setdefault(row_ref, Holders()).join(held.pop(ref))

    def judge(self, kind: str, rows: Sequence[AssetRow]) -> Iterator[Finding]:
        """Compare rows with what is held of them."""
        asset, held = self._assets[kind], self._held[kind]
        for written in rows:
            row = written if _single(asset) else replace(written, ref=_one_spelling(asset, written.ref))
            holders = held.get(row.ref)
            if holders is not None:
                self._seen[kind].add(row.ref)
            if asset.storage == "counter":
                yield from _counter(asset, row, holders or Holders())
            else:
                yield from _instance(asset, row, holders or Holders())

    def gone(self, kind: str) -> Iterator[Finding]:
        """Name what is held and has no row; ask when all rows were judged."""
        asset = self._assets[kind]
        for ref, holders in self._held[kind].items():
            if ref not in self._seen[kind]:
                yield Finding(
                    "asset-gone",
                    f"{kind} {ref}",
                    f"it has no row in {asset.table}, yet {_by(holders)}",
                    "a row for everything that is held",
                    "insert the row again, or settle these orders by hand: they cannot be closed as things are",
                )


def _one_spelling(asset: Asset, ref: str) -> str:
    """Answer a reference of several parts, a JSON array, in one form: with or without spaces, 7 or "7"."""
    if _single(asset):
        return ref
    try:
        parts = json.loads(ref)
    except ValueError:
        return ref
    return json.dumps([str(part) for part in parts], ensure_ascii=False) if isinstance(parts, list) else ref


def _single(asset: Asset) -> bool:
    return len(asset.key or ()) < 2  # noqa: PLR2004 - two are several


def _by(holders: Holders) -> str:
    return f"{holders.units} are held by {', '.join(holders.orders)}" if holders.orders else "no order holds it"


def _counter(asset: Asset, row: AssetRow, holders: Holders) -> Iterator[Finding]:
    for column, value in ((asset.available, row.available), (asset.held, row.held)):
        if value is not None and value < 0:
            yield Finding(
                "counter-negative",
                f"{asset.kind} {row.ref}",
                f"{asset.table}.{column} is {value}",
                "a number from zero up",
                "count the units, and put the right number there",
            )
            return
    # Where holds come from the shop's own lines, there are none before the close.
    if row.held is None or asset.from_lines is not None or row.held == holders.units:
        return
    yield Finding(
        "counter-differs",
        f"{asset.kind} {row.ref}",
        f"{asset.table}.{asset.held} is {row.held}, its holds add up to {holders.units}",
        "the sum of what orders hold",
        "unless the shop counts other holders there too, put the sum there and correct what can be sold",
    )


def _instance(asset: Asset, row: AssetRow, holders: Holders) -> Iterator[Finding]:
    is_held = row.state == str(asset.held_value)
    if holders.units > 1:
        yield Finding(
            "instance-held-twice",
            f"{asset.kind} {row.ref}",
            f"it is one piece, yet {_by(holders)}",
            "one order for one piece",
            "decide which order has it, and delete the other's row of duetime_hold",
        )
    if is_held and not holders.units and asset.from_lines is None:
        yield Finding(
            "instance-unexplained",
            f"{asset.kind} {row.ref}",
            f"it is {row.state} in {asset.table}.{asset.state}, and no order holds it",
            f"a hold, or {asset.free_value}",
            f"set it to {asset.free_value}, unless something else than orders locks it",
        )
    if holders.units and not is_held:
        yield Finding(
            "instance-not-held",
            f"{asset.kind} {row.ref}",
            f"it is {row.state} in {asset.table}.{asset.state}, yet {_by(holders)}",
            f"{asset.held_value} while an order holds it",
            f"set it to {asset.held_value}, or settle the order by hand: it cannot be closed as things are",
        )
