"""What a statement really touches, measured while the store runs it, with the statement and the parameters it sends.

A hook of SQLAlchemy's stands before and after every statement. Each database is asked in its own way:

==========  ========================================  ===========================================================
database    which way (``indexes``, ``scans``)        how much (``touched``)
==========  ========================================  ===========================================================
PostgreSQL  ``EXPLAIN (ANALYZE)`` in a savepoint      rows that its scans and joins looked at; blocks in ``blocks``
MariaDB     ``EXPLAIN``                               the session's ``Handler_read_…`` counters, before and after
SQLite      ``EXPLAIN QUERY PLAN``                    steps of its virtual machine, by its progress handler
==========  ========================================  ===========================================================
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.util import await_only

from tests.support.databases import DatabaseKind

_WATCHED = re.compile(r"\b(?:FROM|UPDATE|INTO)\s+[`\"\w]")
FEW_ROWS = frozenset({"duetime_consumer"})
"""Tables that hold a handful of rows by their nature: they are read from end to end, and may be."""


@dataclass
class Seen:
    """One statement as it went."""

    statement: str
    indexes: set[str] = field(default_factory=set)
    scans: set[str] = field(default_factory=set)
    touched: int = 0
    blocks: int = 0
    plan: str = ""

    @property
    def read_whole(self) -> set[str]:
        """Tables that it read from end to end and should not have."""
        return self.scans - FEW_ROWS

    @property
    def verb(self) -> str:
        """What it does."""
        return self.statement.split(maxsplit=1)[0]

    @property
    def table(self) -> str:
        """The table that it is about."""
        match = re.search(r"\b(?:FROM|UPDATE|INTO)\s+([`\"\w.]+)", self.statement)
        return match[1].strip('`"') if match else ""

    def __str__(self) -> str:
        way = f"by {', '.join(sorted(self.indexes)) or 'no index'}"
        whole = f", all of {', '.join(sorted(self.scans))}" if self.scans else ""
        return f"{self.verb} {self.table}: touched {self.touched} ({self.blocks} blocks) {way}{whole}"


class Ruler(ABC):
    """Measures statements on one connection."""

    @abstractmethod
    def before(self, connection: Connection, seen: Seen, parameters: Any) -> None:  # noqa: ANN401 -- the driver's
        """Ask which way the statement will go; begin to count."""

    @abstractmethod
    def after(self, connection: Connection, seen: Seen) -> None:
        """End the count."""

    @staticmethod
    def rows(connection: Connection, statement: str, parameters: Any = None) -> list[Any]:  # noqa: ANN401 -- as above
        """Run a statement of ours beside the one that is watched, unseen by the hook."""
        cursor = connection.connection.cursor()
        try:
            if parameters is None:
                cursor.execute(statement)
            else:
                cursor.execute(statement, parameters)
            return list(cursor.fetchall()) if cursor.description else []
        finally:
            cursor.close()


class PostgreSQLRuler(Ruler):
    SCANS = ("Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan", "Tid Scan")
    REMOVED = ("Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")

    def before(self, connection: Connection, seen: Seen, parameters: Any) -> None:  # noqa: ANN401 -- as above
        self.rows(connection, "SAVEPOINT look")
        explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "
        ((plan,),) = self.rows(connection, explain + seen.statement, parameters)
        self.rows(connection, "ROLLBACK TO SAVEPOINT look")
        plan = json.loads(plan) if isinstance(plan, str) else plan
        seen.plan = json.dumps(plan, indent=1)
        top = plan[0]["Plan"]
        seen.blocks = top["Shared Hit Blocks"] + top["Shared Read Blocks"]
        for node in self._nodes(top):
            # The entries that a bitmap was made of are counted where it was made; the heap scan tells what was in vain.
            found = node["Actual Rows"] if node["Node Type"] in self.SCANS else 0
            seen.touched += round((found + sum(node.get(key, 0) for key in self.REMOVED)) * node["Actual Loops"])
            seen.indexes |= {node["Index Name"]} if "Index Name" in node else set()
            seen.scans |= {node["Relation Name"]} if node["Node Type"] == "Seq Scan" else set()

    def after(self, connection: Connection, seen: Seen) -> None:
        """EXPLAIN has told all."""

    def _nodes(self, node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield node
        for child in node.get("Plans", ()):
            yield from self._nodes(child)


class PostgreSQLCounters(Ruler):
    """Counts what the prepared statement itself reads; EXPLAIN would plan anew, with the values at hand."""

    COUNT = """
        SELECT COALESCE(sum(pg_stat_get_xact_tuples_returned(oid)), 0) FROM pg_class
         WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')"""

    def before(self, connection: Connection, seen: Seen, parameters: Any) -> None:  # noqa: ANN401, ARG002 -- as above
        seen.touched = -self._count(connection)

    def after(self, connection: Connection, seen: Seen) -> None:
        seen.touched += self._count(connection)

    def _count(self, connection: Connection) -> int:
        return int(self.rows(connection, self.COUNT)[0][0])


class MariaDBRuler(Ruler):
    def _explain(self, connection: Connection, seen: Seen, parameters: Any) -> None:  # noqa: ANN401 -- as above
        if isinstance(parameters, list):
            return  # many rows of VALUES have no plan
        for row in self.rows(connection, "EXPLAIN " + seen.statement, parameters):
            _, _, table, how, _, key, *_ = row
            seen.plan += f"{row}\n"
            seen.indexes |= {key} if key else set()
            whole = table and not table.startswith("<") and how in {"ALL", "index"}
            seen.scans |= {table} if whole else set()

    def before(self, connection: Connection, seen: Seen, parameters: Any) -> None:  # noqa: ANN401 -- as above
        self._explain(connection, seen, parameters)
        first = self._reads(connection)
        second = self._reads(connection)
        # SHOW STATUS reads a table of its own, which counts: the difference of two readings is that share.
        seen.touched = -(second + second - first)

    def after(self, connection: Connection, seen: Seen) -> None:
        seen.touched += self._reads(connection)

    def _reads(self, connection: Connection) -> int:
        counters = self.rows(connection, "SHOW SESSION STATUS LIKE 'Handler%'")
        return sum(int(n) for name, n in counters if name.startswith("Handler_read") or name == "Handler_icp_attempts")


class SQLiteRuler(Ruler):
    def __init__(self) -> None:
        self._steps = 0

    def _explain(self, connection: Connection, seen: Seen, parameters: Any) -> None:  # noqa: ANN401 -- as above
        one = parameters[0] if isinstance(parameters, list) else parameters
        for *_, detail in self.rows(connection, "EXPLAIN QUERY PLAN " + seen.statement, one):
            seen.plan += f"{detail}\n"
            if match := re.search(r"USING (?:COVERING )?(?:INDEX (\S+)|(?:INTEGER )?(PRIMARY KEY))", detail):
                seen.indexes.add(match[1] or match[2])
            elif match := re.match(r"SCAN (?!CONSTANT|json_each|anon_)(\S+)$", detail):
                seen.scans.add(match[1])

    def before(self, connection: Connection, seen: Seen, parameters: Any) -> None:  # noqa: ANN401 -- as above
        self._explain(connection, seen, parameters)
        self._steps = 0
        self._count(connection, self._step)

    def after(self, connection: Connection, seen: Seen) -> None:
        self._count(connection, None)
        seen.touched = self._steps

    def _step(self) -> int:
        self._steps += 1
        return 0

    @staticmethod
    def _count(connection: Connection, handler: Any) -> None:  # noqa: ANN401 -- a function or None
        driver: Any = connection.connection.driver_connection
        await_only(driver.set_progress_handler(handler, 1))


RULERS: dict[DatabaseKind, type[Ruler]] = {
    "postgresql": PostgreSQLRuler,
    "mariadb": MariaDBRuler,
    "sqlite": SQLiteRuler,
}


@contextmanager
def watching(engine: Engine, ruler: Ruler) -> Iterator[list[Seen]]:
    """Give the list to which every statement on a table is added while the block runs."""
    seen: list[Seen] = []

    def before(connection: Connection, _cursor: object, statement: str, parameters: Any, *_: object) -> None:  # noqa: ANN401 -- as above
        if _WATCHED.search(statement):
            seen.append(Seen(statement))
            ruler.before(connection, seen[-1], parameters)

    def after(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        if _WATCHED.search(statement):
            ruler.after(connection, seen[-1])

    event.listen(engine, "before_cursor_execute", before)
    event.listen(engine, "after_cursor_execute", after)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", before)
        event.remove(engine, "after_cursor_execute", after)
