"""Builds that are broken on purpose, and the promise whose breach the simulation must find in each.

python -m tests.simulation.mutations     breaks one after the other; prints at which seed each was found out
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from duetime.closing import Closing
from duetime.fleet import Part
from duetime.hold import Effect
from duetime.order import State
from duetime.releasing import Releasing
from duetime.retrying import Failures
from duetime.stores.memory import MemoryTransaction
from duetime.sweep import Sweep
from tests.simulation.play import Violated, play

SEEDS_AT_MOST = 60


@dataclass(frozen=True)
class Mutation:
    """``breaks``: the promise by its number."""

    name: str
    breaks: str
    owner: type
    method: str
    wrong: Callable[..., Any]

    @contextmanager
    def applied(self) -> Iterator[None]:
        right = getattr(self.owner, self.method)
        wrong = self.wrong

        def instead(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the method takes
            return wrong(right, *args, **kwargs)

        with patch.object(self.owner, self.method, instead):
            yield


def _no_grace(right: Any, closing: Any, store: Any, options: Any, **more: Any) -> None:  # noqa: ANN401 - as above
    right(closing, store, replace(options, grace=timedelta(0)), **more)


async def _reopens(right: Any, tx: Any, order_nos: Any, **how: Any) -> Any:  # noqa: ANN401 - as above
    """Take an order that was closed for one that is pending still, as a stale read would."""
    for number in order_nos if how.get("pending", True) else ():
        order = tx.data.orders.get(number)
        if order is not None and order.state is State.CLOSED:
            tx.data.orders[number] = replace(order, state=State.PENDING)
    return await right(tx, order_nos, **how)


async def _twice(right: Any, tx: Any, kind: Any, units: Any, effect: Any) -> None:  # noqa: ANN401 - as above
    await right(tx, kind, units, effect)
    if effect is Effect.RELEASE:
        await right(tx, kind, units, effect)


async def _half(right: Any, tx: Any, kind: Any, units: Any, effect: Any) -> None:  # noqa: ANN401 - as above
    kept = {ref: (count + 1) // 2 if effect is Effect.RELEASE else count for ref, count in units.items()}
    await right(tx, kind, kept, effect)


async def _nothing_given_back(_right: Any, _releasing: Any) -> tuple[int, int]:  # noqa: ANN401 - as above
    return 0, 0


async def _no_sweep(_right: Any, sweep: Any, *_: Any) -> Any:  # noqa: ANN401 - as above
    return sweep


async def _not_written_down(_right: Any, _failures: Any, _stage: Any, _errors: Any) -> list[Any]:  # noqa: ANN401 - as above
    return []


def _nobody_has_the_last_shard(right: Any, part: Any, order_no: str) -> bool:  # noqa: ANN401 - as above
    return bool(right(part, order_no)) and not Part(frozenset({7}), 8).has(order_no)


MUTATIONS = (
    Mutation("closing forgets the grace", "G1", Closing, "__init__", _no_grace),
    Mutation("an order that has ended is closed again", "G2", MemoryTransaction, "lock_orders", _reopens),
    Mutation("units are given back twice", "G3", MemoryTransaction, "change_assets", _twice),
    Mutation("half of the units is given back", "G3", MemoryTransaction, "change_assets", _half),
    Mutation("what was locked is never given back", "G3", Releasing, "run_once", _nothing_given_back),
    Mutation("there is no sweep", "G4", Sweep, "run_once", _no_sweep),
    Mutation("a shard is nobody's", "G4", Part, "has", _nobody_has_the_last_shard),
    Mutation("what failed is not written down", "G7", Failures, "note", _not_written_down),
)


def found_out(mutation: Mutation) -> tuple[int, str] | None:
    """Answer the first seed that shows the breach, and its sentence."""
    for seed in range(SEEDS_AT_MOST):
        with mutation.applied():
            try:
                asyncio.run(play(seed))
            except Violated as violated:
                sentences = [line for line in str(violated).splitlines() if line.startswith(mutation.breaks)]
                if sentences:
                    return seed, sentences[0]
    return None


def main() -> int:
    """Break everything in turn; answer how many were not found out."""
    missed = 0
    for mutation in MUTATIONS:
        found = found_out(mutation)
        missed += found is None
        said = "NOT FOUND OUT" if found is None else f"seed {found[0]}: {found[1]}"
        sys.stdout.write(f"{mutation.breaks} {mutation.name}: {said}\n")
        sys.stdout.flush()
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
