"""Statements that walk along duetime's own tables: to see what other hands did, and to remove what is old.

The walk goes by the orders' numbers, whatever the state of their holds: an index on the state would cost every close
more than the walk does. A page is bounded by how many rows it *reads*; that it may find nothing is its usual result.
"""

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Delete, Select, and_, delete, exists, func, select

from duetime.event import FactType
from duetime.hold import DONE, HoldState
from duetime.stores.sql.building import built
from duetime.stores.sql.dialect import SqlDialect, bind
from duetime.stores.sql.schema import OwnTables


class KeepingStatements:
    """The part of ``Statements`` that keeps house."""

    dialect: SqlDialect
    own: OwnTables
    memo: dict[object, Any]

    @built
    def ever_swept(self) -> Select[Any]:
        """Ask whether any sweep run is on record."""
        return select(exists(select(self.own.sweep_run.c.id)))

    @built
    def leases(self) -> Select[Any]:
        """Read who is alive, and what was said about the pace."""
        lease = self.own.lease.c
        return select(lease.name, lease.holder, lease.expires_at)

    @built
    def old_leases(self) -> Select[Any]:
        """Read leases that ended long ago: ``before``."""
        lease = self.own.lease.c
        return select(lease.name).where(lease.expires_at < bind("before", lease.expires_at.type)).order_by(lease.name)

    @built
    def remove_lease(self) -> Delete:
        """Remove one: ``lease_name``."""
        lease = self.own.lease
        return delete(lease).where(lease.c.name == bind("lease_name", lease.c.name.type))

    @built
    def last_of_page(self) -> Select[Any]:
        """Read the order number at which a page of holds ends: ``after_no``, ``page_rows``."""
        number = self.own.hold.c.order_no
        query = select(number).where(number > bind("after_no")).order_by(number)
        return query.limit(1).offset(bind("page_rows", BigInteger()))

    @built
    def held_orders(self, *, bounded: bool) -> Select[Any]:
        """Read orders of a page that hold something: ``after_no``, ``upto_no``."""
        hold = self.own.hold.c
        return select(hold.order_no).distinct().where(*self._page(bounded=bounded), hold.state == HoldState.HELD.value)

    @built
    def finished_orders(self, *, bounded: bool) -> Select[Any]:
        """Read orders of a page with a hold finished before ``finished_before``: ``after_no``, ``upto_no``."""
        hold = self.own.hold.c
        return select(hold.order_no).distinct().where(*self._page(bounded=bounded), self._long_finished())

    def _page(self, *, bounded: bool) -> list[ColumnElement[bool]]:
        number = self.own.hold.c.order_no
        return [number > bind("after_no"), *([number <= bind("upto_no")] if bounded else [])]

    def _long_finished(self) -> ColumnElement[bool]:
        hold = self.own.hold.c
        finished = hold.state.in_([state.value for state in DONE.values()])
        return and_(finished, hold.released_at < bind("finished_before", hold.released_at.type))

    @built
    def closes_here(self) -> Select[Any]:
        """Count our facts about closes, by order: ``order_nos``."""
        outbox = self.own.outbox.c
        query = select(outbox.order_no, func.count()).group_by(outbox.order_no)
        return query.where(self.dialect.among(outbox.order_no, "order_nos"), outbox.type == FactType.ORDER_CLOSED.value)

    @built
    def generations(self) -> Select[Any]:
        """Read how often orders have held again what they hold: ``order_nos``."""
        hold = self.own.hold.c
        query = select(hold.order_no, func.max(hold.generation)).group_by(hold.order_no)
        return query.where(self.dialect.among(hold.order_no, "order_nos"))

    @built
    def remove_holds(self) -> Delete:
        """Remove finished holds of orders: ``order_nos``, ``finished_before``."""
        hold = self.own.hold
        return delete(hold).where(self.dialect.among(hold.c.order_no, "order_nos"), self._long_finished())

    @built
    def oldest_facts(self) -> Select[Any]:
        """Read a page of facts with what is still owed of each: ``after_seq``, ``page_rows``, ``consumers``."""
        outbox, delivery = self.own.outbox.c, self.own.delivery.c
        waits = delivery.state.in_(["pending", "dead"])
        owed = exists().where(self.dialect.among(delivery.consumer, "consumers"), delivery.seq == outbox.seq, waits)
        query = select(outbox.seq, outbox.created_at, owed.label("owed"))
        query = query.where(outbox.seq > bind("after_seq", BigInteger())).order_by(outbox.seq)
        return query.limit(bind("page_rows", BigInteger()))

    @built
    def remove_deliveries(self) -> Delete:
        """Remove deliveries of facts: ``consumers``, ``seqs``."""
        delivery = self.own.delivery
        return delete(delivery).where(
            self.dialect.among(delivery.c.consumer, "consumers"), self.dialect.among(delivery.c.seq, "seqs")
        )

    @built
    def remove_facts(self) -> Delete:
        """Remove facts: ``seqs``."""
        outbox = self.own.outbox
        return delete(outbox).where(self.dialect.among(outbox.c.seq, "seqs"))

    @built
    def old_sweep_runs(self) -> Select[Any]:
        """Read old sweep runs, but never the newest: ``before``, ``page_rows``."""
        run = self.own.sweep_run.c
        newest = select(func.max(run.id)).scalar_subquery()
        query = select(run.id).where(run.started_at < bind("before", run.started_at.type), run.id < newest)
        return query.order_by(run.started_at).limit(bind("page_rows", BigInteger()))

    @built
    def remove_sweep_runs(self) -> Delete:
        """Remove sweep runs: ``run_ids``."""
        run = self.own.sweep_run
        return delete(run).where(self.dialect.among(run.c.id, "run_ids"))
