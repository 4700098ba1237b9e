"""The loop by hand on MariaDB: asyncmy, facts made inside the database, sums by key read before the keys are locked."""

from typing import Any
from urllib.parse import unquote, urlsplit

import asyncmy

from . import GRACE_SECONDS, exactly

_ORDERS = f"""
    SELECT id, order_no FROM orders
    WHERE status = 'pending' AND expire_at <= %(now)s - INTERVAL {GRACE_SECONDS} SECOND
    ORDER BY expire_at, id LIMIT %(size)s FOR UPDATE SKIP LOCKED"""
_FACTS = f"""
    INSERT INTO duetime_outbox (event_id, order_no, type, payload, created_at)
    SELECT event_id, order_no, 'order.closed', concat(
        '{{"event_id":"', event_id, '","order_no":', json_quote(order_no), ',"reason":"timeout","source":"sweep"',
        ',"expire_at":"', date_format(expire_at, '%%Y-%%m-%%dT%%H:%%i:%%s.%%fZ'),
        '","closed_at":"', date_format(%(now)s, '%%Y-%%m-%%dT%%H:%%i:%%s.%%fZ'),
        '","lateness_ms":', timestampdiff(MICROSECOND, expire_at, %(now)s) DIV 1000 - {1000 * GRACE_SECONDS},
        ',"released":[', COALESCE(released, ''), ']}}'), %(now)s
    FROM (
        SELECT uuid() AS event_id, o.order_no, o.expire_at, group_concat(
            '{{"kind":', json_quote(kind), ',"ref":', json_quote(ref), ',"quantity":', quantity, '}}'
            ORDER BY kind, ref SEPARATOR ',') AS released
        FROM orders AS o LEFT JOIN duetime_hold AS h ON h.order_no = o.order_no COLLATE utf8mb4_bin AND h.state = 'held'
        WHERE o.id IN %(ids)s GROUP BY o.id
    ) AS facts"""
_CLOSE = f"""
    UPDATE orders SET status = 'closed', closed_at = %(now)s, close_reason = 'timeout', close_source = 'sweep'
    WHERE id IN %(ids)s AND status = 'pending' AND expire_at <= %(now)s - INTERVAL {GRACE_SECONDS} SECOND"""
_UNITS = """
    SELECT ref, CAST(sum(quantity) AS SIGNED), count(*) FROM duetime_hold
    WHERE order_no IN %(order_nos)s AND kind = 'stock' AND state = 'held' GROUP BY ref ORDER BY ref"""
_LOCK_STOCK = "SELECT sku_id FROM stock WHERE sku_id IN %(refs)s ORDER BY sku_id FOR UPDATE"
_MOVE = """
    UPDATE duetime_hold SET state = 'released', released_at = %(now)s
    WHERE order_no IN %(order_nos)s AND kind = 'stock' AND state = 'held'"""
_GIVE_BACK = """
    INSERT INTO stock (sku_id, available, held) VALUES {rows}
    ON DUPLICATE KEY UPDATE available = available + VALUES(available), held = held - VALUES(held)"""


class Loop:
    """Fulfils ``Baseline``."""

    async def open(self, url: str) -> None:
        """Connect, with the isolation that a closer needs beside a shop."""
        at = urlsplit(url)
        self._connection = await asyncmy.connect(
            host=at.hostname,
            port=at.port or 3306,
            user=unquote(at.username or ""),
            password=unquote(at.password or ""),
            db=at.path.lstrip("/"),
            charset="utf8mb4",
        )
        await self._run("SET SESSION tx_isolation = 'READ-COMMITTED'", {})

    async def close_batch(self, size: int) -> int:
        """Close a batch."""
        given: dict[str, Any] = {"size": size, "now": (await self._rows("SELECT UTC_TIMESTAMP(6)", {}))[0][0]}
        rows = await self._rows(_ORDERS, given)
        if rows:
            given["ids"], given["order_nos"] = tuple(row[0] for row in rows), tuple(row[1] for row in rows)
            exactly("facts", await self._run(_FACTS, given), len(rows))
            exactly("orders", await self._run(_CLOSE, given), len(rows))
            await self._give_back(given)
        await self._connection.commit()
        return len(rows)

    async def _give_back(self, given: dict[str, Any]) -> None:
        units = await self._rows(_UNITS, given)
        if not units:
            return
        given["refs"] = tuple(row[0] for row in units)
        exactly("stock", len(await self._rows(_LOCK_STOCK, given)), len(units))
        exactly("holds", await self._run(_MOVE, given), sum(row[2] for row in units))
        rows = ", ".join(["(%s, %s, %s)"] * len(units))
        values = [value for ref, quantity, _ in units for value in (ref, quantity, quantity)]
        # A row that is updated counts twice; one that would be inserted, because it is not there, once.
        exactly("stock", await self._run(_GIVE_BACK.format(rows=rows), values), 2 * len(units))

    async def _run(self, statement: str, given: Any) -> int:  # noqa: ANN401 -- a list or a dictionary of values
        async with self._connection.cursor() as cursor:
            await cursor.execute(statement, given)
            changed: int = cursor.rowcount
            return changed

    async def _rows(self, statement: str, given: dict[str, Any]) -> list[tuple[Any, ...]]:
        async with self._connection.cursor() as cursor:
            await cursor.execute(statement, given)
            return list(await cursor.fetchall())

    async def aclose(self) -> None:
        """Disconnect."""
        await self._connection.ensure_closed()
