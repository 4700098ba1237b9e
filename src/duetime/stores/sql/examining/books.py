"""What stands in the tables: deadlines, states, holds, what waits, and when somebody last swept."""

from collections import Counter
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    MetaData,
    Select,
    Table,
    case,
    func,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from duetime.doctor import Found, ok, warning
from duetime.store import DueQuery
from duetime.stores.sql.column_kinds import typed
from duetime.stores.sql.dialect import bind, bound
from duetime.stores.sql.examining.desk import Desk, several
from duetime.stores.sql.reading import SqlBooks
from duetime.stores.sql.statements import Statements, constant
from duetime.stores.sql.time_forms import INSTANT
from duetime.sweep import FORGOTTEN_AFTER
from duetime.verifying.orders import judge_order

SAMPLE: Final = 1000
"""Newest orders that are looked at where looking at all would take long."""

COUNTED_AT_MOST: Final = 10_000
FEW: Final = 5
"""Fewer orders than this say nothing about all of them."""

BUSY: Final = 20
"""Pending orders from which on some deadline is expected within the hour."""

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
SWEEPS_MISSED: Final = 3

_OFFSET: Final = {
    "postgresql": "SELECT current_setting('timezone'), extract(timezone FROM now())",
    "mysql": "SELECT CONCAT(@@session.time_zone, ' (', @@system_time_zone, ')'), "
    "TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW())",
    "sqlite": "SELECT 'none', 0",
}


class BooksDesk(Desk):
    """Asks about rows."""

    async def zone(self) -> Found:
        """See whether the deadlines look as if they were read in the wrong zone."""
        name, seconds = (await self._ask(_OFFSET[self._dialect]))[0]
        offset = timedelta(seconds=int(seconds))
        words = f"the server's zone is {name}" if self._dialect != "sqlite" else "SQLite has no zone"
        async with self._store.transaction(write=False) as tx:
            now = await tx.now()
            near = await tx.due_page(DueQuery(now + DAY, BUSY, not_before=now - DAY))
            if len(near) < BUSY:
                return ok(f"{words}; too few orders are due within a day of now to tell whether the deadlines fit it")
            if await tx.due_page(DueQuery(now + HOUR, 1, not_before=now - HOUR)):
                return ok(f"{words}; the deadlines fit")
            ahead = await tx.due_page(DueQuery(now + DAY, 1, not_before=now))
            there = DueQuery(now + offset + HOUR, 1, not_before=now + offset - HOUR)
            as_offset = offset < timedelta(0) and await tx.due_page(there)
        words += "; no deadline lies within an hour of now"
        if ahead and ahead[0].expire_at is not None:
            words += f", the next is {_hours(ahead[0].expire_at - now)} ahead"
        elif as_offset:
            words += f", and some lie about {_hours(-offset)} in the past, as its offset"
        else:
            words += ", and all within a day lie in the past"
        return warning(
            words,
            f'orders.time_form takes {self._terms.orders.expire_at} for "{self._form_of_deadlines}": see what the '
            "column holds, and name there the zone of its local time, or what else it is; where so few orders come, or "
            "they have so much time, all is well",
        )

    @property
    def _form_of_deadlines(self) -> str:
        orders = self._terms.orders
        if isinstance(orders.time_form, str):
            return orders.time_form
        names = (f"{table}.{orders.expire_at}" for table in (orders.table, orders.qualified.name))
        found = (orders.time_form[name] for name in (*names, orders.expire_at) if name in orders.time_form)
        return next(found, INSTANT)

    async def deadlines(self) -> Found:
        """Count pending orders that can never become due."""
        async with self._reader() as (connection, statements):
            orders = statements.orders
            column = orders.needed("expire_at")
            absent = or_(*orders.time["expire_at"].absent(column))
            count = await _counted(connection, select(literal(1)).where(*self._pending(statements), absent))
        if not count:
            return ok("every pending order has a deadline")
        return warning(
            f"{_at_most(count, 'pending order')} without a deadline in {self._terms.orders.table}.{column.name}",
            "they are never closed: give them a deadline, or leave them if that is meant",
        )

    async def left_out(self) -> Found:
        """Count due orders that the shop's own condition leaves at the head of the index for ever."""
        if self._terms.orders.only is None:
            return ok("every pending order may be closed")
        async with self._reader() as (connection, statements):
            if statements.dialect.partial_indexes:
                return ok("orders.only is part of the index: what it leaves out costs nothing")
            column, form = statements.orders.needed("expire_at"), statements.orders.time["expire_at"]
            now = await self._store.dialect.clock(connection)
            excluded = case((_own_words(self._terms.orders.only), 0), else_=1) == 1
            pending = self._pending(statements, only=False)
            query = select(literal(1)).where(*pending, form.passed(column, "due_by"), excluded)
            count = await _counted(connection, query, due_by=form.bound(now))
        words = f"orders.only leaves out {_at_most(count, 'due order')}"
        if count > SAMPLE:
            return warning(
                f"{words}; every search for due orders reads past them",
                "let the database compute a status that leaves them out, as a generated column with an index",
            )
        return ok(words)

    def _pending(self, statements: Statements, *, only: bool = True) -> list[ColumnElement[bool]]:
        """Say that an order is pending, and ours to close, in the words of the index."""
        status, condition = statements.orders.needed("status"), self._terms.orders.only
        values = [constant(status, value) for value in self._terms.orders.states.pending]
        pending = status == values[0] if len(values) == 1 else status.in_(values)
        return [pending, _own_words(condition)] if only and condition is not None else [pending]

    async def states(self) -> Found:
        """Look for status values that the config does not name."""
        found = Counter(status for status, _ in await self._newest())
        if not found:
            return ok("there are no orders yet")
        states, column = self._known_states, self._terms.orders.status
        unnamed = {status: count for status, count in found.items() if status not in states}
        if not unnamed:
            return ok(f"orders.states names every value of the newest {several(found.total(), 'order')}")
        listed = ", ".join(f"{status} ({count})" for status, count in sorted(unnamed.items()))
        if len(unnamed) == len(found):
            return warning(
                f"orders.states names none of the values of {column} in the newest orders: {listed}",
                "correct orders.states: nothing would ever be closed",
            )
        return ok(f"of the newest {several(found.total(), 'order')} some have states of the shop's own: {listed}")

    @property
    def _known_states(self) -> set[str]:
        states = self._terms.orders.states
        closing = () if states.closing is None else (states.closing,)
        return {str(value) for value in (*states.pending, states.paid, states.closed, *closing)}

    async def _newest(self) -> list[tuple[str, str]]:
        """Read status and number of the newest orders by primary key."""
        async with self._reader() as (connection, statements):
            key = statements.orders.needed("id")
            columns = (statements.orders.needed("status"), statements.orders.needed("order_no"))
            query = select(*columns).order_by(key.desc()).limit(bind("page", BigInteger()))
            rows = (await connection.execute(query, bound(page=SAMPLE))).all()
            return [(str(row[0]).rstrip(), str(row[1])) for row in rows]

    async def holds(self) -> Found:
        """See whether orders close without giving anything back."""
        closed = str(self._terms.orders.states.closed)
        numbers = [number for status, number in await self._newest() if status == closed]
        if not numbers or not self._terms.assets:
            return ok("no order was closed yet" if self._terms.assets else "no assets are described")
        async with self._reader() as (connection, statements):
            outbox, hold = statements.own.outbox.c, statements.own.hold.c
            ours = await self._named(connection, statements, (outbox.order_no, outbox.type == "order.closed"), numbers)
            holding = await self._named(connection, statements, (hold.order_no, hold.order_no.is_not(None)), numbers)
        without = ours - holding
        if len(without) >= FEW and len(without) == len(ours):
            return warning(
                f"none of the newest {len(ours)} orders that duetime closed had any hold: nothing was given back",
                "record what orders hold in duetime_hold, or name the shop's lines in [[assets]] from",
            )
        lines = await self._lines(without)
        if lines:
            return warning(
                f"{several(len(without), 'order')} that duetime closed had no hold, yet the shop has "
                f"{several(lines, 'line')} for them: nothing was given back",
                "see whether [[assets]] from names the right columns, and give back by hand what was not",
            )
        return ok(f"{len(ours) - len(without)} of the newest {several(len(ours), 'closed order')} had holds")

    async def _lines(self, order_nos: set[str]) -> int:
        """Count the shop's own rows that say what these orders hold."""
        found, described = 0, [asset.from_lines for asset in self._terms.assets if asset.from_lines is not None]
        if not described or not order_nos:
            return 0
        async with self._reader() as (connection, statements):
            key, number = (statements.orders.needed(role) for role in ("id", "order_no"))
            wanted = [value for value in (typed(no, number.type) for no in order_nos) if value is not None]
            query = select(key, number).where(statements.dialect.among(number, "values"))
            orders = (await connection.execute(query, bound(values=wanted))).all()
            for lines in described:
                named, at = (lines.order_no, 1) if lines.order_no is not None else (lines.order_id, 0)
                pointer = Column(named or "", (key, number)[at].type)
                table = Table(lines.qualified.name, MetaData(), pointer, schema=lines.qualified.schema)
                counted = select(func.count()).select_from(table).where(statements.dialect.among(pointer, "values"))
                values = [row[at] for row in orders]
                found += int((await connection.execute(counted, bound(values=values))).scalar_one())
        return found

    @staticmethod
    async def _named(connection: Any, statements: Any, where: Any, numbers: list[str]) -> set[str]:  # noqa: ANN401 - columns of SQLAlchemy
        column, condition = where
        among = statements.dialect.among(column, "values")
        return set((await connection.execute(select(column).where(condition, among), bound(values=numbers))).scalars())

    async def unfinished(self) -> Found:
        """Look for units that should have been given back or used up long ago."""
        async with self._reader() as (connection, statements):
            hold = statements.own.hold.c
            query = select(hold.order_no).where(hold.unfinished.is_not(None)).limit(SAMPLE)
            numbers = list(dict.fromkeys((await connection.execute(query)).scalars()))
        if not numbers:
            return ok("nothing waits to be given back or used up")
        page = await SqlBooks(self._store).dossiers(numbers)
        stuck = [
            finding.order_no
            for dossier in page.dossiers
            for finding in judge_order(dossier, page.now, self._terms.verify)
            if finding.kind == "unfinished-for-long"
        ]
        if stuck:
            return warning(
                f"{several(len(stuck), 'order')} should have given back or used up long ago, {stuck[0]} among them",
                "see `duetime quarantine list`, and that `duetime run` is at work",
            )
        return ok(f"{several(len(numbers), 'order')} wait for the releaser, none for long")

    async def quarantine(self) -> Found:
        """Count what failed and needs a person."""
        async with self._reader() as (connection, statements):
            failure = statements.own.quarantine.c
            query = select(failure.state, func.count()).where(failure.state != "resolved").group_by(failure.state)
            rows = (await connection.execute(query)).all()
            counts: dict[str, int] = {row[0]: row[1] for row in rows}
        if counts.get("quarantined"):
            count = counts["quarantined"]
            verb = "is" if count == 1 else "are"
            return warning(f"{several(count, 'order')} {verb} in quarantine", "`duetime quarantine list` says why")
        if counts:
            return ok(f"{several(counts['retrying'], 'order')} failed and will be tried again")
        return ok("nothing failed")

    async def sweep(self) -> Found:
        """See when somebody last looked for due orders."""
        if self._terms.observes:
            return ok('closing.mode is "observe": orders are watched and not closed')
        async with self._store.transaction(write=False) as tx:
            fleet = await tx.fleet()
        if fleet.paused_by is not None:
            return warning(f"closing is paused by {fleet.paused_by}", "`duetime resume` ends it")
        books = SqlBooks(self._store)
        last, interval = await books.last_sweep(), self._terms.sweep_interval
        if last is None:
            return warning("no sweep has ended here yet", "start `duetime run`")
        ago = await books.now() - last
        words = f"the last sweep ended {_ago(ago)} ago"
        if ago > SWEEPS_MISSED * interval + timedelta(seconds=10):
            return warning(f"{words}, one is due every {_ago(interval)}", "see that `duetime run` is at work")
        return ok(words)

    async def backlog(self) -> Found:
        """Count what should have been closed by now."""
        async with self._store.transaction(write=False) as tx:
            now = await tx.now()
            late_by = self._terms.grace + 2 * self._terms.sweep_interval
            due = await tx.due_page(DueQuery(now - late_by, SAMPLE + 1, not_before=self._terms.not_before))
            first_run = not await tx.ever_swept()
        if not due:
            return ok("nothing is due for longer than two sweeps")
        oldest = due[0].expire_at
        assert oldest is not None
        count = f"more than {SAMPLE} orders" if len(due) > SAMPLE else several(len(due), "order")
        remedy = "`duetime sweep --dry-run` shows what would close; `duetime run` closes it"
        if first_run and oldest < now - self._terms.grace - FORGOTTEN_AFTER:
            remedy = (
                "the first `duetime run` refuses to close orders that are due for more than seven days: look at "
                "`duetime sweep --dry-run`, then set closing.not_before or say --accept-backlog"
            )
        if self._terms.observes:
            remedy = "`duetime observe report` tells what your own closer does; nothing is closed in observe mode"
        return warning(
            f"{count} should have been closed, the oldest {_ago(now - oldest - self._terms.grace)} ago", remedy
        )


async def _counted(connection: AsyncConnection, query: Select[Any], **values: object) -> int:
    limited = query.limit(COUNTED_AT_MOST + 1).subquery()
    found = await connection.execute(select(func.count()).select_from(limited), bound(**values))
    return int(found.scalar_one())


def _at_most(count: int, what: str) -> str:
    return f"more than {COUNTED_AT_MOST} {what}s" if count > COUNTED_AT_MOST else several(count, what)


def _own_words(condition: str) -> ColumnElement[Any]:
    return literal_column(f"({condition})")


def _hours(duration: timedelta) -> str:
    return f"{duration.total_seconds() / 3600:.1f} hours"


def _ago(duration: timedelta) -> str:
    seconds = max(0.0, duration.total_seconds())
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
