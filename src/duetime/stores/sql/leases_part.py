"""The operations on leases and on what the fleet is told, on SQL.

All of it is rows of ``duetime_lease``: one for each worker, which ends by itself, and two that last, ``pause`` with who
said so, and ``rate`` with the number.
"""

from datetime import datetime, timedelta
from typing import Final

from duetime.fleet import UNLIMITED, Fleet
from duetime.stores.sql.dialect import bound
from duetime.stores.sql.session import Session

WORKER: Final = "worker "
PAUSE: Final = "pause"
RATE: Final = "rate"
UNLIMITED_SAID: Final = "unlimited"

FORGOTTEN_AFTER: Final = timedelta(hours=1)
"""A lease that ended so long ago is removed by the next one who comes."""

_COLUMNS = ("name", "holder", "expires_at")


class LeasesPart(Session):
    """Keeps who is alive, and at what pace they close."""

    async def renew_lease(self, worker: str, lease: timedelta) -> None:
        """Say that a worker is alive for so long from now on."""
        await self._put_lease(f"{WORKER}{worker}", worker, self._opened_at + lease)

    async def end_lease(self, worker: str) -> None:
        """Say that a worker has gone; forget also those that have died long ago."""
        long_ago = self._own(self._opened_at - FORGOTTEN_AFTER)
        await self._run(self._statements.remove_lease(), bound(lease_name=f"{WORKER}{worker}"))
        names = [row.name for row in await self._rows(self._statements.old_leases(), bound(before=long_ago))]
        for name in names:
            await self._run(self._statements.remove_lease(), bound(lease_name=name))

    async def fleet(self) -> Fleet:
        """Answer who is alive, and what was said about the pace."""
        rows = await self._rows(self._statements.leases())
        lasting = {row.name: row.holder for row in rows if row.expires_at is None}
        now = self._opened_at
        alive = (row for row in rows if row.expires_at is not None and self._instant(row.expires_at) > now)
        workers = tuple(sorted(row.holder for row in alive if row.name.startswith(WORKER)))
        said = lasting.get(RATE)
        rate = UNLIMITED if said == UNLIMITED_SAID else None if said is None else float(said)
        return Fleet(workers, lasting.get(PAUSE), rate)

    async def set_pause(self, paused_by: str | None) -> None:
        """Let nothing be closed any more, on whose word; None ends it."""
        await self._say(PAUSE, paused_by)

    async def set_rate(self, rate: float | None) -> None:
        """Let all workers together close so many orders a second; None leaves it to the config."""
        await self._say(RATE, None if rate is None else UNLIMITED_SAID if rate == UNLIMITED else repr(rate))

    async def _say(self, name: str, value: str | None) -> None:
        if value is None:
            await self._run(self._statements.remove_lease(), bound(lease_name=name))
        else:
            await self._put_lease(name, value, None)

    async def _put_lease(self, name: str, holder: str, expires_at: datetime | None) -> None:
        upsert = self._statements.upsert(self._statements.own.lease, _COLUMNS, _COLUMNS[1:])
        await self._insert(upsert, [{"name": name, "holder": holder, "expires_at": self._own(expires_at)}])
