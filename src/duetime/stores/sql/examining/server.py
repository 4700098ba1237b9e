"""The server: is it there, new enough, writable; and do our sessions have what closing relies on."""

from datetime import timedelta
from typing import Any, Final

from sqlalchemy import text

from duetime.clock import Clock
from duetime.doctor import Found, failed, ok, warning
from duetime.errors import StoreDenied, StoreError
from duetime.stores.sql.dialect import IDLE_SECONDS
from duetime.stores.sql.examining.desk import Desk, Terms
from duetime.stores.sql.store import SqlStore

CLOCKS_APART: Final = timedelta(seconds=1)

_SESSION: Final = {
    "postgresql": "SELECT current_setting('transaction_isolation'), "
    "extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval)",
    "mariadb": "SELECT lower(replace(@@session.tx_isolation, '-', ' ')), @@session.idle_transaction_timeout",
    "mysql": "SELECT lower(replace(@@session.transaction_isolation, '-', ' ')), @@session.wait_timeout",
}
_TRANSACTION: Final = {
    "postgresql": "SELECT pg_backend_pid(), transaction_timestamp()",
    "mysql": "SELECT connection_id(), @@session.autocommit",
}
"""The same for every statement of one transaction."""


class ServerDesk(Desk):
    """Asks about the server itself."""

    def __init__(self, store: SqlStore, terms: Terms, clock: Clock) -> None:
        """Compare the server's clock with ``clock``, this process's."""
        super().__init__(store, terms)
        self._clock = clock

    async def reachable(self) -> Found:
        """See that it answers."""
        try:
            await self._one("SELECT 1")
        except StoreDenied as error:
            return failed(
                f"{self._store.address} answers, and refuses this account: {' '.join(str(error).split())}",
                "see the user, the password and the database in store.url; `duetime sql grants`, asked by somebody who "
                "may, prints the rights that this account needs",
            )
        except StoreError as error:
            words = " ".join(str(error).split())
            return failed(
                f"{self._store.address} does not answer: {words}",
                "see that the server runs, that store.url names it, and that this account may connect",
            )
        return ok(f"{self._store.address} answers")

    async def version(self) -> Found:
        """Compare with the oldest that will do."""
        server, found, oldest = await self._store.versions()
        numbers, least = (".".join(map(str, version)) for version in (found, oldest))
        if found and found < oldest:
            return failed(f"{server} {numbers}", f"{least} is the oldest that duetime works on: upgrade the server")
        return ok(f"{server} {numbers}")

    async def primary(self) -> Found:
        """See that it takes writes."""
        why = await self._store.read_only()
        if why:
            return failed(f"nothing can be written here: {why}", "name the primary server in store.url")
        return ok("it takes writes")

    async def session(self) -> Found:
        """See what isolation and what bound on idleness our transactions really have."""
        if self._dialect == "sqlite":
            return ok("SQLite has one writer at a time, and cannot end the transaction of a frozen process")
        async with self._store.plain_connection(write=True) as connection:
            kind = "mariadb" if getattr(connection.dialect, "is_mariadb", False) else self._dialect
            same = text(_TRANSACTION[self._dialect])
            first, second = [tuple((await connection.execute(same)).one()) for _ in range(2)]
            isolation, idle = (await connection.execute(text(_SESSION[kind]))).one()
        if first != second or (self._dialect == "mysql" and first[1]):
            return failed(
                "each statement of a transaction of ours is one by itself",
                "a proxy in between hands statements to different sessions, or commits each: connect directly",
            )
        seconds = float(idle)
        if isolation != "read committed":
            return failed(
                f"our transactions are {isolation}",
                "a proxy in between keeps what duetime sets for its session: let it through, or connect directly",
            )
        if not 0 < seconds <= IDLE_SECONDS:
            return warning(
                f"our transactions may stand still for {_seconds(seconds)}",
                f"a frozen process would keep the shop's rows; a proxy keeps duetime from setting {IDLE_SECONDS} s",
            )
        return ok(f"read committed; a transaction of ours that stands still is ended after {seconds:g} s")

    async def clock(self) -> Found:
        """Compare the two clocks, by the middle of the question."""
        if self._dialect == "sqlite":
            return ok("SQLite has no clock of its own")
        asked = self._clock.now()
        async with self._store.plain_connection() as connection:
            await self._store.dialect.clock(connection)
            asked = self._clock.now()
            there = await self._store.dialect.clock(connection)
            answered = self._clock.now()
        offset = there - (asked + (answered - asked) / 2)
        words = f"the server's clock is {abs(offset).total_seconds():.3f} s {_way(offset)} this machine's"
        if abs(offset) > CLOCKS_APART:
            return warning(words, "the server's decides; let both follow the same time servers")
        return ok(words)


def _way(offset: timedelta) -> str:
    return "ahead of" if offset >= timedelta(0) else "behind"


def _seconds(seconds: Any) -> str:  # noqa: ANN401 - a number as the server gave it
    return f"{seconds:g} s" if seconds else "as long as they like"
