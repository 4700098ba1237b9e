"""``Duetime``: what a shop's program calls."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from duetime.clock import Clock
from duetime.closing import CloseRequest
from duetime.errors import ConfigError, InvalidInput
from duetime.event import Fact, instant_json
from duetime.extending import Extension
from duetime.fleet import Fleet
from duetime.hold import HeldHold, Hold, HoldState
from duetime.observer import Observer
from duetime.order import ExtendOutcome, Order, Outcome, PayOutcome, PlaceOutcome, Reason, State, checked_name, matched
from duetime.paying import PaymentNotice
from duetime.placing import Placement, PlacementDetails
from duetime.retrying import WAITING
from duetime.settings import Settings, load_settings
from duetime.store import DueQuery, Failure, FailureQuery, OrderNote, Payment, Quarantine, Stage
from duetime.stores.sql import guest
from duetime.stores.sql.doors import ShopTransaction
from duetime.sweep import FORGOTTEN_AFTER, Backlog
from duetime.wiring import Wired, wire

NAMED_AT_MOST = 5
"""Orders that a refusal names."""


@dataclass(frozen=True, slots=True)
class Story:
    """Everything that is known about one order."""

    order: Order
    note: OrderNote | None
    holds: tuple[HeldHold, ...]
    facts: tuple[Fact, ...]
    payments: tuple[Payment, ...]
    failures: tuple[Failure, ...]
    payable: bool
    seconds_left: float | None


class Duetime:
    """One shop's duetime. Use it as an async context manager, or call ``aclose`` at the end."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None, observers: Sequence[Observer] = ()) -> None:
        """Make everything; nothing is connected before the first call.

        Raises:
            ConfigError: the database's driver is not installed.
        """
        self.settings = settings
        self.wired: Wired = wire(settings, clock=clock, observers=tuple(observers))

    @classmethod
    def from_config(cls, path: str | Path | None = None, *, observers: Sequence[Observer] = ()) -> Self:
        """Read the configuration: ``path``, else ``DUETIME_CONFIG``, else ``./duetime.toml``.

        Raises:
            ConfigError: something in it is wrong; every problem in a sentence.
        """
        return cls(load_settings(None if path is None else Path(path)), observers=observers)

    async def __aenter__(self) -> Self:
        """Check that the database is as described.

        Raises:
            ConfigError: it is not; every misfit in a sentence.
        """
        try:
            await self.check()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back all connections."""
        await self.aclose()

    async def check(self) -> None:
        """Look at the server's version, the described tables, and duetime's own.

        Raises:
            ConfigError: something does not fit; every misfit in a sentence.
        """
        await self.wired.store.check()

    async def aclose(self) -> None:
        """Give back all connections."""
        await self.wired.service.aclose()
        await self.wired.store.aclose()

    async def hold(self, tx: ShopTransaction, order_no: str, holds: Sequence[Hold]) -> None:
        """Record what an order has taken, inside the shop's own transaction, after its order row was inserted.

        The units themselves are taken by the shop, as it always did; this remembers what to give back. ``tx`` is
        the shop's own: a SQLAlchemy AsyncConnection, AsyncSession, Connection or Session, Django's connection inside
        ``transaction.atomic``, or a connection or cursor of psycopg, psycopg2, PyMySQL, mysqlclient or sqlite3 that is
        not in autocommit. A synchronous one keeps the event loop waiting while it works.

        Raises:
            InvalidInput: the order is not there or not pending, or holds one of these assets already (nothing was
                written, and the transaction may go on); or ``tx`` has no transaction on this kind of database.
            StoreConflict: the database has given the transaction up for another one: run it again from its beginning.
        """
        check_kinds(self.settings, order_no, holds)
        self._refuse_to_write(f"hold for order {order_no}")
        await guest.hold(await self.wired.store.statements(), tx, order_no, holds)

    async def place(
        self,
        order_no: str,
        holds: Sequence[Hold] = (),
        *,
        tx: ShopTransaction | None = None,
        **details: Unpack[PlacementDetails],
    ) -> PlaceOutcome:
        """Place an order: take what it holds, or say what is out of stock; the deadline comes from ``[timeouts]``.

        With ``tx``, the shop's own transaction (as in ``hold``), everything is written there, to be committed or
        rolled back with whatever else the shop does; without, in a transaction of its own.
        ``details``: ``category`` (chooses the time-out), ``amount_minor``, ``currency``, and ``columns``, a mapping of
        further columns of the shop's table.

        Raises:
            InvalidInput: a name that cannot be stored, a quantity that is not above zero, a kind nobody described.
        """
        return (await self.place_many([Placement(order_no, holds, **details)], tx=tx))[0]

    async def place_many(
        self, placements: Sequence[Placement], *, tx: ShopTransaction | None = None
    ) -> list[PlaceOutcome]:
        """Place orders in one transaction, the shop's own where ``tx`` is; one short of stock hurts no other."""
        self._refuse_to_write("place", [one.order_no for one in placements])
        if tx is None:
            return await self.wired.placing.place(placements)
        return await guest.place(await self.wired.store.statements(), tx, self.wired.placing, placements)

    async def close(self, order_no: str, *, reason: str = Reason.CUSTOMER, source: str | None = None) -> Outcome:
        """Close one order: ``reason`` customer, staff or payment_failed at once, timeout only if it is due."""
        return (await self.close_many([order_no], reason=reason, source=source))[0]

    async def close_many(
        self, order_nos: Sequence[str], *, reason: str = Reason.CUSTOMER, source: str | None = None
    ) -> list[Outcome]:
        """Close orders and answer each.

        Raises:
            InvalidInput: a number that cannot be stored, or a reason that does not exist.
        """
        if reason not in set(Reason):
            raise InvalidInput(f"an order cannot be closed for {reason!r}; the reasons are {', '.join(Reason)}")
        by = source or ("api" if reason == Reason.TIMEOUT else str(reason))
        checked_name(by, "the source of a close")
        self._refuse_to_write("close", order_nos)
        requests = [CloseRequest(checked_name(order_no, "an order number"), reason, by) for order_no in order_nos]
        return await self.wired.retrying.close(requests)

    async def pay(
        self, order_no: str, *, payment_id: str, amount_minor: int, currency: str, provider: str = ""
    ) -> PayOutcome:
        """Take a payment notice; the same ``payment_id`` again gets the same answer."""
        return (await self.pay_many([PaymentNotice(order_no, payment_id, amount_minor, currency, provider)]))[0]

    async def pay_many(self, notices: Sequence[PaymentNotice]) -> list[PayOutcome]:
        """Take payment notices and answer each."""
        self._refuse_to_write("take a payment for", [notice.order_no for notice in notices])
        return await self.wired.paying.pay(notices)

    async def extend(self, order_no: str, until: datetime, *, source: str = "staff") -> ExtendOutcome:
        """Give an order time until ``until``, counted and capped.

        Raises:
            InvalidInput: ``until`` has no time zone, or has passed already by the store's clock.
        """
        self._refuse_to_write("extend", [order_no])
        return (await self.wired.extending.extend([Extension(order_no, until, source)]))[0]

    async def story(self, order_no: str) -> Story | None:
        """Tell everything that is known about one order; None where there is no such order."""
        async with self.wired.store.transaction(write=False) as tx:
            found = matched([order_no], await tx.find_orders([checked_name(order_no, "an order number")]))
            order = found.get(order_no)
            if order is None:
                return None
            number, now = order.order_no, await tx.now()
            notes = await tx.find_notes([number])
            payable = order.state in {State.PENDING, State.CLOSING}
            return Story(
                order=order,
                note=notes.get(number),
                holds=tuple(await tx.read_holds([number], HoldState)),
                facts=tuple(await tx.find_facts(order_no=number)),
                payments=tuple(await tx.find_payments(number)),
                failures=tuple(await tx.find_failures(FailureQuery([number]))),
                payable=payable,
                seconds_left=_seconds_left(order, now) if payable else None,
            )

    async def due(self, *, late_by: timedelta = timedelta(0), limit: int = 100) -> list[Order]:
        """List pending orders whose deadline and grace passed at least ``late_by`` ago, oldest first."""
        async with self.wired.store.transaction(write=False) as tx:
            due_by = await tx.now() - self.settings.timeouts.grace - late_by
            return await tx.due_page(DueQuery(due_by, limit))

    async def failures(self, *, states: frozenset[Quarantine] | None = None, limit: int = 1000) -> list[Failure]:
        """List orders that failed to close or to give back, in these states (None: those that still wait)."""
        async with self.wired.store.transaction(write=False) as tx:
            return await tx.find_failures(FailureQuery(None, states or WAITING, limit=limit))

    async def retry(self, order_nos: Sequence[str] | None = None) -> list[Failure]:
        """Let orders (None: all) out of quarantine, to be tried again at once by a running worker."""
        self._refuse_to_write("try again", order_nos)
        failures = self.wired.failures
        return await failures.retry(order_nos, Stage.CLOSE) + await failures.retry(order_nos, Stage.RELEASE)

    async def resolve(self, order_nos: Sequence[str], *, why: str) -> list[Failure]:
        """Take orders off the list for good: a person has settled them, and says how."""
        self._refuse_to_write("resolve", order_nos)
        failures = self.wired.failures
        closed = await failures.resolve(order_nos, Stage.CLOSE, why)
        return closed + await failures.resolve(order_nos, Stage.RELEASE, why)

    async def fleet(self) -> Fleet:
        """Answer which workers are alive, and what was said about their pace."""
        async with self.wired.store.transaction(write=False) as tx:
            return await tx.fleet()

    async def pause(self, *, by: str = "python") -> None:
        """Let no worker close anything for its deadline, from within a second on until ``resume``.

        Customers can pay and cancel, and what was closed is given back. ``by``: who says so, for others to see.
        """
        self._refuse_to_write("pause")
        checked_name(by, "who pauses")
        async with self.wired.store.transaction() as tx:
            await tx.set_pause(by)

    async def resume(self) -> None:
        """Let the workers close again, within a second."""
        self._refuse_to_write("resume")
        async with self.wired.store.transaction() as tx:
            await tx.set_pause(None)

    async def set_rate(self, closes_per_second: float | None) -> None:
        """Let all workers together close so many orders a second (``math.inf``: any); None leaves it to the config.

        Raises:
            InvalidInput: it is not above zero.
        """
        self._refuse_to_write("set the rate")
        if closes_per_second is not None and not closes_per_second > 0:
            raise InvalidInput(f"a rate is above zero, found {closes_per_second:g}; `duetime pause` closes nothing")
        async with self.wired.store.transaction() as tx:
            await tx.set_rate(closes_per_second)

    def _refuse_to_write(self, what: str, order_nos: Sequence[str] | None = ()) -> None:
        """Refuse what observe mode does not do.

        Raises:
            InvalidInput: ``closing.mode`` is observe.
        """
        if not self.settings.closing.observes:
            return
        named = ", ".join((order_nos or ())[:NAMED_AT_MOST])
        which = "what failed" if order_nos is None else f"order {named}" if named else ""
        raise InvalidInput(
            f'will not {f"{what} {which}".strip()}: closing.mode is "observe", in which duetime only watches and '
            'writes nothing to the shop; let the shop do it, or set closing.mode = "close"'
        )

    async def refuse_backlog(self) -> None:
        """Keep a first run from closing what was forgotten long ago; observe mode closes nothing and is not asked.

        Raises:
            ConfigError: nothing was ever swept here, and some orders are due for more than seven days.
        """
        if self.settings.closing.observes:
            return
        backlog = await self.wired.sweep.forgotten()
        if backlog is None:
            return
        async with self.wired.store.transaction(write=False) as tx:
            now = await tx.now()
        raise ConfigError([_too_old(backlog, now, self.settings.closing.not_before)])

    @asynccontextmanager
    async def running(self, *, accept_backlog: bool = False) -> AsyncIterator[Self]:
        """Run the worker inside this process while the block does.

        Raises:
            ConfigError: the database is not as described; or this is the first run ever, some orders are due for more
                than seven days, and ``accept_backlog`` does not say that they may all be closed.
        """
        await self.check()
        if not accept_backlog:
            await self.refuse_backlog()
        async with self.wired.service.running():
            yield self


def _too_old(backlog: Backlog, now: datetime, not_before: datetime | None) -> str:
    counted = "" if not_before is None else f" (not counted: older than closing.not_before, {instant_json(not_before)})"
    months = ", ".join(f"{month}: {count:,}" for month, count in sorted(backlog.by_month.items()))
    week_ago = (now - FORGOTTEN_AFTER).replace(microsecond=0)
    count = (
        f"{backlog.orders:,}{' or more' if backlog.more else ''} {'order is' if backlog.orders == 1 else 'orders are'}"
    )
    return (
        f"closing.not_before: nothing was ever swept here, and {count} due, the oldest since "
        f"{backlog.oldest:%Y-%m-%d}{counted}; a first run would close them all. "
        f"By the month of their deadline (UTC): {months}. "
        "Look first with `duetime sweep --dry-run`. Then either set "
        f'closing.not_before = "{instant_json(week_ago)}" (older ones are listed, never closed), or close them all '
        "with --accept-backlog (in Python: running(accept_backlog=True))"
    )


def check_kinds(settings: Settings, order_no: str, holds: Sequence[Hold]) -> None:
    """Refuse to hold for a number that cannot be stored, or what ``[[assets]]`` does not describe.

    Raises:
        InvalidInput: naming the order and the kinds.
    """
    checked_name(order_no, "an order number")
    unknown = sorted({one.kind for one in holds} - {asset.kind for asset in settings.assets})
    if unknown:
        raise InvalidInput(f"order {order_no} holds {', '.join(unknown)}, which [[assets]] does not describe")


def _seconds_left(order: Order, now: datetime) -> float | None:
    return None if order.expire_at is None else max(0.0, (order.expire_at - now).total_seconds())
