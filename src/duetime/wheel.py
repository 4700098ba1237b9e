"""A hierarchical timing wheel: what is due when, for very many things at once.

The algorithm is scheme 7 of Varghese and Lauck, *Hashed and Hierarchical Timing Wheels* (SOSP 1987): a row of slots for
the next ticks, a row of slots each as long as the whole first row, and so on. A thing is put into the row of the
highest digit in which its tick differs from the present one, so that a row holds only slots that are still to come, and
the first occupied slot of the lowest occupied row is the next one. When a higher slot is reached, what it holds moves
down; a thing moves at most once per row.

=======================  =====================================================================================
operation                cost
=======================  =====================================================================================
put, discard             constant, for each thing
next_at                  one look at each row: occupied slots are the bits of a number
advance                  each thing that fires, plus one move per row over its whole life; empty time is skipped
memory                   one entry of a dictionary and one of a list for each thing
=======================  =====================================================================================

Replaced and discarded things stay in their slot until it is reached, and are passed over there.
"""

import heapq
from collections.abc import Hashable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

BITS = 6
ROWS = 8
_SLOT_MASK = (1 << BITS) - 1
LATEST = (1 << BITS * ROWS) - 1
"""The last tick that a wheel can hold; in milliseconds since 1970 that is the year 10889."""

TICK = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

K = TypeVar("K", bound=Hashable)


def tick_of(instant: datetime) -> int:
    """Answer the first whole tick since 1970 that is not before an instant."""
    return -((_EPOCH - instant) // TICK)


def ticks_passed(instant: datetime) -> int:
    """Answer how many whole ticks since 1970 have passed at an instant."""
    return (instant - _EPOCH) // TICK


def seconds_until(tick: int | None, now: datetime, longest: float = 3600.0) -> float:
    """Answer how long to wait for a tick (None: none is awaited), at most ``longest`` seconds."""
    return longest if tick is None else min(max(0.0, (_EPOCH + tick * TICK - now).total_seconds()), longest)


class Wheel(Generic[K]):
    """Keys and the whole ticks at which they are due. A key is in it once; ``put`` again replaces its tick."""

    def __init__(self, now: int = 0) -> None:
        """Begin at tick ``now``."""
        self._now = now
        self._due: dict[K, int] = {}
        self._overdue: list[tuple[int, int, K]] = []
        """Things that were put in late, in order; numbers keep keys from being compared."""
        self._number = 0
        self._rows: list[list[list[tuple[int, K]]]] = [[[] for _ in range(1 << BITS)] for _ in range(ROWS)]
        self._occupied = [0] * ROWS

    def __len__(self) -> int:
        """Answer how many keys are in it."""
        return len(self._due)

    def __contains__(self, key: K) -> bool:
        """Say whether the key is in it."""
        return key in self._due

    def at(self, key: K) -> int | None:
        """Answer the tick at which the key is due, or None."""
        return self._due.get(key)

    def put(self, items: Iterable[tuple[K, int]]) -> None:
        """Add keys, or move them; what is due at or before the present tick fires with the next ``advance``."""
        for key, tick in items:
            at = min(tick, LATEST)
            if self._due.get(key) != at:
                self._due[key] = at
                self._place(at, key)

    def discard(self, keys: Iterable[K]) -> None:
        """Take keys out; unknown ones are ignored."""
        for key in keys:
            self._due.pop(key, None)

    def next_at(self) -> int | None:
        """Answer a tick before which nothing is due; None where nothing is in it.

        It may be earlier than the first thing: then ``advance`` to it fires nothing, and the next answer is nearer.
        """
        if not self._due:
            return None
        if self._overdue:
            return self._overdue[0][0]
        found = self._next_slot()
        return None if found is None else found[2]

    def advance(self, now: int) -> list[K]:
        """Answer what is due at or before ``now``, earliest first, and take it out.

        Where ``now`` went back, what is put in meanwhile waits for its own tick all the same.
        """
        fired: list[K] = []
        while self._overdue and self._overdue[0][0] <= now:
            self._fire([heapq.heappop(self._overdue)[::2]], fired)
        while (found := self._next_slot()) is not None and found[2] <= now:
            row, slot, self._now = found
            entries, self._rows[row][slot] = self._rows[row][slot], []
            self._occupied[row] &= ~(1 << slot)
            if row == 0:
                self._fire(entries, fired)
            else:
                self._move_down(entries, fired)
        self._now = max(self._now, now)
        return fired

    def _fire(self, entries: Iterable[tuple[int, K]], fired: list[K]) -> None:
        for tick, key in entries:
            if self._due.get(key) == tick:
                del self._due[key]
                fired.append(key)

    def _move_down(self, entries: Iterable[tuple[int, K]], fired: list[K]) -> None:
        for tick, key in entries:
            if self._due.get(key) != tick:
                continue
            if tick == self._now:
                del self._due[key]
                fired.append(key)
            else:
                self._place(tick, key)

    def _place(self, tick: int, key: K) -> None:
        if tick <= self._now:
            self._number += 1
            heapq.heappush(self._overdue, (tick, self._number, key))
            return
        row = ((tick ^ self._now).bit_length() - 1) // BITS
        slot = (tick >> BITS * row) & _SLOT_MASK
        self._rows[row][slot].append((tick, key))
        self._occupied[row] |= 1 << slot

    def _next_slot(self) -> tuple[int, int, int] | None:
        """Answer row, slot and first tick of the next occupied slot."""
        for row, occupied in enumerate(self._occupied):
            if occupied:
                slot = (occupied & -occupied).bit_length() - 1
                above = self._now >> BITS * (row + 1) << BITS * (row + 1)
                return row, slot, above | slot << BITS * row
        return None
