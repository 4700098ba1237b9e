"""The loop by hand on SQLite: the standard library's driver, facts and sums made inside the database.

SQLite has no rows to lock: the transaction opens as the one writer.
"""

import json
import sqlite3
from datetime import UTC, datetime, timedelta

from . import GRACE_SECONDS, exactly

_ORDERS = """
    SELECT id, order_no FROM orders WHERE status = 'pending' AND expire_at <= :due_by
    ORDER BY expire_at, id LIMIT :size"""
_ID = "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a' || \
substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
_FACTS = f"""
    INSERT INTO duetime_outbox (event_id, order_no, type, payload, created_at)
    SELECT event_id, order_no, 'order.closed',
        '{{"event_id":"' || event_id || '","order_no":' || json_quote(order_no)
        || ',"reason":"timeout","source":"sweep","expire_at":"' || replace(expire_at, ' ', 'T')
        || 'Z","closed_at":"' || replace(:now, ' ', 'T') || 'Z","lateness_ms":'
        || (CAST((julianday(:now) - julianday(expire_at)) * 86400000 AS INTEGER) - {1000 * GRACE_SECONDS})
        || ',"released":[' || COALESCE(released, '') || ']}}', :now
    FROM (
        SELECT {_ID} AS event_id, o.order_no, o.expire_at, (
            SELECT group_concat('{{"kind":' || json_quote(kind) || ',"ref":' || json_quote(ref)
                || ',"quantity":' || quantity || '}}', ',')
            FROM duetime_hold AS h WHERE h.order_no = o.order_no AND h.state = 'held'
        ) AS released
        FROM orders AS o WHERE o.id IN (SELECT value FROM json_each(:ids)) LIMIT -1 OFFSET 0
    )"""
_CLOSE = """
    UPDATE orders SET status = 'closed', closed_at = :now, close_reason = 'timeout', close_source = 'sweep'
    WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'pending' AND expire_at <= :due_by"""
_OPEN_HOLDS = "order_no IN (SELECT value FROM json_each(:order_nos)) AND kind = 'stock' AND state = 'held'"
_KEYS = f"SELECT count(DISTINCT ref), count(*) FROM duetime_hold WHERE {_OPEN_HOLDS}"
_GIVE_BACK = f"""
    UPDATE stock SET available = available + units, held = held - units
    FROM (SELECT ref, sum(quantity) AS units FROM duetime_hold WHERE {_OPEN_HOLDS} GROUP BY ref) WHERE sku_id = ref"""
_MOVE = f"UPDATE duetime_hold SET state = 'released', released_at = :now WHERE {_OPEN_HOLDS}"
_SECONDS_TO_WAIT = 10


class Loop:
    """Fulfils ``Baseline``."""

    async def open(self, url: str) -> None:
        """Connect; write-ahead logging is how duetime leaves the file too."""
        self._connection = sqlite3.connect(
            url.removeprefix("sqlite:///"), timeout=_SECONDS_TO_WAIT, isolation_level=None
        )
        self._connection.execute("PRAGMA journal_mode = WAL")

    async def close_batch(self, size: int) -> int:
        """Close a batch."""
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        now = datetime.now(UTC)
        given: dict[str, object] = {
            "size": size,
            "now": _stored(now),
            "due_by": _stored(now - timedelta(seconds=GRACE_SECONDS)),
        }
        rows = run(_ORDERS, given).fetchall()
        if rows:
            given["ids"] = json.dumps([row[0] for row in rows])
            given["order_nos"] = json.dumps([row[1] for row in rows])
            exactly("facts", run(_FACTS, given).rowcount, len(rows))
            exactly("orders", run(_CLOSE, given).rowcount, len(rows))
            keys, holds = run(_KEYS, given).fetchone()
            exactly("stock", run(_GIVE_BACK, given).rowcount, keys)
            exactly("holds", run(_MOVE, given).rowcount, holds)
        run("COMMIT")
        return len(rows)

    async def aclose(self) -> None:
        """Disconnect."""
        self._connection.close()


def _stored(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")
