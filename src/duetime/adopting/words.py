"""The words by which shops name things, and how sure they make us.

Patterns are tried on names in one form: small letters, words joined by underscores (``OrderNumber`` is
``order_number``); and on the comments that people write on columns.
"""

import re
from collections.abc import Iterable
from typing import Final, Literal

from duetime.adopting.found import FoundColumn

Meaning = Literal["pending", "paid", "closed", "held", "free", "used", "expired"]


def _any(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(words))


ORDER_TABLE: Final = _any(
    "order", "booking", "purchase", "bestell", r"(^|_)ord(_|$)", "订单", "reservation", "checkout"
)
PART_OF_ORDER: Final = _any(
    "item", "line", "detail", "position", "goods", "dish", "histor", "log", "status", "state", "type", "address",
    "refund", "payment", "明细", "历史", "articles?$", "products?$",
)  # fmt: skip
STATUS: Final = _any(r"status", r"(^|_)stat(e|us)?(_|$)", "zustand", "状态")
ORDER_NO: Final = _any(
    r"(^|_)(no|nr|sn|num|number|code|ref|reference)(_|$)", r"ord(er)?_?no", "order_?(code|ref)", "编号", "单号"
)
DEADLINE: Final = _any(
    "deadline", r"expir(e|es|y|ation)(_|$)", r"(^|_)due(_|$)", "until", r"pay_?(by|before)", "overtime", "time_?out",
    "zahlbar", "frist", "截止", "过期", "超时", "失效",
)  # fmt: skip
CREATED: Final = _any("creat", "placed", "ordered", "submit", "insert", "add_time", "创建", "下单", "提交")
CLOSED_AT: Final = _any("cancel", "close", "geschlossen", "关闭时间", "取消时间")
MAYBE_CLOSED_AT: Final = _any("expired", "void", "abandon")
REASON: Final = _any(r"(close|cancel|status)\w*_(reason|remark|note)", "关闭原因", "取消原因")
MAYBE_REASON: Final = _any("reason", "remark", r"(^|_)note(_|$)", "comment", "grund", "备注")
CLOSED_BY: Final = _any(r"(close|cancel)\w*_by")
MAYBE_CLOSED_BY: Final = _any("(updated|changed|modified)_by", "operator")
CATEGORY: Final = _any("category", r"(^|_)(type|kind|channel)(_|$)", "类型")
NO_CATEGORY: Final = _any("pay", "ship")
AMOUNT: Final = _any("amount", "total", "price", r"(^|_)(fee|sum|cents?|gross)(_|$)", "金额")
TO_PAY: Final = _any("pay", "due", "应付", "gross", "grand")
CURRENCY: Final = _any("currency")
VERSION: Final = _any(r"(^|_)version(_no)?$", "opt_?lock", r"(^|_)lock_?ver(sion)?(_|$)", "乐观锁", "版本号")
SOFT_DELETE: Final = _any("deleted", r"(^|_)del(_|$|flag)", "is_del", "删除")
QUANTITY: Final = _any("quantity", "qty", "count", r"(^|_)(num|amount|units|pieces|copies|menge)(_|$)", "数量", "份数")
AVAILABLE: Final = _any(
    "available", "free", "frei", "stock", "remain", "unsold", "on_sale", "sellable", "left", "on_hand", "inventory",
    "库存", "剩余",
)  # fmt: skip
HELD: Final = _any(
    "held", "hold", "lock", "reserv", r"(^|_)res(_|$)", "kept", "in_orders", "pending", "frozen", "锁定", "冻结"
)
NOT_AVAILABLE: Final = _any("low", "min", "max", "warn", "total", "预警", "sold_(num|count)")
STOCK_TABLE: Final = _any(
    "stock", "inventor", "sku", "product", "article", "goods", "licen[cs]e", "lager", "库存", "warehouse"
)
PIECES: Final = _any("coupon", "voucher", "seat", "ticket", "gift_?card", r"(^|_)slot", "room", "优惠券", "座位")
VALID_UNTIL: Final = _any("valid", "until", r"expir(e|es|y|ation)(_|$)", "有效期")

_SURE: Final[dict[Meaning, re.Pattern[str]]] = {
    "pending": _any(
        "unpaid", "(await|wait)\\w*pay", "pending_?pay", "^pending$", "待付款", "待支付", "未付款", "未支付"
    ),
    "closed": _any("cancell?ed", "closed", "timed?_?out", "关闭", "取消", "超时"),
    "paid": _any("^paid$", "已付款", "已支付", "待发货", "bezahlt"),
    "held": _any("lock", "reserv", "held", "hold", "block", "锁定", "占用"),
    "free": _any("unused", "free", "valid", "available", "未使用", "空闲", "可用"),
    "used": _any("^used$", "redeem", "sold", "已使用", "核销"),
    "expired": _any("expired", "lapsed", "过期", "失效"),
}
_PERHAPS: Final[dict[Meaning, re.Pattern[str]]] = {
    "pending": _any("open", "^new$", "creat", "enter", "payment_?fail", "pend", "wait", "unconfirmed", "初始", "新建"),
    "closed": _any("void", "expire", "abandon", "reject", "无效", "作废", "失效"),
    "paid": _any("paid", "settled", "confirm", "待接单", "待出票"),
    "held": _any("pending", "taken"),
    "free": _any("new", "active", "open", "正常"),
    "used": _any("taken", "consumed", "spent"),
    "expired": _any("void", "old"),
}
_NUMBERED: Final = re.compile(r"(-?\d+)\s*(?:->|=>|[:：=.、)）-])?\s*([^\d\s,，;；|/:：=-][^\d,，;；|/]*)")  # noqa: RUF001 -- as people type them
_LETTERED: Final = re.compile(r"\b([A-Z]{1,3})\s*[:=]\s*(\w+)")


def spelled(name: str) -> str:
    """Write a name in one form: ``OrderNumber`` and ``order number`` are ``order_number``."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^\w]+", "_", parted).strip("_").lower()


def says(column: FoundColumn, pattern: re.Pattern[str]) -> int:
    """Answer how much a column says that it is what a pattern means: 2 by its name, 1 by its comment, 0 not at all."""
    if pattern.search(spelled(column.name)):
        return 2
    return 1 if pattern.search(column.comment.lower()) else 0


def labels_in(comment: str) -> dict[str | int, str]:
    """Read what values mean from a comment such as "0: unpaid, 1: paid" or "0待付款 1待发货"."""
    numbered: dict[str | int, str] = {int(value): label.strip() for value, label in _NUMBERED.findall(comment)}
    lettered: dict[str | int, str] = dict(_LETTERED.findall(comment))
    return next((found for found in (numbered, lettered) if len(found) > 1), {})


def meant(labels: dict[str | int, str], meaning: Meaning) -> tuple[list[str | int], bool]:
    """Answer the values whose labels have a meaning, and whether the words leave no doubt."""
    sure = [value for value, label in labels.items() if _is(label, meaning)]
    perhaps = [
        value for value, label in labels.items() if value not in sure and _PERHAPS[meaning].search(spelled(label))
    ]
    perhaps = [value for value in perhaps if not _other(labels[value], meaning)]
    if sure:
        return sure, meaning != "pending" or not perhaps
    return perhaps, False


def _is(label: str, meaning: Meaning) -> bool:
    return bool(_SURE[meaning].search(spelled(label))) and not _other(label, meaning)


def _other(label: str, meaning: Meaning) -> bool:
    """True where a stronger word says something else: "unpaid" is not paid, "invalid" not valid."""
    word = spelled(label)
    contrary = {"paid": r"un_?paid|await|pending", "free": "invalid|blocked|unavailable", "used": "unused"}
    return bool(re.search(contrary.get(meaning, "(?!)"), word))


def best(columns: Iterable[FoundColumn], pattern: re.Pattern[str]) -> list[FoundColumn]:
    """Answer the columns that say most clearly what a pattern means: by name, or else by comment."""
    scored = [(says(column, pattern), column) for column in columns]
    most = max((score for score, _ in scored), default=0)
    return [column for score, column in scored if score == most > 0]
