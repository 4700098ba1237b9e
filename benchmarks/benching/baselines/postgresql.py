"""The loop by hand on PostgreSQL: psycopg, facts and sums made inside the database."""

import psycopg

from . import GRACE_SECONDS, exactly

_CLOCK = "SELECT statement_timestamp()"
_ORDERS = f"""
    SELECT id, order_no FROM orders
    WHERE status = 'pending' AND expire_at <= %(now)s - interval '{GRACE_SECONDS} seconds'
    ORDER BY expire_at, id LIMIT %(size)s FOR NO KEY UPDATE SKIP LOCKED"""
_RFC3339 = '\'YYYY-MM-DD"T"HH24:MI:SS.US"Z"\''
_FACTS = f"""
    INSERT INTO duetime_outbox (event_id, order_no, type, payload, created_at)
    SELECT event_id, o.order_no, 'order.closed', CAST(
        '{{"event_id":"' || event_id || '","order_no":' || to_json(o.order_no) || ',"reason":"timeout","source":"sweep"'
        || ',"expire_at":"' || to_char(expire_at AT TIME ZONE 'UTC', {_RFC3339})
        || '","closed_at":"' || to_char(%(now)s AT TIME ZONE 'UTC', {_RFC3339})
        || '","lateness_ms":' || CAST(1000 * extract(epoch FROM %(now)s - expire_at) AS bigint) - {1000 * GRACE_SECONDS}
        || ',"released":[' || COALESCE(released, '') || ']}}' AS json), %(now)s
    FROM (SELECT *, CAST(gen_random_uuid() AS text) AS event_id FROM orders WHERE id = ANY(%(ids)s)) AS o
    LEFT JOIN (
        SELECT order_no, string_agg(
            '{{"kind":' || to_json(kind) || ',"ref":' || to_json(ref) || ',"quantity":' || quantity || '}}', ','
            ORDER BY kind, ref) AS released
        FROM duetime_hold WHERE order_no = ANY(%(order_nos)s) AND state = 'held' GROUP BY order_no
    ) AS h ON h.order_no = o.order_no"""
_CLOSE = f"""
    UPDATE orders SET status = 'closed', closed_at = %(now)s, close_reason = 'timeout', close_source = 'sweep'
    WHERE id = ANY(%(ids)s) AND status = 'pending' AND expire_at <= %(now)s - interval '{GRACE_SECONDS} seconds'"""
_LOCK_STOCK = """
    SELECT sku_id FROM stock WHERE sku_id IN (
        SELECT ref FROM duetime_hold WHERE order_no = ANY(%(order_nos)s) AND kind = 'stock' AND state = 'held'
    ) ORDER BY sku_id FOR NO KEY UPDATE OF stock"""
_GIVE_BACK = """
    WITH moved AS (
        UPDATE duetime_hold SET state = 'released', released_at = %(now)s
        WHERE order_no = ANY(%(order_nos)s) AND kind = 'stock' AND state = 'held' RETURNING ref, quantity
    )
    UPDATE stock SET available = available + units, held = held - units
    FROM (SELECT ref, sum(quantity) AS units FROM moved GROUP BY ref) AS back WHERE sku_id = ref"""


class Loop:
    """Fulfils ``Baseline``."""

    async def open(self, url: str) -> None:
        """Connect."""
        self._connection = psycopg.connect(url)

    async def close_batch(self, size: int) -> int:
        """Close a batch."""
        run = self._connection.execute
        given: dict[str, object] = {"size": size, "now": run(_CLOCK).fetchall()[0][0]}
        rows = run(_ORDERS, given).fetchall()
        if rows:
            given["ids"], given["order_nos"] = [row[0] for row in rows], [row[1] for row in rows]
            exactly("facts", run(_FACTS, given).rowcount, len(rows))
            exactly("orders", run(_CLOSE, given).rowcount, len(rows))
            keys = run(_LOCK_STOCK, given).fetchall()
            exactly("stock", run(_GIVE_BACK, given).rowcount, len(keys))
        self._connection.commit()
        return len(rows)

    async def aclose(self) -> None:
        """Disconnect."""
        self._connection.close()
