"""The first own tables.

Every statement may be repeated: MySQL and MariaDB commit each of them by itself, so a run that was cut off in the
middle starts again from the first. For the same reason their indexes are part of CREATE TABLE: not every version
served knows CREATE INDEX IF NOT EXISTS.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from alembic import op
from sqlalchemy import text

revision: str = "0001"
down_revision: str | None = None
branch_labels: None = None
depends_on: None = None


class _Key(NamedTuple):
    name: str
    columns: str
    where: str = ""


class _Table(NamedTuple):
    name: str
    lines: tuple[str, ...]
    keys: tuple[_Key, ...] = ()


_WORD_LENGTHS: Final = (7, 8, 9, 11, 32, 64)
_UNFINISHED: Final = "CASE WHEN state IN ('releasing', 'consuming') THEN state END"

_TABLES: Final = (
    _Table(
        "duetime_hold",
        (
            "order_no {name} NOT NULL",
            "kind {name} NOT NULL",
            "ref {name} NOT NULL",
            "quantity BIGINT NOT NULL",
            "state {word9} DEFAULT 'held' NOT NULL",
            "generation INTEGER DEFAULT '0' NOT NULL",
            "held_at {instant}",
            "released_at {instant}",
            "unfinished {word9} GENERATED ALWAYS AS (" + _UNFINISHED + ") {kept}",
            "CONSTRAINT duetime_hold_pkey PRIMARY KEY (order_no, kind, ref)",
            "CONSTRAINT duetime_hold_quantity CHECK (quantity > 0)",
            "CONSTRAINT duetime_hold_state CHECK (state IN ('held', 'releasing', 'released', 'consuming', 'consumed'))",
        ),
        (_Key("duetime_hold_unfinished", "unfinished, kind, ref, order_no", "unfinished IS NOT NULL"),),
    ),
    _Table(
        "duetime_outbox",
        (
            "seq {counted}{autoincrement}",
            "event_id {word64} NOT NULL",
            "order_no {name} NOT NULL",
            "type {word32} NOT NULL",
            "payload JSON NOT NULL",
            "created_at {instant} NOT NULL",
            "{primary_seq}",
            "CONSTRAINT duetime_outbox_event_id UNIQUE (event_id)",
        ),
        (_Key("duetime_outbox_order_no", "order_no"),),
    ),
    _Table("duetime_consumer", ("name {name} NOT NULL", "events JSON NOT NULL", "PRIMARY KEY (name)")),
    _Table(
        "duetime_delivery",
        (
            "consumer {name} NOT NULL",
            "seq BIGINT NOT NULL",
            "order_key {name} NOT NULL",
            "state {word9} DEFAULT 'pending' NOT NULL",
            "attempts INTEGER DEFAULT '0' NOT NULL",
            "next_try_at {instant}",
            "delivered_at {instant}",
            "last_error TEXT",
            "CONSTRAINT duetime_delivery_pkey PRIMARY KEY (consumer, seq)",
        ),
    ),
    _Table(
        "duetime_order",
        (
            "order_no {name} NOT NULL",
            "extended INTEGER DEFAULT '0' NOT NULL",
            "extended_ms BIGINT DEFAULT '0' NOT NULL",
            "policy TEXT",
            "claim_token {word64}",
            "claimed_until {instant}",
            "close_reason {word32}",
            "close_source {name}",
            "closed_at {instant}",
            "PRIMARY KEY (order_no)",
        ),
    ),
    _Table(
        "duetime_quarantine",
        (
            "order_no {name} NOT NULL",
            "stage {word7} NOT NULL",
            "failures INTEGER NOT NULL",
            "first_failed_at {instant} NOT NULL",
            "last_failed_at {instant} NOT NULL",
            "next_try_at {instant} NOT NULL",
            "state {word11} NOT NULL",
            "error TEXT NOT NULL",
            "CONSTRAINT duetime_quarantine_pkey PRIMARY KEY (order_no, stage)",
        ),
        (_Key("duetime_quarantine_next", "state, next_try_at"),),
    ),
    _Table(
        "duetime_payment",
        (
            "payment_id {name} NOT NULL",
            "order_no {name} NOT NULL",
            "provider {name} NOT NULL",
            "amount_minor BIGINT NOT NULL",
            "currency {word8} NOT NULL",
            "received_at {instant} NOT NULL",
            "resolution {word8} NOT NULL",
            "PRIMARY KEY (payment_id)",
        ),
        (_Key("duetime_payment_order_no", "order_no"),),
    ),
    _Table(
        "duetime_refund",
        (
            "payment_id {name} NOT NULL",
            "order_no {name} NOT NULL",
            "amount_minor BIGINT NOT NULL",
            "currency {word8} NOT NULL",
            "state {word9} NOT NULL",
            "reason TEXT",
            "PRIMARY KEY (payment_id)",
        ),
        (_Key("duetime_refund_order_no", "order_no"),),
    ),
    _Table(
        "duetime_sweep_run",
        (
            "id {counted}",
            "shard INTEGER NOT NULL",
            "worker {name} NOT NULL",
            "started_at {instant} NOT NULL",
            "finished_at {instant}",
            "pending_seen {boolean}",
            "due_found BIGINT NOT NULL",
            "closed BIGINT NOT NULL",
            "error TEXT",
            "PRIMARY KEY (id)",
        ),
        (_Key("duetime_sweep_run_started_at", "started_at"),),
    ),
    _Table(
        "duetime_lease",
        (
            "name {name} NOT NULL",
            "holder {name}",
            "expires_at {instant}",
            "token BIGINT DEFAULT '0' NOT NULL",
            "PRIMARY KEY (name)",
        ),
    ),
    _Table(
        "duetime_inbox",
        (
            "consumer {name} NOT NULL",
            "message_id {name} NOT NULL",
            "received_at {instant} NOT NULL",
            "CONSTRAINT duetime_inbox_pkey PRIMARY KEY (consumer, message_id)",
        ),
    ),
    _Table(
        "duetime_observed",
        (
            "order_no {name} NOT NULL",
            "expire_at {instant} NOT NULL",
            "first_seen_at {instant} NOT NULL",
            "seen {word9} NOT NULL",
            "followed INTEGER NOT NULL",
            "would_close_at {instant}",
            "closed_at {instant}",
            "closed_seen_at {instant}",
            "paid_at {instant}",
            "PRIMARY KEY (order_no)",
        ),
        (
            _Key("duetime_observed_expire_at", "expire_at, order_no"),
            _Key("duetime_observed_followed", "followed, expire_at, order_no"),
        ),
    ),
)

_POSTGRESQL: Final = {
    "name": 'VARCHAR(190) COLLATE "C"',
    **{f"word{length}": f'VARCHAR({length}) COLLATE "C"' for length in _WORD_LENGTHS},
    "instant": "TIMESTAMP WITH TIME ZONE",
    "boolean": "BOOLEAN",
    "counted": "BIGINT GENERATED BY DEFAULT AS IDENTITY",
    "autoincrement": "",
    "primary_seq": "PRIMARY KEY (seq)",
    "kept": "STORED",
}
_MYSQL: Final = {
    "name": "VARCHAR(190) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    **{f"word{length}": f"VARCHAR({length}) CHARACTER SET ascii COLLATE ascii_bin" for length in _WORD_LENGTHS},
    "instant": "DATETIME(6)",
    "boolean": "BOOL",
    "counted": "BIGINT NOT NULL AUTO_INCREMENT",
    "autoincrement": "",
    "primary_seq": "PRIMARY KEY (seq)",
    "kept": "VIRTUAL",
}
_SQLITE: Final = {
    "name": "VARCHAR(190)",
    **{f"word{length}": f"VARCHAR({length})" for length in _WORD_LENGTHS},
    "instant": "DATETIME",
    "boolean": "BOOLEAN",
    "counted": "INTEGER NOT NULL",
    "autoincrement": " PRIMARY KEY AUTOINCREMENT",
    "primary_seq": "",
    "kept": "STORED",
}
_WORDS: Final = {"postgresql": _POSTGRESQL, "mysql": _MYSQL, "mariadb": _MYSQL, "sqlite": _SQLITE}
_OPTIONS: Final = {
    ("postgresql", "duetime_hold"): " WITH (fillfactor = 50)",
    ("sqlite", "duetime_hold"): " WITHOUT ROWID",
}


def upgrade(prefix: str) -> None:
    """Create the tables and their indexes; ``prefix`` is the quoted schema with its dot, or nothing."""
    for statement in _statements(op.get_context().dialect.name, prefix):
        op.execute(text(statement.replace(":", r"\:")))


def _statements(dialect: str, prefix: str) -> Iterator[str]:
    words, inline = _WORDS[dialect], dialect in {"mysql", "mariadb"}
    for table in _TABLES:
        lines = [line.format_map(words) for line in table.lines]
        if inline:
            lines += [f"KEY {key.name} ({key.columns})" for key in table.keys]
        body = ",\n".join(f"    {line}" for line in lines if line)
        yield f"CREATE TABLE IF NOT EXISTS {prefix}{table.name} (\n{body}\n){_OPTIONS.get((dialect, table.name), '')}"
        for key in () if inline else table.keys:
            where = f" WHERE {key.where}" if key.where else ""
            yield f"CREATE INDEX IF NOT EXISTS {key.name} ON {prefix}{table.name} ({key.columns}){where}"
