"""The fleet: all workers on one store, how they part the work, and what was said to all of them about their pace.

Who is alive is known by leases: a worker renews its own, and one that dies or freezes is left out when it ends. Orders
fall into shards by a hash of their number, so that numbers of all kinds spread, and shards into parts: of ``n`` workers
in the order of their names, the ``k``-th has every ``n``-th shard from ``k`` on. So all agree without a word, and who
comes or goes moves some shards within the time of a lease.

Nothing relies on it for correctness. While two disagree, both may try an order, and the store lets one close it; one
that nobody has for a moment is found by the next sweep of whoever has it then.
"""

from dataclasses import dataclass
from math import inf
from typing import Final
from zlib import crc32

UNLIMITED: Final = inf


@dataclass(frozen=True, slots=True)
class Fleet:
    """Who closes, and how fast they may together.

    ``workers``: those whose lease is not over, by name. ``paused_by``: who paused closing, if anybody.
    ``rate``: closes per second that somebody has said since (``UNLIMITED``); None leaves it to the config.
    """

    workers: tuple[str, ...] = ()
    paused_by: str | None = None
    rate: float | None = None

    def part(self, worker: str, shards: int) -> "Part":
        """Answer which orders are this worker's: all, where the others do not know of it."""
        if worker not in self.workers:
            return EVERYTHING
        step = len(self.workers)
        return Part(frozenset(range(self.workers.index(worker), shards, step)), shards)

    def share(self, configured: float) -> float:
        """Answer how many closes a second one worker may do: its part of what all may."""
        if self.paused_by is not None:
            return 0.0
        return (configured if self.rate is None else self.rate) / max(1, len(self.workers))


@dataclass(frozen=True, slots=True)
class Part:
    """Some of so many shards."""

    shards: frozenset[int]
    of: int

    def has(self, order_no: str) -> bool:
        """Say whether an order is in this part."""
        return len(self.shards) == self.of or crc32(order_no.encode()) % self.of in self.shards


EVERYTHING: Final = Part(frozenset({0}), 1)
