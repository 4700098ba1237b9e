"""Holds that a shop does not record: written down in plain SQL from its own rows (``[[assets]] from``), as they end."""

from typing import Any, Final

from duetime.shop import Asset
from duetime.stores.sql.plain.recipes import Recipes, Step
from duetime.stores.sql.plain.words import MySQLWords


def lines(recipes: Recipes, *, condition: str) -> tuple[Step, ...]:
    """Record what the order's rows say, for each asset that is read from them, where the order is as it must be."""
    return tuple(_step(recipes, asset, condition) for asset in recipes.assets if asset.from_lines is not None)


def limits(recipes: Recipes) -> tuple[str, ...]:
    """Say what a transaction that looks for such holds asks of its isolation."""
    if all(asset.from_lines is None for asset in recipes.assets) or recipes.words.begin != MySQLWords.begin:
        return ()
    return ("Use READ COMMITTED: under REPEATABLE READ the look for holds that are not there can end in deadlocks.",)


def _step(recipes: Recipes, asset: Asset, condition: str) -> Step:
    source = asset.from_lines
    assert source is not None
    quoted, words = recipes.quoted, recipes.words
    columns = list(source.ref)
    parts = [f"l.{quoted(column)}" for column in columns]
    by = quoted(source.order_no or source.order_id or "")
    quantity = "COUNT(*)" if source.quantity is None else recipes.whole(f"SUM(l.{quoted(source.quantity)})")
    sql = recipes.text(
        _LINES,
        kind=words.literal(asset.kind),
        ref=_reference(recipes, parts),
        quantity=quantity,
        lines=recipes.named_text(source.qualified),
        join=f"l.{by} = {{owner}}.{recipes.column('order_no' if source.order_no is not None else 'id')}".format(
            owner=recipes.owner
        ),
        present=" AND ".join(f"{part} IS NOT NULL" for part in parts),
        condition=condition,
        refs=", ".join(parts),
        counted="COUNT(*)" if source.quantity is None else f"SUM(l.{quoted(source.quantity)})",
    )
    says = (
        f"Write down what your own rows say that the order holds of {asset.kind}; not if anything of it was written "
        "before. A row without a reference is left out: duetime would ask a person."
    )
    return Step(f"lines_{asset.kind}", says, sql)


def _reference(recipes: Recipes, parts: list[str]) -> str:
    words = recipes.words
    texts = [words.shown(part) for part in parts]
    if len(texts) == 1:
        return words.name.format(value=parts[0])
    glued: list[Any] = ["'[\"'"]
    for number, one in enumerate(texts):
        glued += [one, "'\"]'" if number == len(texts) - 1 else "'\",\"'"]
    return words.name.format(value=words.joined(*glued))


_LINES: Final = """\
INSERT INTO {hold} (order_no, kind, ref, quantity, held_at)
SELECT
    {own_number},
    {kind},
    {ref},
    {quantity},
    {now}
FROM {orders} JOIN {lines} l ON {join}
WHERE {owner}.{number} = :order_no
    AND {condition}
    AND {present}
    AND NOT EXISTS (
        SELECT 1 FROM {hold} h WHERE h.order_no = {own_number} AND h.kind = {kind}
    )
GROUP BY {owner}.{number}, {refs}
HAVING {counted} > 0"""
