"""Facts, payments, and duetime's own books, on SQL."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, insert
from sqlalchemy.exc import IntegrityError

from duetime.errors import StoreConflict
from duetime.event import Fact, FactType, order_key
from duetime.hold import AssetKey, HoldState
from duetime.store import Failure, FailureQuery, Payment, Quarantine, Stage, SweepRun
from duetime.stores.sql.dialect import bound
from duetime.stores.sql.session import Session, unique

FACT_COLUMNS = ("event_id", "order_no", "type", "payload", "created_at")
DELIVERY_COLUMNS = ("consumer", "seq", "order_key")
FAILURE_COLUMNS = (
    "order_no", "stage", "failures", "first_failed_at", "last_failed_at", "next_try_at", "state", "error",
)  # fmt: skip


class BooksPart(Session):
    """Writes facts and payments; keeps the books on failures and sweeps."""

    async def add_facts(self, facts: Sequence[Fact], at: datetime) -> None:
        """Write facts, in this order, and what is owed of them to every registered consumer."""
        if not facts:
            return
        created_at = self._own(at)
        rows = [
            {
                "event_id": fact.event_id,
                "order_no": fact.order_no,
                "type": fact.type.value,
                "payload": fact.payload,
                "created_at": created_at,
            }
            for fact in facts
        ]
        outbox = self._statements.own.outbox
        await self._insert(self._statements.insert(outbox, FACT_COLUMNS), rows)
        await self._owe(facts)

    async def _owe(self, facts: Sequence[Fact]) -> None:
        """Write down which consumer is owed which of these facts."""
        consumers = await self._rows(self._statements.find_consumers())
        if not consumers:
            return
        ids = bound(event_ids=[fact.event_id for fact in facts])
        seqs = {row.event_id: row.seq for row in await self._rows(self._statements.find_seqs(), ids)}
        owed = [
            {"consumer": consumer.name, "seq": seqs[fact.event_id], "order_key": order_key(fact)}
            for consumer in consumers
            for fact in facts
            if fact.type.value in consumer.events
        ]
        if owed:
            delivery = self._statements.own.delivery
            await self._insert(self._statements.insert(delivery, DELIVERY_COLUMNS), owed)

    async def find_facts(self, *, event_ids: Sequence[str] = (), order_no: str | None = None) -> list[Fact]:
        """Read facts by identifier, or all facts of one order, oldest first."""
        by_order = order_no is not None
        if not by_order and not event_ids:
            return []
        parameters = bound(order_no=order_no) if by_order else bound(event_ids=unique(event_ids))
        rows = await self._rows(self._statements.find_facts(by_order=by_order), parameters)
        return [Fact(row.event_id, row.order_no, FactType(row.type), row.payload) for row in rows]

    async def record_payments(self, payments: Sequence[Payment]) -> dict[str, Payment]:
        """Write notices whose payment id is new; answer those that were there before."""
        found = await self._rows(
            self._statements.find_payments(), bound(payment_ids=unique(payment.payment_id for payment in payments))
        )
        before = {row.payment_id: self._payment(row) for row in found}
        new = [payment for payment in payments if payment.payment_id not in before]
        if not new:
            return before
        rows = [{**asdict(payment), "received_at": self._own(payment.received_at)} for payment in new]
        try:
            await self._run(insert(self._statements.own.payment), rows)
        except IntegrityError as error:
            # Somebody recorded the same payment between the two statements: seen from a new transaction, it was first.
            msg = f"payment {new[0].payment_id} was recorded at this moment by somebody else"
            raise StoreConflict(msg) from error
        return before

    async def find_payments(self, order_no: str) -> list[Payment]:
        """Read all payments that named this order, oldest first."""
        rows = await self._rows(self._statements.payments_of(), bound(order_no=order_no))
        return [self._payment(row) for row in rows]

    def _payment(self, row: Row[Any]) -> Payment:
        return Payment(
            row.payment_id, row.order_no, row.provider, row.amount_minor, row.currency,
            self._instant(row.received_at), row.resolution,
        )  # fmt: skip

    async def put_failures(self, failures: Sequence[Failure]) -> None:
        """Write failures, replacing those of the same order and stage."""
        if not failures:
            return
        rows = [
            {
                "order_no": failure.order_no,
                "stage": failure.stage.value,
                "failures": failure.failures,
                "first_failed_at": self._own(failure.first_failed_at),
                "last_failed_at": self._own(failure.last_failed_at),
                "next_try_at": self._own(failure.next_try_at),
                "state": failure.state.value,
                "error": failure.error,
            }
            for failure in failures
        ]
        changed = FAILURE_COLUMNS[2:]
        upsert = self._statements.upsert(self._statements.own.quarantine, FAILURE_COLUMNS, changed)
        await self._insert(upsert, rows)

    async def find_failures(self, query: FailureQuery) -> list[Failure]:
        """Read failures, those to be tried next first."""
        if query.order_nos is not None and not query.order_nos:
            return []
        parameters = bound(states=[state.value for state in query.states], failure_limit=query.limit)
        if query.order_nos is not None:
            parameters |= bound(order_nos=unique(query.order_nos))
        if query.stage is not None:
            parameters |= bound(stage=query.stage.value)
        if query.try_by is not None:
            parameters |= bound(try_by=self._own(query.try_by))
        statement = self._statements.find_failures(
            by_order=query.order_nos is not None, by_stage=query.stage is not None, by_time=query.try_by is not None
        )
        return [self._failure(row) for row in await self._rows(statement, parameters)]

    def _failure(self, row: Row[Any]) -> Failure:
        return Failure(
            row.order_no,
            Stage(row.stage),
            row.failures,
            self._instant(row.first_failed_at),
            self._instant(row.last_failed_at),
            self._instant(row.next_try_at),
            Quarantine(row.state),
            row.error,
        )

    async def unfinished_assets(self, *, limit: int, now: datetime) -> list[tuple[AssetKey, HoldState]]:
        """Read assets that some hold still waits for."""
        kinds = [kind for kind, asset in self._statements.shop.assets.items() if asset is not None]
        if not kinds:
            return []
        parameters = bound(now=self._own(now), asset_limit=limit, kinds=kinds)
        rows = await self._rows(self._statements.unfinished_assets(), parameters)
        return [((row.kind, row.ref), HoldState(row.state)) for row in rows]

    async def put_sweep_run(self, run: SweepRun) -> SweepRun:
        """Write a sweep run, filling in ``pending_seen`` where it is None."""
        seen = run.pending_seen
        if seen is None:
            seen = bool((await self._rows(self._statements.any_pending()))[0][0])
        row = {
            "shard": run.shard,
            "worker": run.worker,
            "started_at": self._own(run.started_at),
            "finished_at": self._own(run.finished_at),
            "pending_seen": seen,
            "due_found": run.due_found,
            "closed": run.closed,
            "error": run.error,
        }
        await self._run(insert(self._statements.own.sweep_run), [row])
        return replace(run, pending_seen=seen)
