"""Placing an order in plain SQL."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from duetime.event import FactType
from duetime.shop import Asset, FromLines, TableName, split_table
from duetime.stores.sql.plain.recipes import Recipe, Recipes, Step

POLICY: Final = "plain SQL"
"""What facts name as the policy that made such a deadline."""

_PARAMETER: Final = re.compile(r"(?<!:):(\w+)")


def place(recipes: Recipes) -> Recipe:
    """Insert the order, take what it wants, remember what it took, write the fact."""
    deadline, parameters = _deadline(recipes)
    steps = [recipes.begin(), _order(recipes, deadline, parameters)]
    for asset in recipes.assets:
        steps += _taking(recipes, asset, parameters)
    told, more = recipes.expire_at_told()
    steps += [_fact(recipes, told), recipes.deliveries(), recipes.commit()]
    event_id = "a new UUID as text; the same one if the same attempt is repeated"
    return Recipe(
        "place",
        "Place an order: its row, what it takes, its holds and its fact, all of it or nothing.",
        recipes.words.isolation,
        _used({**parameters, **more, "event_id": event_id}, steps),
        tuple(steps),
        _limits(recipes),
    )


def _used(parameters: Mapping[str, str], steps: Iterable[Step]) -> dict[str, str]:
    """Leave out what no statement names: a key of several columns has a parameter for each of them, and no ref."""
    named = {name for step in steps for name in _PARAMETER.findall(step.sql)}
    return {name: meaning for name, meaning in parameters.items() if name in named}


def _deadline(recipes: Recipes) -> tuple[str, dict[str, str]]:
    form = recipes.time("expire_at")
    if recipes.plus is not None:
        said, name, meaning = form.after("0"), "created_at", "the time of creation, as the column holds it"
        return (said, {}) if said is not None else (f":{name}", {name: meaning})
    said = form.after(recipes.big("timeout_seconds"))
    if said is not None:
        return said, {"timeout_seconds": "how long the order may stay unpaid, in seconds"}
    return ":expire_at", {"expire_at": "the deadline, as the column holds it"}


def _order(recipes: Recipes, deadline: str, parameters: dict[str, str]) -> Step:
    values = {"order_no": ":order_no", "status": recipes.text("{first_pending}"), "expire_at": deadline}
    parameters["order_no"] = "the order's number"
    for role, meaning in (
        ("category", "its category, or NULL"),
        ("amount", "what is to be paid, as the column holds it"),
        ("currency", "its currency"),
    ):
        if recipes.optional(role) is not None:
            values[role] = f":{role}"
            parameters[role] = meaning
    names = ", ".join(recipes.column(role) for role in values)
    listed = ",\n    ".join(values.values())
    return Step(
        "order",
        "Your own INSERT of the order's row, with all columns that you have; these are the ones that duetime reads.",
        recipes.text("INSERT INTO {orders} (") + f"{names})\nVALUES (\n    {listed}\n)",
        rows=1,
    )


def _taking(recipes: Recipes, asset: Asset, parameters: dict[str, str]) -> list[Step]:
    steps = [] if asset.storage == "remote" else [_take(recipes, asset, parameters)]
    if asset.from_lines is not None:
        steps += _line(recipes, asset, parameters)
        return steps
    _ref_and_quantity(recipes, parameters)
    values = {"kind": recipes.words.literal(asset.kind), "ref": recipes.small("ref")}
    hold = recipes.text(_HOLD, quantity=recipes.big("quantity"), **values)
    says = f"Remember each {asset.kind} taken, for duetime to give back or use up."
    return [*steps, Step(f"hold_{asset.kind}", says, hold, rows=1, repeat=True)]


def _ref_and_quantity(recipes: Recipes, parameters: dict[str, str], *, quantity: bool = True) -> None:
    parameters["ref"] = "each thing taken: the key of its row as text" + (
        ", several columns as a JSON array" if any(len(one.key or ()) > 1 for one in recipes.assets) else ""
    )
    if quantity:
        parameters["quantity"] = "how much of it; lines of one thing are added up first"


def _key_parameters(asset: Asset) -> list[tuple[str, str]]:
    """Name the parameters for an asset's key, and the columns that they are for."""
    key = asset.key or ("",)
    return [("ref", key[0])] if len(key) == 1 else [(one, one) for one in key]


def _line(recipes: Recipes, asset: Asset, parameters: dict[str, str]) -> list[Step]:
    """Insert the shop's own line, from which the hold is read; none where the order's or the piece's row names it."""
    source = asset.from_lines
    if source is None or source.qualified in (recipes.orders.settings.qualified, _own_table(asset)):
        return []
    names = [name for name, _ in _key_parameters(asset)]
    _ref_and_quantity(recipes, parameters, quantity=source.quantity is not None)
    columns = [source.order_no or source.order_id or "", *source.ref]
    values = [_order_named(recipes, source), *(f":{name}" for name in names)]
    if source.quantity is not None:
        columns.append(source.quantity)
        values.append(":quantity")
    listed = ", ".join(recipes.quoted(column) for column in columns)
    sql = f"INSERT INTO {recipes.named_text(source.qualified)} ({listed})\nVALUES ({', '.join(values)})"
    says = (
        f"Your own INSERT of each line, with all columns that you have; duetime reads from them who holds {asset.kind}."
    )
    return [Step(f"line_{asset.kind}", says, sql, rows=1, repeat=True)]


def _own_table(asset: Asset) -> TableName | None:
    return None if asset.table is None else split_table(asset.table)


def _order_named(recipes: Recipes, source: FromLines) -> str:
    """Say by which value a row names its order."""
    if source.order_no is not None:
        return ":order_no"
    return recipes.text("(SELECT {id} FROM {orders} WHERE {number} = :order_no)", id=recipes.column("id"))


def _take(recipes: Recipes, asset: Asset, parameters: dict[str, str]) -> Step:
    table = recipes.asset_table(asset.kind)
    names = _key_parameters(asset)
    where = [f"{recipes.quoted(column)} = :{name}" for name, column in names]
    parameters |= {name: f"column {column} of {asset.table}" for name, column in names if name != "ref"}
    if asset.from_lines is not None:
        _ref_and_quantity(recipes, parameters, quantity=asset.storage == "counter")
    values, quantity = [], recipes.big("quantity")
    available, held, state = (table.column(role) for role in ("available", "held", "state"))
    if available is not None:
        name = recipes.quoted(available)
        values.append(f"{name} = {name} - {quantity}")
        where.append(f"{name} >= {quantity}")
    if held is not None:
        name = recipes.quoted(held)
        values.append(f"{name} = {name} + {quantity}")
    if state is not None and asset.held_value is not None and asset.free_value is not None:
        name, literal = recipes.quoted(state), recipes.words.literal
        values.append(f"{name} = {literal(asset.held_value)}")
        where.append(f"{name} = {literal(asset.free_value)}")
    source = asset.from_lines
    if source is not None and source.qualified == _own_table(asset):
        values.append(f"{recipes.quoted(source.order_no or source.order_id or '')} = {_order_named(recipes, source)}")
    sql = f"UPDATE {recipes.named(table.table)}\nSET {', '.join(values)}\nWHERE {' AND '.join(where)}"
    says = (
        f"Take each {asset.kind}, always in the order of their keys, so that two carts never wait for each other. "
        "No row changed: there is not enough. Roll back."
    )
    return Step(f"take_{asset.kind}", says, sql, rows=1, repeat=True)


def _fact(recipes: Recipes, told: str) -> Step:
    words = recipes.words
    one = words.object([("kind", "h.kind"), ("ref", "h.ref"), ("quantity", "h.quantity")])
    pairs = [
        ("event_id", recipes.small("event_id")),
        ("order_no", recipes.text("{own_number}")),
        ("expire_at", told),
        ("policy", words.literal(POLICY)),
        ("category", recipes.optional("category") or "NULL"),
        ("amount_minor", recipes.amount_minor or "NULL"),
        ("currency", recipes.currency or "NULL"),
        ("holds", words.array(one, recipes.text("FROM {hold} h\n        WHERE h.order_no = {own_number}"))),
    ]
    event_id = recipes.small("event_id")
    sql = recipes.text(_FACT, event_id=event_id, type=FactType.ORDER_PLACED, payload=words.laid_out(pairs))
    return Step("fact", "Write the fact: it tells whoever wants to know, and it keeps who did what.", sql, rows=1)


def _limits(recipes: Recipes) -> tuple[str, ...]:
    lined = [asset for asset in recipes.assets if asset.from_lines is not None]
    kinds = [asset.kind for asset in lined]
    own = recipes.orders.settings.qualified
    named = [
        f"The order's row names its {asset.kind}: {', '.join(asset.from_lines.ref)} belongs into its INSERT."
        for asset in lined
        if asset.from_lines is not None and asset.from_lines.qualified == own
    ]
    read = f"No holds on {', '.join(kinds)} are written: duetime reads them from your own rows."
    return (read, *named) if kinds else ()


_HOLD: Final = """\
INSERT INTO {hold} (order_no, kind, ref, quantity, held_at)
SELECT
    {own_number},
    {kind},
    {ref},
    {quantity},
    {now}
FROM {orders}
WHERE {number} = :order_no"""

_FACT: Final = """\
INSERT INTO {outbox} (event_id, order_no, type, payload, created_at)
SELECT {event_id}, {own_number}, '{type}', {payload}, {now}
FROM {orders}
WHERE {number} = :order_no"""
