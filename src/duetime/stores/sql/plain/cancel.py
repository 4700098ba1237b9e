"""Cancelling an order in plain SQL."""

from typing import Final

from duetime.event import FactType
from duetime.order import Reason
from duetime.stores.sql.plain.lines import limits, lines
from duetime.stores.sql.plain.recipes import Recipe, Recipes, Step

REASONS: Final = [reason.value for reason in Reason if reason is not Reason.TIMEOUT]
"""What a program may close for: time-outs are duetime's, which knows grace and the database's clock."""

ROLES: Final = (("close_reason", "reason"), ("close_source", "source"))


def cancel(recipes: Recipes) -> Recipe:
    """Close a pending order because somebody wants that, and let go of what it held."""
    parameters = {
        "order_no": "the order's number",
        "reason": f"{', '.join(REASONS[:-1])} or {REASONS[-1]}",
        "source": "who did it: usually the same word",
        "event_id": "a new UUID as text; the same one if the same attempt is repeated",
    }
    told, more = recipes.expire_at_told()
    close, extra = _close(recipes)
    return Recipe(
        "cancel",
        "Cancel a pending order: closed by a customer or by staff. Time-outs are left to duetime.",
        recipes.words.isolation,
        {**parameters, **more, **extra},
        (
            recipes.begin(),
            recipes.lock_order("Not pending: somebody was faster, the row says who. Roll back."),
            *lines(recipes, condition=recipes.text("{owner}.{status} {pending}")),
            _fact(recipes, told),
            *(_remote_fact(recipes) if recipes.remote else ()),
            recipes.deliveries(),
            *(_remote_deliveries(recipes) if recipes.remote else ()),
            close,
            *(_note(recipes) if recipes.unnoted else ()),
            Step("holds", _HOLDS_SAYS, recipes.text(_HOLDS)),
            recipes.commit(),
        ),
        limits(recipes),
    )


def _fact(recipes: Recipes, told: str) -> Step:
    words = recipes.words
    one = words.object([("kind", "h.kind"), ("ref", "h.ref"), ("quantity", "h.quantity")])
    held = recipes.text("FROM {hold} h\n        WHERE h.order_no = {own_number} AND h.state = 'held'")
    pairs = [
        ("event_id", recipes.small("event_id")),
        ("order_no", recipes.text("{own_number}")),
        ("reason", recipes.small("reason")),
        ("source", recipes.small("source")),
        ("expire_at", told),
        ("closed_at", recipes.text("{now_told}")),
        ("lateness_ms", "NULL"),
        ("released", words.array(one, held)),
    ]
    event_id = recipes.small("event_id")
    sql = recipes.text(_FACT, event_id=event_id, type=FactType.ORDER_CLOSED, payload=words.laid_out(pairs))
    return Step("fact", _FACT_SAYS, sql, rows=1)


def _remote_id(recipes: Recipes) -> str:
    words = recipes.words
    asset = words.joined("h.kind", "'/'", "h.ref")
    made = words.joined(recipes.small("event_id"), "'.'", f"SUBSTR({words.digest(asset)}, 1, 27)")
    return words.word.format(value=made)


def _remote_fact(recipes: Recipes) -> tuple[Step, ...]:
    words, event_id = recipes.words, _remote_id(recipes)
    names = ["order_no", "kind", "ref", "quantity"]
    payload = words.laid_out([("event_id", event_id), *((name, f"h.{name}") for name in names)])
    kinds = recipes.kinds(recipes.remote)
    sql = recipes.text(_REMOTE, event_id=event_id, type=FactType.HOLD_RELEASE, payload=payload, kinds=kinds)
    return (Step("remote", "Ask the services that keep assets elsewhere to give them back.", sql),)


def _remote_deliveries(recipes: Recipes) -> tuple[Step, ...]:
    words = recipes.words
    key = words.digest(words.joined("h.order_no", "'/'", "h.kind", "'/'", "h.ref"))
    sql = recipes.text(_REMOTE_DELIVERIES, event_id=_remote_id(recipes), key=key, kinds=recipes.kinds(recipes.remote))
    return (Step("remote_deliveries", "What is owed of these.", sql),)


def _close(recipes: Recipes) -> tuple[Step, dict[str, str]]:
    values = [recipes.text("{status} = {closed}")]
    parameters: dict[str, str] = {}
    if recipes.optional("closed_at") is not None:
        made = recipes.text(
            "(\n        SELECT created_at AS moment FROM {outbox} WHERE event_id = :event_id\n    ) made"
        )
        written = recipes.time("closed_at").written(made)
        if written is None:
            written, parameters["closed_at"] = ":closed_at", "the time now, as the column holds it"
        values.append(f"{recipes.column('closed_at')} = {written}")
    for role, parameter in ROLES:
        if recipes.optional(role) is not None:
            values.append(f"{recipes.column(role)} = :{parameter}")
    values += [f"{column} = {expression}" for column, expression in recipes.extra.items()]
    sql = recipes.text(_CLOSE, values=",\n    ".join(values))
    return Step("close", _CLOSE_SAYS, sql, rows=1), parameters


def _note(recipes: Recipes) -> tuple[Step, ...]:
    said = {
        "closed_at": "f.created_at",
        "close_reason": recipes.small("reason"),
        "close_source": recipes.small("source"),
    }
    names, upsert = ", ".join(recipes.unnoted), recipes.words.upsert(recipes.unnoted)
    sql = recipes.text(_NOTE, names=names, values=", ".join(said[role] for role in recipes.unnoted), upsert=upsert)
    return (Step("note", "Keep what your table has no column for.", sql),)


_FACT_SAYS: Final = "Write the fact, with all that goes back. No row: the order is not pending. Roll back."
_FACT: Final = """\
INSERT INTO {outbox} (event_id, order_no, type, payload, created_at)
SELECT {event_id}, {own_number}, '{type}', {payload}, {now}
FROM {orders}
WHERE {number} = :order_no
    AND {status} {pending}{only}"""

_REMOTE: Final = """\
INSERT INTO {outbox} (event_id, order_no, type, payload, created_at)
SELECT {event_id}, h.order_no, '{type}', {payload}, f.created_at
FROM {outbox} f JOIN {hold} h ON h.order_no = f.order_no
WHERE f.event_id = :event_id
    AND h.state = 'held'
    AND h.kind IN ({kinds})"""

_REMOTE_DELIVERIES: Final = """\
INSERT INTO {delivery} (consumer, seq, order_key)
SELECT c.name, f.seq, {key}
FROM {outbox} first_fact
JOIN {hold} h ON h.order_no = first_fact.order_no
JOIN {outbox} f ON f.event_id = {event_id}
CROSS JOIN {consumer} c
WHERE first_fact.event_id = :event_id
    AND h.state = 'held'
    AND h.kind IN ({kinds})
    AND {wanted}"""

_CLOSE_SAYS: Final = "Close it. The condition stands here again: a statement is only as safe as its own words."
_CLOSE: Final = """\
UPDATE {orders}
SET {values}
WHERE {number} = :order_no
    AND {status} {pending}{only}"""

_NOTE: Final = """\
INSERT INTO {note} (order_no, {names})
SELECT f.order_no, {values}
FROM {outbox} f
WHERE f.event_id = :event_id
{upsert}"""

_HOLDS_SAYS: Final = "What the order held goes back: the releaser writes the assets' own rows. Leave those alone."
_HOLDS: Final = """\
UPDATE {hold}
SET state = 'releasing'
WHERE order_no = (SELECT f.order_no FROM {outbox} f WHERE f.event_id = :event_id)
    AND state = 'held'"""
