"""A shop that records no holds: what its orders hold stands in its order lines, its coupons and its order rows."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from sqlalchemy import make_url

from duetime import Duetime
from tests.support.shop_database import MARIADB, WORDS, Section, ShopDatabase, Words

PENDING, PAID, CLOSED = 0, 1, 4
NONE: Mapping[str, str] = dict.fromkeys(
    ("closed_at", "close_reason", "close_source", "category", "amount", "currency"), ""
)
SQLITE: Final = replace(MARIADB, instant_type="datetime", analyse="ANALYZE")

ORDERS: Final = {
    "table": "t_order",
    "id": "id",
    "order_no": "order_sn",
    "status": "state",
    "expire_at": "pay_deadline",
    "states": {"pending": PENDING, "paid": PAID, "closed": CLOSED},
    **NONE,
}
ITEMS: Final = {"table": "t_item", "order_no": "order_sn", "ref": "sku", "quantity": "num"}
STOCK: Final = {
    "kind": "stock",
    "storage": "counter",
    "table": "t_sku",
    "key": "sku",
    "available": "stock",
    "held": "lock_stock",
    "from": ITEMS,
}
COUPON: Final = {
    "kind": "coupon",
    "storage": "instance",
    "table": "t_coupon",
    "key": "id",
    "state": "state",
    "held_value": 1,
    "free_value": 0,
    "used_value": 2,
    "from": {"table": "t_coupon", "order_no": "order_sn", "ref": "id"},
}
VOUCHER: Final = {
    **COUPON,
    "kind": "voucher",
    "from": {"table": "t_order", "order_no": "order_sn", "ref": "voucher_id"},
}
POINTS: Final = {
    "kind": "points",
    "storage": "remote",
    "from": {"table": "t_points", "order_id": "order_id", "ref": "account"},
}
LINES: Final[Mapping[str, Section]] = {"orders": ORDERS, "assets": [STOCK, COUPON, VOUCHER, POINTS]}


def line_shop(url: str) -> "LineShop":
    """A shop on the database at this address, with no tables yet."""
    words: Words = WORDS.get(make_url(url).get_backend_name().replace("mysql", "mariadb"), SQLITE)
    return LineShop(ShopDatabase(url, words))


@dataclass
class LineShop:
    """The shop and its hand."""

    db: ShopDatabase
    numbers: list[str] = field(default_factory=list)

    async def create(self) -> None:
        instant = self.db.words.instant_type
        await self.db.execute(
            "CREATE TABLE t_order (id bigint PRIMARY KEY, order_sn varchar(64) NOT NULL UNIQUE, "
            f"state smallint NOT NULL, pay_deadline {instant}, voucher_id bigint)",
            "CREATE TABLE t_item (id bigint PRIMARY KEY, order_sn varchar(64) NOT NULL, sku varchar(250), "
            "num decimal(12,3))",
            "CREATE INDEX t_item_order_sn ON t_item (order_sn)",
            "CREATE TABLE t_sku (sku varchar(64) PRIMARY KEY, stock integer NOT NULL, lock_stock integer NOT NULL)",
            "CREATE TABLE t_coupon (id bigint PRIMARY KEY, state smallint NOT NULL, order_sn varchar(64))",
            "CREATE INDEX t_coupon_order_sn ON t_coupon (order_sn)",
            "CREATE TABLE t_points (order_id bigint NOT NULL, account varchar(64) NOT NULL)",
            "CREATE INDEX t_points_order_id ON t_points (order_id)",
        )
        await self.db.migrator(**LINES).run()

    def duetime(self, *assets: Mapping[str, object], **sections: Section) -> AbstractAsyncContextManager[Duetime]:
        described: dict[str, Section] = {"orders": ORDERS, "assets": list(assets) or LINES["assets"]}
        return self.db.duetime(**(described | sections))

    async def skus(self, *skus: str) -> None:
        for sku in skus:
            await self.db.execute("INSERT INTO t_sku VALUES (:sku, 100, 0)", sku=sku)

    async def order(
        self, number: str, lines: Sequence[tuple[str | None, object]] = (), voucher: int | None = None
    ) -> int:
        """Let the shop place an order that is due, and take what its lines say (whole numbers alone)."""
        key = 1000 + len(self.numbers)
        due = datetime.now(UTC) - timedelta(minutes=1)
        deadline = due.replace(tzinfo=None).isoformat(" ") if self.db.words is SQLITE else due
        self.numbers.append(number)
        await self.db.execute(
            "INSERT INTO t_order VALUES (:id, :number, 0, :deadline, :voucher)",
            id=key, number=number, deadline=deadline, voucher=voucher,
        )  # fmt: skip
        for n, (sku, num) in enumerate(lines):
            given = float(num) if self.db.words is SQLITE and isinstance(num, Decimal) else num
            await self.db.execute(
                "INSERT INTO t_item VALUES (:id, :number, :sku, :num)",
                id=key * 100 + n, number=number, sku=sku, num=given,
            )  # fmt: skip
            if isinstance(num, int) and num > 0 and sku is not None:
                await self.db.execute(
                    "UPDATE t_sku SET stock = stock - :num, lock_stock = lock_stock + :num WHERE sku = :sku",
                    num=num, sku=sku,
                )  # fmt: skip
        return key

    async def coupon(self, key: int, number: str | None, state: int = 1) -> None:
        await self.db.execute("INSERT INTO t_coupon VALUES (:key, :state, :sn)", key=key, state=state, sn=number)

    async def stock(self) -> dict[str, tuple[int, int]]:
        return {row[0]: (row[1], row[2]) for row in await self.db.rows("SELECT sku, stock, lock_stock FROM t_sku")}

    async def coupons(self) -> dict[int, int]:
        return {row[0]: row[1] for row in await self.db.rows("SELECT id, state FROM t_coupon")}

    async def states(self) -> dict[str, int]:
        return {row[0]: row[1] for row in await self.db.rows("SELECT order_sn, state FROM t_order")}

    async def holds(self) -> dict[tuple[str, str, str], tuple[int, str]]:
        rows = await self.db.rows("SELECT order_no, kind, ref, quantity, state FROM duetime_hold")
        return {(row[0], row[1], row[2]): (row[3], row[4]) for row in rows}

    async def sweep(self, duetime: Duetime) -> None:
        """One run of the sweep, and of the releaser after it."""
        await duetime.wired.sweep.run_once()
        await duetime.wired.releasing.run_once()
