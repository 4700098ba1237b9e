"""Paying an order in plain SQL."""

from typing import Final

from duetime.event import FactType
from duetime.paying import MANUAL, PAID
from duetime.stores.sql.plain.lines import limits, lines
from duetime.stores.sql.plain.recipes import Recipe, Recipes, Step, needs_row

PARAMETERS: Final = {
    "order_no": "the order's number, as the payment names it",
    "payment_id": "the provider's number of the payment; a notice that is repeated has the same",
    "provider": "who was paid, such as alipay; may be empty",
    "amount_minor": "what was paid, in the currency's smallest unit (cents, fen)",
    "currency": "its currency, such as CNY",
    "event_id": "a new UUID as text",
}


def pay(recipes: Recipes) -> Recipe:
    """Record the money, mark the order as paid if it is pending and fits, use up what it held."""
    return Recipe(
        "pay",
        "Take a payment notice. Money that does not fit its order is recorded for a person, and changes nothing else.",
        recipes.words.isolation,
        PARAMETERS,
        (
            recipes.begin(),
            recipes.lock_order("No row: there is no such order; go on all the same, the money is recorded."),
            Step("seen", _SEEN_SAYS, recipes.text(_SEEN)),
            _record(recipes),
            *lines(recipes, condition=recipes.text(_TO_BE_PAID)),
            Step("pay", _PAY_SAYS, recipes.text(_PAY)),
            Step("holds", _HOLDS_SAYS, recipes.text(_HOLDS, **_consumed(recipes))),
            _fact(recipes),
            _late_fact(recipes),
            recipes.deliveries(),
            Step("answer", _ANSWER_SAYS, recipes.text(_ANSWER)),
            recipes.commit(),
        ),
        limits(recipes),
    )


def _record(recipes: Recipes) -> Step:
    fits = ""
    if recipes.amount_minor is not None:
        fits += (
            f"\n        AND ({recipes.amount_minor} IS NULL OR {recipes.amount_minor} = {recipes.big('amount_minor')})"
        )
    if recipes.currency is not None:
        given = f"UPPER({recipes.currency}) = UPPER({recipes.small('currency')})"
        fits += f"\n        AND ({recipes.currency} IS NULL OR {given})"
    sql = recipes.text(
        _RECORD,
        asked=recipes.words.shown(":order_no"),
        payment_id=recipes.small("payment_id"),
        provider=recipes.small("provider"),
        amount=recipes.big("amount_minor"),
        currency=recipes.small("currency"),
        fits=fits,
    )
    return Step("record", _RECORD_SAYS, sql, rows=1)


def _consumed(recipes: Recipes) -> dict[str, str]:
    rowless = [asset for asset in recipes.assets if not needs_row(asset)]
    if not rowless:
        return {"state": "'consuming'", "at": "NULL"}
    kinds = recipes.kinds(rowless)
    at = recipes.text("(SELECT p.received_at FROM {payment} p WHERE p.payment_id = :payment_id)")
    return {
        "state": f"CASE WHEN kind IN ({kinds}) THEN 'consumed' ELSE 'consuming' END",
        "at": f"CASE WHEN kind IN ({kinds}) THEN {at} END",
    }


def _pairs(recipes: Recipes) -> list[tuple[str, str]]:
    return [
        ("event_id", recipes.small("event_id")),
        ("order_no", "p.order_no"),
        ("payment_id", "p.payment_id"),
        ("provider", "p.provider"),
        ("amount_minor", "p.amount_minor"),
        ("currency", "p.currency"),
        ("received_at", recipes.words.instant("p.received_at")),
    ]


def _fact(recipes: Recipes) -> Step:
    payload = recipes.words.laid_out(_pairs(recipes))
    event_id = recipes.small("event_id")
    sql = recipes.text(_FACT, event_id=event_id, type=FactType.ORDER_PAID, payload=payload, resolution=PAID)
    return Step("fact", "The fact, where the order is paid now.", sql)


def _late_fact(recipes: Recipes) -> Step:
    pairs = [*_pairs(recipes), ("resolution", "p.resolution"), ("why", _why(recipes))]
    payload, event_id = recipes.words.laid_out(pairs), recipes.small("event_id")
    fact = recipes.text(_FACT, event_id=event_id, type=FactType.PAYMENT_LATE, payload=payload, resolution=MANUAL)
    sql = fact.replace("\nWHERE", recipes.text("\nLEFT JOIN {orders} ON {owner}.{number} = :order_no\nWHERE"), 1)
    return Step("late", "The other fact, where the money waits for a person.", sql)


def _why(recipes: Recipes) -> str:
    """Say what the money met, in the words of ``paying``."""
    words, status = recipes.words, recipes.text("{owner}.{status}")
    cases = [
        (recipes.text("{owner}.{number} IS NULL"), ["'there is no order '", "p.order_no"]),
        (
            recipes.text("{owner}.{status} = {closed}"),
            ["'the order was closed before ('", _close_reason(recipes), "')'"],
        ),
        (recipes.text("NOT ({owner}.{status} {payable})"), ["'the order was '", words.shown(status), "' before'"]),
    ]
    amount, currency = recipes.amount_minor, recipes.currency
    if amount is not None:
        paid = ["', the payment over '", words.shown("p.amount_minor"), "' (smallest units)'"]
        cases.append((f"{amount} <> p.amount_minor", ["'the order is over '", words.shown(amount), *paid]))
    if currency is not None:
        met = ["'the order is in '", words.shown(currency), "', the payment in '", "p.currency"]
        cases.append((f"UPPER({currency}) <> UPPER(p.currency)", met))
    told = "\n        ".join(f"WHEN {met} THEN {words.joined(*parts, indent=8)}" for met, parts in cases)
    return f"CASE\n        {told}\n    END"


def _close_reason(recipes: Recipes) -> str:
    column, found = recipes.optional("close_reason"), []
    if column is not None:
        found.append(f"NULLIF({recipes.words.shown(column)}, '')")
    if recipes.unnoted:
        found.append(recipes.text("(SELECT n.close_reason FROM {note} n WHERE n.order_no = p.order_no)"))
    return f"COALESCE({', '.join([*found, _BY_THE_SHOP])})"


_BY_THE_SHOP: Final = "'by the shop'"
_SEEN_SAYS: Final = (
    "Was this notice taken before? A row is its first answer: roll back and answer the same. "
    "Another order's number in it is for a person to look at."
)
_SEEN: Final = """\
SELECT resolution, order_no
FROM {payment}
WHERE payment_id = :payment_id"""

_RECORD_SAYS: Final = (
    "Write the money down, and what is to become of it. A duplicate key says that the same notice is being taken at "
    "this moment: roll back and begin again."
)
_RECORD: Final = """\
INSERT INTO {payment} (payment_id, order_no, provider, amount_minor, currency, received_at, resolution)
SELECT
    {payment_id},
    COALESCE({own_number}, {asked}),
    {provider},
    {amount},
    {currency},
    {now},
    CASE WHEN {owner}.{status} {payable}{fits}
    THEN 'paid' ELSE 'manual' END
FROM (SELECT 1 AS one) once
LEFT JOIN {orders} ON {owner}.{number} = :order_no"""

_TO_BE_PAID: Final = "'paid' = (SELECT p.resolution FROM {payment} p WHERE p.payment_id = :payment_id)"

_PAY_SAYS: Final = "One row: paid. None: the money waits for a person. Add columns of your own, such as paid_at."
_PAY: Final = """\
UPDATE {orders}
SET {status} = {paid}
WHERE {number} = :order_no
    AND {status} {payable}
    AND 'paid' = (SELECT p.resolution FROM {payment} p WHERE p.payment_id = :payment_id)"""

_HOLDS_SAYS: Final = "What the order held is used up: the releaser writes the assets' own rows. Leave those alone."
_HOLDS: Final = """\
UPDATE {hold}
SET state = {state},
    released_at = {at}
WHERE order_no = (
        SELECT p.order_no FROM {payment} p WHERE p.payment_id = :payment_id AND p.resolution = 'paid'
    )
    AND state = 'held'"""

_FACT: Final = """\
INSERT INTO {outbox} (event_id, order_no, type, payload, created_at)
SELECT {event_id}, p.order_no, '{type}', {payload}, p.received_at
FROM {payment} p
WHERE p.payment_id = :payment_id
    AND p.resolution = '{resolution}'"""

_ANSWER_SAYS: Final = "paid, or manual: what to tell the provider is the same (the money was taken), the customer not."
_ANSWER: Final = """\
SELECT resolution
FROM {payment}
WHERE payment_id = :payment_id"""
