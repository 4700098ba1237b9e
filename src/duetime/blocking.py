"""``Duetime`` for synchronous programs: the same calls, each returning when it is done.

One event loop runs in a thread of its own; every call is handed to it. There is no second implementation to drift.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from duetime import app
from duetime.errors import InvalidInput
from duetime.fleet import Fleet
from duetime.hold import Hold
from duetime.order import ExtendOutcome, Order, Outcome, PayOutcome, PlaceOutcome, Reason
from duetime.paying import PaymentNotice
from duetime.placing import Placement, PlacementDetails
from duetime.settings import Settings, load_settings
from duetime.store import Failure, Quarantine
from duetime.stores.sql import guest
from duetime.stores.sql.doors import ShopTransaction, needs_event_loop
from duetime.stores.sql.statements import Statements

T = TypeVar("T")


class Duetime:
    """One shop's duetime, for programs without an event loop. Use it as a context manager, or call ``close_down``."""

    def __init__(self, settings: Settings) -> None:
        """Start the thread; nothing is connected before the first call."""
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="duetime", daemon=True)
        self._thread.start()
        self._inner = self._do(_made(settings))

    @classmethod
    def from_config(cls, path: str | Path | None = None) -> Self:
        """Read the configuration: ``path``, else ``DUETIME_CONFIG``, else ``./duetime.toml``."""
        return cls(load_settings(None if path is None else Path(path)))

    def __enter__(self) -> Self:
        """Check that the database is as described."""
        try:
            self._do(self._inner.check())
        except BaseException:
            self.close_down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back all connections and end the thread."""
        self.close_down()

    def close_down(self) -> None:
        """Give back all connections and end the thread."""
        self._do(self._inner.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if os.getpid() != self._pid:
            work.close()
            raise RuntimeError(
                "this Duetime was made before a fork, and its thread stayed behind: make one in each child"
            )
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def hold(self, tx: ShopTransaction, order_no: str, holds: Sequence[Hold]) -> None:
        """Record what an order has taken, in the shop's own transaction and in this thread; see ``Duetime.hold``."""
        app.check_kinds(self._inner.settings, order_no, holds)
        _finish(guest.hold(self._statements(tx), tx, order_no, holds))

    def place(
        self,
        order_no: str,
        holds: Sequence[Hold] = (),
        *,
        tx: ShopTransaction | None = None,
        **details: Unpack[PlacementDetails],
    ) -> PlaceOutcome:
        """Place an order; see ``duetime.Duetime.place``."""
        return self.place_many([Placement(order_no, holds, **details)], tx=tx)[0]

    def place_many(self, placements: Sequence[Placement], *, tx: ShopTransaction | None = None) -> list[PlaceOutcome]:
        """Place orders, with ``tx`` in this thread; see ``duetime.Duetime.place_many``."""
        if tx is None:
            return self._do(self._inner.place_many(placements))
        return _finish(guest.place(self._statements(tx), tx, self._inner.wired.placing, placements))

    def _statements(self, tx: ShopTransaction) -> Statements:
        if needs_event_loop(tx):
            raise InvalidInput(
                f"a {type(tx).__name__} has to be awaited, which a synchronous program cannot do: use duetime.Duetime "
                "with it, or give a synchronous connection"
            )
        return self._do(self._inner.wired.store.statements())

    def close(self, order_no: str, *, reason: str = Reason.CUSTOMER, source: str | None = None) -> Outcome:
        """Close one order; see ``duetime.Duetime.close``."""
        return self._do(self._inner.close(order_no, reason=reason, source=source))

    def close_many(
        self, order_nos: Sequence[str], *, reason: str = Reason.CUSTOMER, source: str | None = None
    ) -> list[Outcome]:
        """Close orders and answer each; see ``duetime.Duetime.close_many``."""
        return self._do(self._inner.close_many(order_nos, reason=reason, source=source))

    def pay_many(self, notices: Sequence[PaymentNotice]) -> list[PayOutcome]:
        """Take payment notices and answer each; see ``duetime.Duetime.pay_many``."""
        return self._do(self._inner.pay_many(notices))

    def pay(
        self, order_no: str, *, payment_id: str, amount_minor: int, currency: str, provider: str = ""
    ) -> PayOutcome:
        """Take a payment notice; see ``duetime.Duetime.pay``."""
        notice = PaymentNotice(order_no, payment_id, amount_minor, currency, provider)
        return self._do(self._inner.pay_many([notice]))[0]

    def extend(self, order_no: str, until: datetime, *, source: str = "staff") -> ExtendOutcome:
        """Give an order time; see ``duetime.Duetime.extend``."""
        return self._do(self._inner.extend(order_no, until, source=source))

    def story(self, order_no: str) -> app.Story | None:
        """Tell everything about one order; see ``duetime.Duetime.story``."""
        return self._do(self._inner.story(order_no))

    def due(self, *, late_by: timedelta = timedelta(0), limit: int = 100) -> list[Order]:
        """List pending orders that are due; see ``duetime.Duetime.due``."""
        return self._do(self._inner.due(late_by=late_by, limit=limit))

    def failures(self, *, states: frozenset[Quarantine] | None = None, limit: int = 1000) -> list[Failure]:
        """List orders that failed; see ``duetime.Duetime.failures``."""
        return self._do(self._inner.failures(states=states, limit=limit))

    def retry(self, order_nos: Sequence[str] | None = None) -> list[Failure]:
        """Let orders out of quarantine; see ``duetime.Duetime.retry``."""
        return self._do(self._inner.retry(order_nos))

    def resolve(self, order_nos: Sequence[str], *, why: str) -> list[Failure]:
        """Take orders off the list for good; see ``duetime.Duetime.resolve``."""
        return self._do(self._inner.resolve(order_nos, why=why))

    def check(self) -> None:
        """Check that the database is as described; see ``duetime.Duetime.check``."""
        self._do(self._inner.check())

    def fleet(self) -> Fleet:
        """Answer which workers are alive; see ``duetime.Duetime.fleet``."""
        return self._do(self._inner.fleet())

    def pause(self, *, by: str = "python") -> None:
        """Let no worker close anything; see ``duetime.Duetime.pause``."""
        self._do(self._inner.pause(by=by))

    def resume(self) -> None:
        """Let the workers close again; see ``duetime.Duetime.resume``."""
        self._do(self._inner.resume())

    def set_rate(self, closes_per_second: float | None) -> None:
        """Say how many orders all workers close a second; see ``duetime.Duetime.set_rate``."""
        self._do(self._inner.set_rate(closes_per_second))

    @contextmanager
    def running(self, *, accept_backlog: bool = False) -> Iterator[Self]:
        """Run the worker beside this program while the block does; see ``duetime.Duetime.running``."""
        worker = self._inner.running(accept_backlog=accept_backlog)
        self._do(worker.__aenter__())
        try:
            yield self
        finally:
            self._do(worker.__aexit__(None, None, None))


async def _made(settings: Settings) -> app.Duetime:
    return app.Duetime(settings)


def _finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing: everything it awaits has happened when the call returns."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a synchronous transaction was awaited")
