"""What somebody can do to a shop by hand that `duetime verify` must find, and the shop that it is done to."""

from dataclasses import dataclass
from typing import Final

from tests.support.shop_database import Section


@dataclass(frozen=True)
class Damage:
    """Something done by hand to an order that is well, and what is to be found about it."""

    kind: str
    about: str
    found: str
    statements: tuple[str, ...]


def hold_set(state: str, whose: str, kind: str = "stock") -> str:
    return f"UPDATE duetime_hold SET state = '{state}' WHERE order_no = '{{{whose}}}' AND kind = '{kind}'"


def stock(held: str) -> str:
    return f"UPDATE stock SET held = held {held} WHERE sku_id = '{{sku}}'"


CLOSING = "order_no = '{closed}' AND type = 'order.closed'"
PAYMENT = "INSERT INTO duetime_payment VALUES ('{name}-pay', '{%s}', '', 1990, 'CNY', :long_ago, 'paid')"

DAMAGES = [
    Damage(
        "closed-order-holds",
        "order {closed}",
        "it is closed, yet it holds 2 of stock {sku} (held)",
        (hold_set("held", "closed"), stock("+ 2")),
    ),
    Damage(
        "pending-order-gave-back",
        "order {pending}",
        "it is pending, yet of its holds are settled: 2 of stock {sku} (released)",
        (hold_set("released", "pending"), stock("- 2")),
    ),
    Damage(
        "hold-without-order",
        "order {name}-ghost",
        "the shop has no such order, yet it holds 2 of stock {sku} (held)",
        (
            "INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES ('{name}-ghost', 'stock', '{sku}', 2)",
            stock("+ 2"),
        ),
    ),
    Damage(
        "close-without-fact",
        "order {closed}",
        "it was closed by duetime (for timeout, by sweep), and there is no fact order.closed",
        (f"DELETE FROM duetime_outbox WHERE {CLOSING}",),
    ),
    Damage(
        "closed-by-fact-only",
        "order {closed}",
        "its facts say that it was closed, its status is pending, and it has given back "
        "1 of coupon {closed} (released), 2 of stock {sku} (released)",
        ("UPDATE orders SET status = 'pending' WHERE order_no = '{closed}'",),
    ),
    Damage(
        "closed-twice",
        "order {closed}",
        "it has 2 facts order.closed and was reopened 0 times",
        (
            (
                "INSERT INTO duetime_outbox (event_id, order_no, type, payload, created_at) "
                f"SELECT '{{name}}-again', order_no, type, payload, created_at FROM duetime_outbox WHERE {CLOSING}"
            ),
        ),
    ),
    Damage(
        "fact-and-holds-differ",
        "order {closed}",
        "its closing fact gives back 2 of stock {sku}, its holds do not say so",
        ("UPDATE duetime_hold SET quantity = 3 WHERE order_no = '{closed}' AND kind = 'stock'",),
    ),
    Damage(
        "fact-and-holds-differ",
        "order {closed}",
        "its holds gave back 4 of stock other, which its closing fact does not list",
        (
            (
                "INSERT INTO duetime_hold (order_no, kind, ref, quantity, state) "
                "VALUES ('{closed}', 'stock', 'other', 4, 'released')"
            ),
        ),
    ),
    Damage(
        "closed-early",
        "order {closed}",
        "before deadline and grace",
        ("UPDATE orders SET expire_at = '2090-01-01 00:00:00' WHERE order_no = '{closed}'",),
    ),
    Damage(
        "paid-order-gave-back",
        "order {paid}",
        "it is paid, yet it has given back 2 of stock {sku} (released)",
        (hold_set("released", "paid"),),
    ),
    Damage(
        "paid-order-holds",
        "order {paid}",
        "it is paid, yet it still holds 2 of stock {sku} (held)",
        (hold_set("held", "paid"), stock("+ 2")),
    ),
    Damage(
        "closed-order-used-up",
        "order {closed}",
        "it was closed by duetime, yet what it held is used up: 2 of stock {sku} (consumed)",
        (hold_set("consumed", "closed"),),
    ),
    Damage(
        "unfinished-for-long",
        "order {closed}",
        "it waits for 2 of stock {sku} (releasing)",
        (
            hold_set("releasing", "closed"),
            stock("+ 2"),
            f"UPDATE duetime_outbox SET created_at = :long_ago WHERE {CLOSING}",
        ),
    ),
    Damage(
        "kind-not-described",
        "order {pending}",
        "it holds 1 of gift ribbon (held), a kind that [[assets]] does not describe",
        ("INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES ('{pending}', 'gift', 'ribbon', 1)",),
    ),
    Damage(
        "payment-of-unpaid-order",
        "order {pending}",
        "payment {name}-pay is recorded as what paid it, its status is pending",
        (PAYMENT % "pending",),
    ),
    Damage(
        "paid-twice",
        "order {paid}",
        "the payments {paid}, {name}-pay are all recorded as what paid it",
        (PAYMENT % "paid",),
    ),
    Damage(
        "quarantine-of-settled-order",
        "order {closed}",
        "it is closed and waits for nothing, yet it is quarantined since its close failed",
        (
            (
                "INSERT INTO duetime_quarantine VALUES "
                "('{closed}', 'close', 5, :long_ago, :long_ago, :long_ago, 'quarantined', 'no row')"
            ),
        ),
    ),
    Damage(
        "counter-differs",
        "stock {sku}",
        "stock.held is 7, its holds add up to 2",
        (stock("+ 5"),),
    ),
    Damage(
        "counter-negative",
        "seat {name}-a",
        "seat.free is -1",
        ("INSERT INTO seat (number, free) VALUES ('{name}-a', -1)",),
    ),
    Damage(
        "asset-gone",
        "seat {name}-b",
        "it has no row in seat, yet 1 are held by {pending}",
        ("INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES ('{pending}', 'seat', '{name}-b', 1)",),
    ),
    Damage(
        "instance-unexplained",
        "coupon {name}-lost",
        "it is locked in coupon.state, and no order holds it",
        ("INSERT INTO coupon (coupon_id, state) VALUES ('{name}-lost', 'locked')",),
    ),
    Damage(
        "instance-not-held",
        "coupon {pending}",
        "it is unused in coupon.state, yet 1 are held by {pending}",
        ("UPDATE coupon SET state = 'unused' WHERE coupon_id = '{pending}'",),
    ),
    Damage(
        "instance-held-twice",
        "coupon {pending}",
        "it is one piece, yet 2 are held by {pending}",
        ("UPDATE duetime_hold SET quantity = 2 WHERE order_no = '{pending}' AND kind = 'coupon'",),
    ),
    Damage(
        "asset-gone",
        "coupon {pending}",
        "it has no row in coupon, yet 1 are held by {pending}",
        ("DELETE FROM coupon WHERE coupon_id = '{pending}'",),
    ),
    Damage(
        "delivery-without-fact",
        "delivery {number} to {name}",
        "there is no fact {number} in duetime_outbox",
        ("INSERT INTO duetime_delivery (consumer, seq, order_key) VALUES ('{name}', {number}, 'x')",),
    ),
]
STOCK = {"kind": "stock", "storage": "counter", "table": "stock", "key": "sku_id", "available": "available"}
COUPON = {
    "kind": "coupon",
    "storage": "instance",
    "table": "coupon",
    "key": "coupon_id",
    "state": "state",
    "held_value": "locked",
    "free_value": "unused",
    "expired_value": "expired",
    "used_value": "used",
}
SEAT = {"kind": "seat", "storage": "counter", "table": "seat", "key": "number", "available": "free", "held": ""}
ASSETS: Final[Section] = [STOCK, COUPON, SEAT, {"kind": "points", "storage": "remote"}]
SEATS = "CREATE TABLE seat (number varchar(20) PRIMARY KEY, free integer NOT NULL)"
"""A counter that knows only what is left, in a table that takes any number."""

NAMES = [f"d{n:02}" for n in range(len(DAMAGES))]


def names(name: str) -> dict[str, str]:
    """The words that a damage is written with; each has a pending, a paid and a closed order for itself."""
    orders = {state: f"{name}-{state}" for state in ("pending", "paid", "closed")}
    return {"name": name, "sku": f"{name}-sku", "number": f"9000{name[1:]}", **orders}
