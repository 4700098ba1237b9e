"""Membership: this worker's place in the fleet and its part of the work, and what the fleet is told about its pace."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from duetime.clock import Clock
from duetime.errors import DuetimeError
from duetime.fleet import EVERYTHING
from duetime.pace import Pace
from duetime.store import Store

HEARD_WITHIN_SECONDS: Final = 0.8
"""How often it is read what the fleet is told: all obey within a second."""

_RENEWALS = 3
"""How often a lease is renewed in its time."""


@dataclass(frozen=True, slots=True)
class Seat:
    """``worker``: its name. ``lease``: how long it counts as alive without a word. ``shards``: parts of the work."""

    worker: str
    lease: timedelta
    shards: int = 8


class Membership:
    """Keeps one worker in the fleet."""

    def __init__(self, store: Store, pace: Pace, seat: Seat, *, clock: Clock) -> None:
        """Hold a lease in ``store``, and tell ``pace`` what is heard there."""
        self._store = store
        self.pace = pace
        self.part = EVERYTHING
        self._seat = seat
        self._clock = clock
        self._renew_at: float | None = None

    async def turn(self) -> None:
        """Renew the lease where it is time, and hear what there is.

        Raises:
            StoreError: the store stayed away; the pace stays as it was.
        """
        now = self._clock.monotonic()
        seat, renew = self._seat, self._renew_at is None or now >= self._renew_at
        async with self._store.transaction(write=renew) as tx:
            if renew:
                await tx.renew_lease(seat.worker, seat.lease)
            fleet = await tx.fleet()
        if renew:
            self._renew_at = now + seat.lease.total_seconds() / _RENEWALS
        self.part = fleet.part(seat.worker, seat.shards)
        self.pace.heard(fleet)

    async def look(self) -> None:
        """Hear what there is without taking a part: whoever makes a single pass does all that there is to do.

        Raises:
            StoreError: the store stayed away.
        """
        async with self._store.transaction(write=False) as tx:
            self.pace.heard(await tx.fleet())

    def mine(self, order_no: str) -> bool:
        """Say whether an order is this worker's to close."""
        return self.part.has(order_no)

    async def leave(self) -> None:
        """Give the lease back, so that the others take over its part at once."""
        self._renew_at, self.part = None, EVERYTHING
        with suppress(DuetimeError):
            async with self._store.transaction() as tx:
                await tx.end_lease(self._seat.worker)
