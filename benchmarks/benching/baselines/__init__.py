"""What duetime is measured against: the loop that a good developer would write by hand, one for each database.

Each works on one connection with the bare driver, a whole batch in each statement, and moves as little as possible
between the database and itself. Each is right: orders are locked in a statement of its own, so that a hold added by
whoever had the row before is seen; every write repeats its condition; assets are locked last, in the order of their
keys, and every count is checked. Each writes the rows that duetime writes: the order, its holds, one fact of the same
size in the same outbox, the stock.

What they leave out is what takes a product: outcomes for each order, orders that cannot close, locks held by the shop
(they wait, and may deadlock with carts), retries, an answer to a commit whose reply was lost, any other shop.
"""

from importlib import import_module
from typing import Protocol

GRACE_SECONDS = 5
"""As duetime's default."""


class Baseline(Protocol):
    """A hand-written loop on one database."""

    async def open(self, url: str) -> None:
        """Connect."""
        ...

    async def close_batch(self, size: int) -> int:
        """Close up to ``size`` due orders in one transaction; answer how many were."""
        ...

    async def aclose(self) -> None:
        """Disconnect."""
        ...


def baseline_for(kind: str) -> Baseline:
    """Make the loop for a kind of database; its driver is imported only now."""
    made: Baseline = import_module(f"{__name__}.{kind}").Loop()
    return made


def exactly(what: str, found: int, wanted: int) -> None:
    """Stop the run where a statement touched other rows than the loop had locked."""
    if found != wanted:
        raise RuntimeError(f"{what}: {found} rows instead of {wanted}")
