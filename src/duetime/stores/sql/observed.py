"""Statements on what observe mode remembers: ``duetime_observed``, the only table that it writes."""

from typing import Any

from sqlalchemy import BigInteger, Delete, Select, delete, or_, select

from duetime.stores.sql.building import built
from duetime.stores.sql.dialect import SqlDialect, bind
from duetime.stores.sql.schema import OwnTables


class ObservedStatements:
    """The part of ``Statements`` that observes."""

    dialect: SqlDialect
    own: OwnTables
    memo: dict[object, Any]

    @built
    def observed_page(self, *, followed: bool) -> Select[Any]:
        """Read a page of observed orders: ``since``, ``after_no``, ``before``, ``page_rows``."""
        observed, time = self.own.observed, self.own.observed.c.expire_at
        since = bind("since", time.type)
        conditions = [
            time >= since,
            or_(time > since, observed.c.order_no > bind("after_no")),
            time < bind("before", time.type),
        ]
        if followed:
            conditions.append(observed.c.followed == 1)
        query = select(observed).where(*conditions).order_by(time, observed.c.order_no)
        return query.limit(bind("page_rows", BigInteger()))

    @built
    def find_observed(self) -> Select[Any]:
        """Read observed orders by number: ``order_nos``."""
        observed = self.own.observed
        return select(observed).where(self.dialect.among(observed.c.order_no, "order_nos"))

    @built
    def old_observed(self) -> Select[Any]:
        """Read orders whose deadline was long ago: ``before``, ``page_rows``."""
        observed = self.own.observed.c
        query = select(observed.order_no).where(observed.expire_at < bind("before", observed.expire_at.type))
        return query.order_by(observed.expire_at, observed.order_no).limit(bind("page_rows", BigInteger()))

    @built
    def remove_observed(self) -> Delete:
        """Remove observed orders: ``order_nos``."""
        observed = self.own.observed
        return delete(observed).where(self.dialect.among(observed.c.order_no, "order_nos"))
