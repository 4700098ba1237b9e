"""The reference of facts: what each type means, what its payload holds, and an example that duetime itself wrote.

The examples come from ``every_fact``, which runs each verb on a store; a test runs it on other stores and compares the
keys that were written with those that stand here.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from textwrap import fill
from typing import Final

from duetime.closing import CloseRequest, Closing, ClosingOptions
from duetime.event import Fact, FactType, Json
from duetime.extending import Extending, Extension
from duetime.hold import Hold
from duetime.order import Reason
from duetime.paying import Paying, PaymentNotice
from duetime.placing import Placement, Placing, Timeouts
from duetime.retrying import Failures, Retrying, RetryingOptions
from duetime.shop import Asset, sample_assets
from duetime.store import Store
from duetime.stores.memory import MemoryStore
from duetime.testing import ManualClock
from duetime.testing.memory_hand import MemoryShopHand
from duetime.testing.shop_hand import CouponRow, ShopHand, StockRow
from scripts.docs_pages import table

EVENT_ID: Final = "019b76da-a800-7c3e-8f05-1d4b6a2e9f70"

ASSETS: Final[Mapping[str, Asset]] = {
    asset.kind: asset for asset in (*sample_assets(), Asset(kind="points", storage="remote"))
}

HOLDS: Final = (Hold("coupon", "c-9"), Hold("points", "member-7", 200), Hold("stock", "sku-1", 2))

IN_ALL: Final[Mapping[str, tuple[str, str]]] = {
    "event_id": ("text", "The fact's identity, as in its column."),
    "order_no": ("text", "The order, as in its column."),
}


@dataclass(frozen=True)
class Told:
    """What a type means, and its keys beside those in all: their types and meanings."""

    meaning: str
    keys: Mapping[str, tuple[str, str]] = field(default_factory=dict)


_HOLD_LIST: Final = "list of `kind`, `ref`, `quantity`"
_MONEY: Final[Mapping[str, tuple[str, str]]] = {
    "payment_id": ("text", "The provider's own number of the payment."),
    "provider": ("text", "As the caller named it; may be empty."),
    "amount_minor": ("integer", "What was paid, in the currency's smallest unit (cents, fen)."),
    "currency": ("text", "The currency's code, as the caller gave it."),
    "received_at": ("instant", "When the notice first came, by the store's clock."),
}

WRITTEN: Final[Mapping[FactType, Told]] = {
    FactType.ORDER_PLACED: Told(
        "An order was placed through duetime (`place`). An order that the shop inserts itself writes no such fact.",
        {
            "expire_at": ("instant", "The deadline."),
            "policy": ("text", "The time-out that made it; wording for people."),
            "category": ("text or null", "As the caller gave it."),
            "amount_minor": ("integer or null", "What is to be paid, in the currency's smallest unit."),
            "currency": ("text or null", "The currency's code."),
            "holds": (_HOLD_LIST, "What it took, added up by asset."),
        },
    ),
    FactType.ORDER_CLOSED: Told(
        "duetime closed an order: at its deadline, or because somebody wanted it closed.",
        {
            "reason": ("text", "`timeout`, `customer`, `staff` or `payment_failed`."),
            "source": (
                "text",
                "`sweep`; `retry` after a failed try; else who asked (`customer`, `staff`, `api`, a name).",
            ),
            "expire_at": ("instant or null", "The deadline; null where the order had none."),
            "closed_at": ("instant", "When, by the store's clock."),
            "lateness_ms": (
                "integer or null",
                "Milliseconds from deadline plus grace to the close; null unless `reason` is `timeout`.",
            ),
            "released": (_HOLD_LIST, "What goes back, with the close or right after it."),
        },
    ),
    FactType.HOLD_RELEASE: Told(
        "A *remote* hold of a closed order is to be given back by the service that keeps it. Written beside "
        "`order.closed`. The hold stays `releasing`: nothing confirms it in this version.",
        {
            "kind": ("text", "The asset's kind."),
            "ref": ("text", "Its key."),
            "quantity": ("integer", "Units, above zero."),
        },
    ),
    FactType.ORDER_PAID: Told("A payment notice made an order paid.", _MONEY),
    FactType.PAYMENT_LATE: Told(
        "Money came that could not pay its order: the order was closed or paid before, is unknown, or is over another "
        "amount or currency. It is recorded, and a person decides. `order_no` is the notice's own if no order has it.",
        {
            **_MONEY,
            "resolution": ("text", "`manual`."),
            "why": ("text", "What the money met; wording for people."),
        },
    ),
    FactType.ORDER_EXTENDED: Told(
        "A pending order was given more time.",
        {
            "source": ("text", "Who asked."),
            "expire_at": ("instant", "The new deadline."),
            "previous": ("instant", "The deadline before."),
            "extended": ("integer", "How often this order was extended, this time included."),
            "extended_seconds": ("number", "By how much in all, in seconds."),
        },
    ),
    FactType.ORDER_QUARANTINED: Told(
        "An order failed too often and waits for a person: it has entered [quarantine](../how-to/quarantine.md).",
        {
            "stage": ("text", "`close`, or `release` for giving back after the close."),
            "failures": ("integer", "Attempts that failed."),
            "error": ("text", "Why the last one failed, with the row's name; wording for people."),
            "first_failed_at": ("instant", "When it first failed."),
            "last_failed_at": ("instant", "When it last failed."),
        },
    ),
}

LATER: Final[Mapping[FactType, str]] = {
    FactType.ORDER_REOPENED: "a closed order lives again",
    FactType.ORDER_EXPIRING: "a reminder before the deadline",
    FactType.REFUND_REQUESTED: "money is to be sent back",
}

_HEAD: Final = """\
# Facts

<!-- Written by scripts/generate_docs.py events; the words stand in scripts/docs_events.py. -->

A fact says what happened. It is written to `duetime_outbox` in the transaction that made it true, and never changed:
if the order is closed, the fact is there, once; if the transaction was rolled back, there is none. Nothing passes facts
on in this version. You may read them:

<!-- run on sqlite -->
```sql
SELECT seq, event_id, order_no, type, payload FROM duetime_outbox WHERE seq > 0 ORDER BY seq;
```

Facts of one order grow in `seq`. Between orders a larger `seq` may become visible before a smaller one, while the
smaller one's transaction is still open. Whoever reads on from the last `seq` seen must look back a little and ignore
by `event_id` what it knows.

Columns: `seq`, `event_id` (unique, a UUID), `order_no`, `type`, `payload`, `created_at`. The payload is a JSON object.
Instants are RFC 3339 in UTC with microseconds. Amounts are whole numbers of the smallest unit. New keys may come; those
here stay. The examples were written by duetime itself, with a fixed `event_id`.
"""


def events() -> str:
    """Return the page on facts."""
    facts = sorted(asyncio.run(_on_the_model()), key=lambda fact: fact.order_no, reverse=True)
    examples = {fact.type: fact for fact in facts}
    lines = [_HEAD]
    for of, told in WRITTEN.items():
        lines += [f"## `{of}`\n", fill(told.meaning, 120, break_on_hyphens=False) + "\n"]
        keys = {**IN_ALL, **told.keys}
        lines += table(("key", "type", "meaning"), ((f"`{key}`", *words) for key, words in keys.items()))
        lines += ["```json", _written({**examples[of].payload, "event_id": EVENT_ID}), "```\n"]
    lines += ["## Known, and not written by this version\n", *_later()]
    return "\n".join(lines)


def _written(payload: Mapping[str, Json]) -> str:
    """Write a payload a key a line, and each hold in one line."""
    return re.sub(
        r'\{\s+("kind"[^}]*?)\s+\}', lambda hold: f"{{{' '.join(hold[1].split())}}}", json.dumps(payload, indent=2)
    )


def _later() -> Iterator[str]:
    for of, meaning in LATER.items():
        yield f"- `{of}`: {meaning}"
    yield ""


async def _on_the_model() -> list[Fact]:
    store = MemoryStore(tuple(ASSETS.values()), ManualClock())
    return await every_fact(store, MemoryShopHand(store))


async def every_fact(store: Store, hand: ShopHand) -> list[Fact]:
    """Run each verb of duetime on an empty sample shop, and answer the facts that it wrote, oldest first."""
    await hand.put_stock([StockRow("sku-1", 100)])
    await hand.put_coupons([CouponRow("c-9")])
    grace, half_an_hour = timedelta(seconds=5), timedelta(minutes=30)
    closing = Closing(store, ClosingOptions(grace, ASSETS))
    failures = Failures(store, RetryingOptions(after_failures=1))
    retrying = Retrying(store, closing, failures)
    placing = Placing(store, ASSETS, Timeouts(half_an_hour))
    paying = Paying(store, ASSETS, closing)

    units = (Hold("stock", "sku-1", 1),)
    await placing.place(
        [
            Placement("so-1", HOLDS, amount_minor=1990, currency="CNY"),
            Placement("so-2", units, amount_minor=990, currency="CNY"),
            Placement("so-3", units),
        ]
    )
    async with store.transaction(write=False) as tx:
        (second,) = await tx.find_orders(["so-2"])
    assert second.expire_at is not None
    await Extending(store, timedelta(hours=2)).extend([Extension("so-2", second.expire_at + half_an_hour)])
    await paying.pay([PaymentNotice("so-2", "p-1", 990, "CNY", "alipay")])

    await hand.shift_time(half_an_hour + grace + timedelta(milliseconds=12))
    await retrying.close([CloseRequest("so-1")])
    await paying.pay([PaymentNotice("so-1", "p-2", 1990, "CNY", "alipay")])
    await hand.delete_stock("sku-1")
    await retrying.close([CloseRequest("so-3", Reason.TIMEOUT)])
    return await hand.facts()
