"""The reference of tables, from what ``duetime migrate`` creates.

What a column means stands here, by table and name. A column that the code has and that is missing here is an error when
the page is written.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sqlalchemy import CheckConstraint, Column, Dialect, Index, Table, UniqueConstraint
from sqlalchemy.dialects import mysql, postgresql, sqlite

from duetime.stores.sql.schema import OwnTables, SampleShop
from scripts.docs_pages import table

DATABASES: Final[Mapping[str, Dialect]] = {
    "PostgreSQL": postgresql.dialect(),
    "MariaDB, MySQL": mysql.dialect(),
    "SQLite": sqlite.dialect(),
}

_HEAD: Final = """\
# Tables

<!-- Written by scripts/generate_docs.py tables, from src/duetime/stores/sql/schema.py; the meanings stand in
     scripts/docs_tables.py. -->

duetime's own tables carry the prefix `duetime_`. They live beside yours, or in the schema that `[store] schema` names.
[`duetime migrate`](../how-to/migrate.md) creates and upgrades them, and `duetime migrate --sql` prints them. You may
read all of them. Their columns are a promise: more may come, none is renamed. What you may write is said below, table
by table; everything else is written by duetime alone.

- Names (`order_no`, `kind`, `ref`, `payment_id`, …) hold up to 190 characters and compare byte by byte on every
  database: collation `"C"` on PostgreSQL, `utf8mb4_bin` on MariaDB and MySQL. Short words of duetime's own are ASCII.
- Instants are UTC. Where the type has no zone (MariaDB, MySQL, SQLite), the value *is* UTC, with microseconds. SQLite
  keeps them as text: `2026-01-31 08:00:00.000000`.
- No statement of duetime joins these tables to yours: collations and types may differ.
"""

_HOLD_RULE: Final = """\
**You may insert rows, in state `held`.** In your own transaction: insert the order's row, or lock it (`FOR UPDATE`) and
find it pending; then insert its holds; then commit. The order's row is the lock of its holds: a hold that is written
without it can miss the close, and then nobody gives it back. You may change or delete rows in state `held` by the same
rule. Leave rows in any other state alone. [How, per database](../how-to/plain-sql.md)."""

_OWN: Final[Mapping[str, tuple[str, str]]] = {
    "duetime_hold": ("What orders have taken. A row is one order's hold on one asset.", _HOLD_RULE),
    "duetime_outbox": (
        "[Facts](events.md): what happened, written in the transaction that made it true, and never changed.",
        "Read only. `seq` grows with each order's own facts; between orders a larger `seq` can become visible first.",
    ),
    "duetime_consumer": (
        "Who wants which facts. Each writer of facts reads it and writes what is owed.",
        "Nothing registers consumers in this version. A row that you insert is honoured; nothing is delivered.",
    ),
    "duetime_delivery": (
        "A fact that is still owed to one consumer.",
        "Written together with the fact, for each row of `duetime_consumer`. Nothing delivers in this version.",
    ),
    "duetime_order": (
        "What your order table has no place for. A row is written only when there is something to keep.",
        "Read only.",
    ),
    "duetime_quarantine": (
        "Orders that failed to close, or to give back what they held. [What to do](../how-to/quarantine.md).",
        "Read only: `duetime quarantine retry` and `resolve` change it.",
    ),
    "duetime_payment": (
        "Payment notices as they were first answered. Rows with `resolution = 'manual'` wait for a person.",
        "Read only.",
    ),
    "duetime_refund": ("Refunds that were asked for.", "Empty in this version: nothing refunds by itself."),
    "duetime_sweep_run": (
        "One row for each pass of the sweep.",
        "Read only. Removed as `[retention] sweep_runs` says.",
    ),
    "duetime_lease": (
        "Which workers are alive, and what was said about their pace.",
        "A row for each worker, which ends at `expires_at`, and two that last: `pause`, with who said so, and `rate`.",
    ),
    "duetime_inbox": (
        "For receivers of facts: message ids that were dealt with.",
        "Empty in this version.",
    ),
    "duetime_observed": (
        "What [observe mode](../how-to/first-run.md) remembers of orders, beside another closer.",
        "Read only; `duetime observe report` reads it. Removed as `[retention] observed` says.",
    ),
}

_COLUMNS: Final[Mapping[str, str]] = {
    "order_no": "The order, as your row writes its number.",
    "kind": "The asset's kind, as `[[assets]] kind` names it.",
    "ref": "The asset's key, as text.",
    "duetime_hold.quantity": "Units, above zero; 1 for single pieces.",
    "duetime_hold.state": "[Where the hold stands](../explanation/lifecycle.md#the-life-of-a-hold).",
    "duetime_hold.generation": "0; for holds that are taken again after a reopening, which this version does not do.",
    "duetime_hold.held_at": "When it was taken; may be left out.",
    "duetime_hold.released_at": "When it last moved: promised, given back or used up.",
    "duetime_hold.unfinished": "`state` while it is `releasing` or `consuming`, else NULL. Computed: do not write it.",
    "duetime_outbox.seq": "The place in the outbox.",
    "event_id": "The fact's identity: the same however often it is read or passed on.",
    "duetime_outbox.type": "What happened.",
    "duetime_outbox.payload": "JSON; [its keys by type](events.md).",
    "duetime_outbox.created_at": "The store's clock in the transaction that wrote it.",
    "duetime_consumer.name": "The consumer's name.",
    "duetime_consumer.events": "JSON: a list of fact types.",
    "consumer": "The consumer's name.",
    "duetime_delivery.seq": "The fact.",
    "duetime_delivery.order_key": "What the delivery keeps its place behind: the order, or one hold, or one payment.",
    "duetime_delivery.state": "`pending`, `delivered`, `dead` or `discarded`.",
    "duetime_delivery.attempts": "How often it was tried.",
    "duetime_delivery.next_try_at": "When it is tried next.",
    "duetime_delivery.delivered_at": "When it arrived.",
    "duetime_delivery.last_error": "What the last try met.",
    "duetime_order.extended": "How often the deadline was moved.",
    "duetime_order.extended_ms": "By how much in all, in milliseconds.",
    "duetime_order.policy": "Which time-out made the deadline, where duetime placed the order.",
    "duetime_order.claim_token": "Not used by this version.",
    "duetime_order.claimed_until": "Not used by this version.",
    "duetime_order.close_reason": "Why it was closed, where your table has no column for it.",
    "duetime_order.close_source": "By whom, where your table has no column for it.",
    "duetime_order.closed_at": "When, where your table has no column for it.",
    "duetime_quarantine.stage": "`close`, or `release` for an order that is closed and whose units are still owed.",
    "duetime_quarantine.failures": "Attempts that failed.",
    "duetime_quarantine.first_failed_at": "When it first failed.",
    "duetime_quarantine.last_failed_at": "When it last failed.",
    "duetime_quarantine.next_try_at": "When it is tried next, while `retrying`.",
    "duetime_quarantine.state": "`retrying`, `quarantined` (waits for a person) or `resolved`.",
    "duetime_quarantine.error": "Why, with the row's name; and how a person settled it.",
    "payment_id": "The provider's own number of the payment.",
    "duetime_payment.provider": "As the caller named it; may be empty.",
    "amount_minor": "The amount in the currency's smallest unit (cents, fen).",
    "currency": "The currency's code.",
    "duetime_payment.received_at": "When the notice first came.",
    "duetime_payment.resolution": "`paid`, or `manual`: a person decides. (`repeat`, `reopened`, `refund`: later.)",
    "duetime_refund.state": "`requested`, `done` or `failed`.",
    "duetime_refund.reason": "Why.",
    "duetime_sweep_run.id": "Number of the row.",
    "duetime_sweep_run.shard": "0: this version does not divide the work.",
    "duetime_sweep_run.worker": "Host and process.",
    "duetime_sweep_run.started_at": "The store's clock at the start: what was due then is what the pass looks at.",
    "duetime_sweep_run.finished_at": "At the end.",
    "duetime_sweep_run.pending_seen": "Whether the shop had any pending order at all.",
    "duetime_sweep_run.due_found": "Due orders that were read, without those that had failed before.",
    "duetime_sweep_run.closed": "How many of them this pass closed.",
    "duetime_sweep_run.error": "What ended the pass early.",
    "duetime_lease.name": "The worker, `pause` or `rate`.",
    "duetime_lease.holder": "Who works on it.",
    "duetime_lease.expires_at": "Until when.",
    "duetime_lease.token": "Grows with each new holder.",
    "duetime_inbox.message_id": "The message's identity.",
    "duetime_inbox.received_at": "When it was dealt with.",
    "duetime_observed.expire_at": "The deadline when the order was last looked at.",
    "duetime_observed.first_seen_at": "When it was first looked at.",
    "duetime_observed.seen": "How it was at the last look: `pending`, `paid`, `closed`, `deleted` or `other`.",
    "duetime_observed.followed": "1 while it is looked at again, else 0.",
    "duetime_observed.would_close_at": "When duetime would have closed it: a pass found it pending and due.",
    "duetime_observed.closed_at": "When it was closed, as your row says it.",
    "duetime_observed.closed_seen_at": "When a pass first saw it closed.",
    "duetime_observed.paid_at": "When it was paid, as your row says it, else when a pass first saw it paid.",
    "orders.id": "The primary key.",
    "orders.order_no": "The order's number.",
    "orders.status": "`pending`, `paid` or `closed`, and what the shop adds.",
    "orders.expire_at": "The deadline.",
    "orders.closed_at": "When it was closed.",
    "orders.close_reason": "Why.",
    "orders.close_source": "By whom.",
    "orders.category": "Chooses the time-out.",
    "orders.created_at": "The shop's own.",
    "orders.paid_at": "The shop's own.",
    "orders.channel": "The shop's own.",
    "stock.sku_id": "The SKU.",
    "stock.available": "Units that can be sold.",
    "stock.held": "Units that pending orders hold.",
    "coupon.coupon_id": "The coupon.",
    "coupon.state": "`unused`, `locked`, `used` or `expired`.",
    "coupon.valid_until": "The end of its own validity; NULL where there is none.",
}

_KEYS: Final[Mapping[str, str]] = {
    "duetime_hold_unfinished": "finds holds that the releaser still has to finish",
    "duetime_hold_quantity": "nothing and less than nothing cannot be held",
    "duetime_hold_state": "no other words",
    "duetime_outbox_event_id": "a fact is written once, however often its writer tries",
    "duetime_outbox_order_no": "finds the facts of one order",
    "duetime_quarantine_next": "finds what is to be tried next",
    "duetime_payment_order_no": "finds the payments of one order",
    "duetime_refund_order_no": "finds the refunds of one order",
    "duetime_observed_expire_at": "pages of the report, and what is old",
    "duetime_observed_followed": "pages of the orders that are looked at again",
    "duetime_sweep_run_started_at": "finds the last runs",
}

_SAMPLE: Final = """\
## The sample shop

`duetime migrate --sample-shop` and `duetime demo` create these. The defaults of the [config](config.md) describe them.
They are an example of a shop's tables; yours may look as they like.
"""


def tables() -> str:
    """Return the page on tables."""
    own, lines = OwnTables(), [_HEAD]
    without_partial = OwnTables(partial_indexes=False).metadata.tables
    for one in own.metadata.tables.values():
        what, rule = _OWN[one.name]
        lines += [f"## `{one.name}`\n", f"{what}\n", f"{rule}\n", *_described(one, without_partial[one.name])]
    lines += ["## `duetime_version`\n", "The revision that the tables above are at. Alembic's own; read only.\n"]
    lines += [_SAMPLE]
    for one in SampleShop().metadata.tables.values():
        lines += [f"### `{one.name}`\n", *_described(one, one)]
    return "\n".join(lines)


def _described(one: Table, on_mysql: Table) -> Iterator[str]:
    """Describe a table; ``on_mysql`` is the same one where it is made for MySQL and MariaDB."""
    names = list(dict.fromkeys([*one.columns.keys(), *on_mysql.columns.keys()]))
    yield from table(
        ("column", *DATABASES, "", "meaning"),
        (
            (f"`{name}`", *_types(name, one, on_mysql), _needed(_either(name, one, on_mysql)), _meaning(one, name))
            for name in names
        ),
    )
    yield f"- Primary key: {_columns(one.primary_key)}."
    yield from _constraints(one)
    yield from (_index(index, on_mysql) for index in sorted(one.indexes, key=lambda index: str(index.name)))
    yield ""


def _either(name: str, one: Table, on_mysql: Table) -> Column[Any]:
    return one.columns[name] if name in one.columns else on_mysql.columns[name]


def _types(name: str, one: Table, on_mysql: Table) -> Iterator[str]:
    for database, dialect in DATABASES.items():
        made = on_mysql if dialect.name == "mysql" else one
        yield _type(made.columns[name], dialect) if name in made.columns else f"not on {database}"


def _type(column: Column[Any], dialect: Dialect) -> str:
    words = column.type.compile(dialect=dialect)
    for end in (" COLLATE", " CHARACTER SET"):
        words = words.partition(end)[0]
    if dialect.name == "postgresql":
        words = words.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
    return f"`{words}`"


def _needed(column: Column[Any]) -> str:
    if column.computed is not None:
        return "computed"
    if column.identity is not None:
        return "identity"
    default: Any = column.server_default
    if default is not None:
        return f"default `{default.arg}`"
    return "may be NULL" if column.nullable else "needed"


def _meaning(one: Table, name: str) -> str:
    return _COLUMNS.get(f"{one.name}.{name}") or _COLUMNS[name]


def _columns(of: Any) -> str:  # noqa: ANN401 -- a key or an index: both have columns
    return ", ".join(f"`{column.name}`" for column in of.columns)


def _constraints(one: Table) -> Iterator[str]:
    found = [*one.constraints, *(constraint for column in one.columns for constraint in column.constraints)]
    for constraint in sorted(found, key=lambda constraint: str(constraint.name)):
        meaning = _KEYS.get(str(constraint.name))
        after = f": {meaning}" if meaning else ""
        if isinstance(constraint, UniqueConstraint):
            yield f"- Unique: {_columns(constraint)}{after}."
        elif isinstance(constraint, CheckConstraint):
            yield f"- Check `{constraint.sqltext}`{after}."


def _index(index: Index, on_mysql: Table) -> str:
    where: Any = index.dialect_options["postgresql"]["where"]
    twin = next(one for one in on_mysql.indexes if one.name == index.name)
    columns, there = _columns(index), _columns(twin)
    parts = [f"`{index.name}` on {columns}"]
    if where is not None:
        parts.append(f", where `{where}`" + (" (MariaDB and MySQL: all rows)" if columns == there else ""))
    if columns != there:
        parts.append(f" (MariaDB and MySQL: on {there})")
    return f"- Index {''.join(parts)}: {_KEYS[str(index.name)]}."
