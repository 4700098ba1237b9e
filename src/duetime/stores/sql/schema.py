"""duetime's own tables, and those of the sample shop, as SQLAlchemy sees them on every database.

Layout decisions, with their reasons:

* Names and references compare byte by byte on every database (``ascii``-like binary collations), so that ``so-1`` and
  ``SO-1`` are two orders here even where the shop's column says otherwise: what is stored is what the shop's locked row
  said.
* ``duetime_hold`` has no surrogate key: its primary key is what every statement looks it up by, and InnoDB keeps an
  order's holds side by side.
* Holds that wait for the releaser are found by an index on ``unfinished``, a generated column that is NULL in every
  usual state. The usual way (held, released) therefore changes no indexed value: on PostgreSQL the new version of the
  row stays in its page without new index entries (HOT; half of every page is kept free for it), and on InnoDB 1,000
  holds took 13 ms instead of 23 ms with an index on the state. Where there are partial indexes, the NULLs are left out.
"""

from datetime import datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    DateTime,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.types import TypeEngine

from duetime.hold import UNFINISHED
from duetime.order import LONGEST_NAME

Instant: TypeEngine[datetime] = (
    DateTime(timezone=True)
    .with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    .with_variant(sqlite.DATETIME(), "sqlite")
)


def name_type(length: int = LONGEST_NAME) -> TypeEngine[str]:
    """Answer a string type that compares byte by byte."""
    return (
        String(length, collation="C")
        .with_variant(mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
        .with_variant(String(length), "sqlite")
    )


def word_type(length: int) -> TypeEngine[str]:
    """Answer the type of a short word of ours: ASCII, compared byte by byte."""
    return (
        String(length, collation="C")
        .with_variant(mysql.VARCHAR(length, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
        .with_variant(String(length), "sqlite")
    )


Payload: TypeEngine[object] = JSON()
BigKey: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")


class OwnTables:
    """The tables that carry the prefix ``duetime_``, in one schema (None: where the connection looks first)."""

    def __init__(self, schema: str | None = None, *, partial_indexes: bool = True) -> None:
        """Describe the tables; nothing is created. ``partial_indexes`` is False for MySQL and MariaDB."""
        self.metadata = MetaData(schema=schema)
        self.hold = _hold(self.metadata, stored=partial_indexes)
        self.outbox = _outbox(self.metadata)
        self.consumer, self.delivery = _consumer(self.metadata), _delivery(self.metadata)
        self.order = _order(self.metadata)
        self.quarantine = _quarantine(self.metadata)
        self.payment, self.refund = _payment(self.metadata), _refund(self.metadata)
        self.sweep_run = _sweep_run(self.metadata)
        self.lease, self.inbox = _lease(self.metadata), _inbox(self.metadata)
        self.observed = _observed(self.metadata)


_UNFINISHED = "state IN ({})".format(", ".join(f"'{state}'" for state in UNFINISHED))


def _unfinished(*, stored: bool) -> tuple[Column[str], Index]:
    where = text("unfinished IS NOT NULL")
    return (
        Column("unfinished", word_type(9), Computed(f"CASE WHEN {_UNFINISHED} THEN state END", persisted=stored)),
        Index(
            "duetime_hold_unfinished",
            "unfinished",
            "kind",
            "ref",
            "order_no",
            postgresql_where=where,
            sqlite_where=where,
        ),
    )


def _hold(metadata: MetaData, *, stored: bool) -> Table:
    return Table(
        "duetime_hold",
        metadata,
        Column("order_no", name_type(), nullable=False),
        Column("kind", name_type(), nullable=False),
        Column("ref", name_type(), nullable=False),
        Column("quantity", BigInteger, nullable=False),
        Column("state", word_type(9), nullable=False, server_default="held"),
        Column("generation", Integer, nullable=False, server_default="0"),
        Column("held_at", Instant),
        Column("released_at", Instant),
        PrimaryKeyConstraint("order_no", "kind", "ref", name="duetime_hold_pkey"),
        CheckConstraint("quantity > 0", name="duetime_hold_quantity"),
        CheckConstraint(
            "state IN ('held', 'releasing', 'released', 'consuming', 'consumed')", name="duetime_hold_state"
        ),
        *_unfinished(stored=stored),
        postgresql_with={"fillfactor": "50"},
        sqlite_with_rowid=False,
    )


def _outbox(metadata: MetaData) -> Table:
    return Table(
        "duetime_outbox",
        metadata,
        Column("seq", BigKey, Identity(always=False), primary_key=True),
        Column("event_id", word_type(64), nullable=False),
        Column("order_no", name_type(), nullable=False),
        Column("type", word_type(32), nullable=False),
        Column("payload", Payload, nullable=False),
        Column("created_at", Instant, nullable=False),
        UniqueConstraint("event_id", name="duetime_outbox_event_id"),
        Index("duetime_outbox_order_no", "order_no"),
        sqlite_autoincrement=True,
    )


def _consumer(metadata: MetaData) -> Table:
    return Table(
        "duetime_consumer",
        metadata,
        Column("name", name_type(), primary_key=True),
        Column("events", JSON, nullable=False),
    )


def _delivery(metadata: MetaData) -> Table:
    return Table(
        "duetime_delivery",
        metadata,
        Column("consumer", name_type(), nullable=False),
        Column("seq", BigInteger, nullable=False),
        Column("order_key", name_type(), nullable=False),
        Column("state", word_type(9), nullable=False, server_default="pending"),
        Column("attempts", Integer, nullable=False, server_default="0"),
        Column("next_try_at", Instant),
        Column("delivered_at", Instant),
        Column("last_error", Text),
        PrimaryKeyConstraint("consumer", "seq", name="duetime_delivery_pkey"),
    )


def _order(metadata: MetaData) -> Table:
    return Table(
        "duetime_order",
        metadata,
        Column("order_no", name_type(), primary_key=True),
        Column("extended", Integer, nullable=False, server_default="0"),
        Column("extended_ms", BigInteger, nullable=False, server_default="0"),
        Column("policy", Text),
        Column("claim_token", word_type(64)),
        Column("claimed_until", Instant),
        Column("close_reason", word_type(32)),
        Column("close_source", name_type()),
        Column("closed_at", Instant),
    )


def _quarantine(metadata: MetaData) -> Table:
    return Table(
        "duetime_quarantine",
        metadata,
        Column("order_no", name_type(), nullable=False),
        Column("stage", word_type(7), nullable=False),
        Column("failures", Integer, nullable=False),
        Column("first_failed_at", Instant, nullable=False),
        Column("last_failed_at", Instant, nullable=False),
        Column("next_try_at", Instant, nullable=False),
        Column("state", word_type(11), nullable=False),
        Column("error", Text, nullable=False),
        PrimaryKeyConstraint("order_no", "stage", name="duetime_quarantine_pkey"),
        Index("duetime_quarantine_next", "state", "next_try_at"),
    )


def _payment(metadata: MetaData) -> Table:
    return Table(
        "duetime_payment",
        metadata,
        Column("payment_id", name_type(), primary_key=True),
        Column("order_no", name_type(), nullable=False),
        Column("provider", name_type(), nullable=False),
        Column("amount_minor", BigInteger, nullable=False),
        Column("currency", word_type(8), nullable=False),
        Column("received_at", Instant, nullable=False),
        Column("resolution", word_type(8), nullable=False),
        Index("duetime_payment_order_no", "order_no"),
    )


def _refund(metadata: MetaData) -> Table:
    return Table(
        "duetime_refund",
        metadata,
        Column("payment_id", name_type(), primary_key=True),
        Column("order_no", name_type(), nullable=False),
        Column("amount_minor", BigInteger, nullable=False),
        Column("currency", word_type(8), nullable=False),
        Column("state", word_type(9), nullable=False),
        Column("reason", Text),
        Index("duetime_refund_order_no", "order_no"),
    )


def _sweep_run(metadata: MetaData) -> Table:
    return Table(
        "duetime_sweep_run",
        metadata,
        Column("id", BigKey, Identity(always=False), primary_key=True),
        Column("shard", Integer, nullable=False),
        Column("worker", name_type(), nullable=False),
        Column("started_at", Instant, nullable=False),
        Column("finished_at", Instant),
        Column("pending_seen", Boolean),
        Column("due_found", BigInteger, nullable=False),
        Column("closed", BigInteger, nullable=False),
        Column("error", Text),
        Index("duetime_sweep_run_started_at", "started_at"),
    )


def _lease(metadata: MetaData) -> Table:
    return Table(
        "duetime_lease",
        metadata,
        Column("name", name_type(), primary_key=True),
        Column("holder", name_type()),
        Column("expires_at", Instant),
        Column("token", BigInteger, nullable=False, server_default="0"),
    )


def _inbox(metadata: MetaData) -> Table:
    return Table(
        "duetime_inbox",
        metadata,
        Column("consumer", name_type(), nullable=False),
        Column("message_id", name_type(), nullable=False),
        Column("received_at", Instant, nullable=False),
        PrimaryKeyConstraint("consumer", "message_id", name="duetime_inbox_pkey"),
    )


def _observed(metadata: MetaData) -> Table:
    return Table(
        "duetime_observed",
        metadata,
        Column("order_no", name_type(), primary_key=True),
        Column("expire_at", Instant, nullable=False),
        Column("first_seen_at", Instant, nullable=False),
        Column("seen", word_type(9), nullable=False),
        Column("followed", Integer, nullable=False),
        Column("would_close_at", Instant),
        Column("closed_at", Instant),
        Column("closed_seen_at", Instant),
        Column("paid_at", Instant),
        Index("duetime_observed_expire_at", "expire_at", "order_no"),
        Index("duetime_observed_followed", "followed", "expire_at", "order_no"),
    )


class SampleShop:
    """The small shop that the defaults describe: what ``duetime demo`` and ``migrate --sample-shop`` create."""

    def __init__(self) -> None:
        """Describe the tables; nothing is created."""
        self.metadata = MetaData()
        self.orders = Table(
            "orders",
            self.metadata,
            Column("id", BigKey, Identity(always=False), primary_key=True),
            Column("order_no", String(64), nullable=False, unique=True),
            Column("status", String(16), nullable=False, server_default="pending"),
            Column("expire_at", Instant, nullable=False),
            Column("closed_at", Instant),
            Column("close_reason", String(32)),
            Column("close_source", String(64)),
            Column("category", String(32)),
            Column("amount_minor", BigInteger),
            Column("currency", String(3)),
            Column("created_at", Instant),
            Column("paid_at", Instant),
            Column("channel", String(16)),
        )
        self.stock = Table(
            "stock",
            self.metadata,
            Column("sku_id", String(64), primary_key=True),
            Column("available", BigInteger, CheckConstraint("available >= 0"), nullable=False),
            Column("held", BigInteger, CheckConstraint("held >= 0"), nullable=False, server_default="0"),
        )
        self.coupon = Table(
            "coupon",
            self.metadata,
            Column("coupon_id", String(64), primary_key=True),
            Column("state", String(16), nullable=False, server_default="unused"),
            Column("valid_until", Instant),
        )
