"""The three transactions of a shop that does not call duetime: place, pay and cancel an order.

They write what ``placing``, ``paying`` and ``closing`` write, down to the payloads, and differ in one thing: paying and
cancelling leave the assets' rows alone. Holds become ``consuming`` and ``releasing``, and the releaser follows; so the
shop's program never holds an order and waits for a hot SKU.

How they are built, and why:

* The order's row is locked first, by a statement of its own: what the next ones read was committed by whoever held it.
* The first row of ours (a payment, a fact) takes the order's number from the shop's row, and every later statement
  takes it from there: columns of the shop are not compared with ours, whose type or collation may be another.
* The same row keeps the instant: the clock is read once, everything else repeats it.
* Every decision is made in SQL, by what is locked. The program looks at numbers of rows and at one answer.
* Under REPEATABLE READ on MySQL and MariaDB a statement that writes what it reads locks the gap where it found nothing:
  two notices that look for their payment would wait for each other for ever. So that look is a plain SELECT.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from string import Formatter
from typing import Any, Final

from sqlalchemy import Column, Dialect, Table

from duetime.shop import Asset, TableName
from duetime.stores.sql.description import AssetTable
from duetime.stores.sql.orders_part import MINOR_DIGITS
from duetime.stores.sql.plain.times import PlainTime, plain_time
from duetime.stores.sql.plain.words import WORDS
from duetime.stores.sql.statements import Statements


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of a transaction: what for, and how many rows it must change (None: any number)."""

    name: str
    says: str
    sql: str
    rows: int | None = None
    repeat: bool = False
    """Once for each thing that the order takes."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One transaction, with its parameters and what each means."""

    name: str
    says: str
    isolation: str
    parameters: dict[str, str]
    steps: tuple[Step, ...]
    limits: tuple[str, ...] = ()
    """What it leaves to others."""


def needs_row(asset: Asset) -> bool:
    """Say whether paying writes to an asset's own row."""
    if asset.storage == "counter":
        return asset.held is not None
    return asset.storage == "instance" and asset.used_value is not None


class Recipes:
    """The transactions of one shop on one database."""

    def __init__(self, statements: Statements, assets: Sequence[Asset], dialect: Dialect) -> None:
        """Look all names up; ``dialect`` is one that writes parameters by name."""
        self._statements, self._quote = statements, dialect.identifier_preparer
        self.assets = assets
        self.words = WORDS[statements.dialect.name]
        self.orders = statements.orders
        self._own, self._settings = statements.own, statements.orders.settings
        self._names = self._all_names()

    def text(self, template: str, **more: str) -> str:
        """Fill the names of tables, columns and values into a template."""
        names = {**self._names, **more}
        used = {field for _, field, _, _ in Formatter().parse(template) if field}
        return template.format(**{name: names[name] for name in used})

    def _all_names(self) -> dict[str, str]:
        own, words, table = self._own, self.words, self.orders.table
        names = {key: self.named(getattr(own, key)) for key in ("hold", "outbox", "consumer", "delivery", "payment")}
        states = self._settings.states
        closing = () if states.closing is None else (states.closing,)
        names |= {
            "note": self.named(own.order),
            "orders": self.named(table),
            "owner": self.named(table),
            "now": words.now,
            "now_told": words.instant(words.now),
            "lock": words.lock,
            "number": self.column("order_no"),
            "status": self.column("status"),
            "pending": self._among(states.pending),
            "payable": self._among((*states.pending, *closing)),
            "first_pending": words.literal(states.pending[0]),
            "paid": words.literal(states.paid),
            "closed": words.literal(states.closed),
            "wanted": words.wanted("f.type", "c.events"),
            "only": f"\n    AND ({self._settings.only})" if self._settings.only else "",
        }
        return names | {"own_number": words.name.format(value=f"{self.owner}.{names['number']}")}

    @property
    def owner(self) -> str:
        """The order table as its columns are qualified by it."""
        return self.named(self.orders.table)

    def named(self, table: Table) -> str:
        """Answer a table's name, with its schema where one was named."""
        return self._quote.format_table(table)

    def named_text(self, name: TableName) -> str:
        """Quote a table that is known by its name alone."""
        return ".".join(self._quote.quote(part) for part in name if part is not None)

    def whole(self, value: str) -> str:
        """Say that a value is a whole number."""
        return self.words.big.format(value=value)

    @property
    def plus(self) -> timedelta | None:
        """What is added to the column of the deadline, where that is a time of creation."""
        return self._settings.expire_plus

    def _among(self, values: Sequence[Any]) -> str:
        listed = ", ".join(self.words.literal(value) for value in values)
        return f"= {listed}" if len(values) == 1 else f"IN ({listed})"

    def column(self, role: str) -> str:
        """Answer the column of a role that every shop has."""
        return self.quoted(self.orders.needed(role))

    def optional(self, role: str) -> str | None:
        """Answer the column of a role, qualified, or None where the shop has none."""
        column = self.orders.column(role)
        return None if column is None else f"{self.owner}.{self.quoted(column)}"

    def quoted(self, column: Column[Any] | str) -> str:
        """Quote a column's name where it needs it."""
        return self._quote.quote(column if isinstance(column, str) else column.name)

    def time(self, role: str) -> PlainTime:
        """Answer how the column of a role holds time."""
        name = self._statements.dialect.name
        return plain_time(name, self.words, self.orders.time[role])

    def small(self, parameter: str) -> str:
        """Say that a parameter is text, where a database cannot tell."""
        return self.words.small.format(value=f":{parameter}")

    def big(self, parameter: str) -> str:
        """Say that a parameter is a whole number, where a database cannot tell."""
        return self.words.big.format(value=f":{parameter}")

    # What several have in common

    def begin(self) -> Step:
        """Open the transaction."""
        return Step("begin", "Open the transaction, unless your framework did (@Transactional).", self.words.begin)

    def commit(self) -> Step:
        """End the transaction."""
        return Step("commit", "All of it or nothing.", "COMMIT")

    def lock_order(self, otherwise: str) -> Step:
        """Lock the order before anything else."""
        says = f"Lock the order first of all, by a statement of its own. {otherwise}"
        return Step("lock", says, self.text(_LOCK))

    def deliveries(self) -> Step:
        """Write down who is owed the fact."""
        says = "What is owed of the fact to each consumer that asked for it; often nobody."
        return Step("deliveries", says, self.text(_DELIVERIES))

    def expire_at_told(self) -> tuple[str, dict[str, str]]:
        """Say the deadline as facts write it, and what parameter that needs."""
        told = self.time("expire_at").told(f"{self.owner}.{self.column('expire_at')}", self._settings.expire_plus)
        if told is not None:
            return told, {}
        meaning = "the deadline as UTC, 2026-01-31T12:00:00.000000Z: this database cannot say it for the zone"
        return self.small("expire_at_told"), {"expire_at_told": meaning}

    @property
    def currency(self) -> str | None:
        """The order's currency as SQL."""
        constant = self._settings.currency_constant
        return self.optional("currency") if constant is None else self.words.small.format(value=f"'{constant}'")

    @property
    def amount_minor(self) -> str | None:
        """What is to be paid, in the currency's smallest unit, as SQL."""
        amount = self.optional("amount")
        if amount is None or self._settings.amount_form == "minor":
            return amount
        constant = self._settings.currency_constant
        if constant is not None or self.currency is None:
            scale = str(10 ** MINOR_DIGITS.get(constant or "", 2))
        else:
            scale = f"(CASE {' '.join(_scales(self.currency))} ELSE 100 END)"
        return self.words.big.format(value=f"ROUND({amount} * {scale})")

    def asset_table(self, kind: str) -> AssetTable:
        """Answer the table of an asset that is in this database."""
        return self._statements.asset(kind)

    def kinds(self, chosen: Iterable[Asset]) -> str:
        """Write kinds of assets as a list of values."""
        return ", ".join(self.words.literal(asset.kind) for asset in chosen)

    @property
    def remote(self) -> list[Asset]:
        """The assets that another service keeps."""
        return [asset for asset in self.assets if asset.storage == "remote"]

    @property
    def unnoted(self) -> tuple[str, ...]:
        """The parts of a close for which the shop has no column."""
        return self._statements.unnoted_roles

    @property
    def extra(self) -> dict[str, str]:
        """The columns of ``[orders.set]``, as SQL."""
        return {self.quoted(name): expression for name, expression in self._settings.set.items()}


def _scales(currency: str) -> Iterator[str]:
    for digits in sorted(set(MINOR_DIGITS.values())):
        names = ", ".join(f"'{name}'" for name, value in MINOR_DIGITS.items() if value == digits)
        yield f"WHEN {currency} IN ({names}) THEN {10**digits}"


_LOCK: Final = """\
SELECT {status}
FROM {orders}
WHERE {number} = :order_no{lock}"""

_DELIVERIES: Final = """\
INSERT INTO {delivery} (consumer, seq, order_key)
SELECT c.name, f.seq, f.order_no
FROM {outbox} f CROSS JOIN {consumer} c
WHERE f.event_id = :event_id
    AND {wanted}"""
