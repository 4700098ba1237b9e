"""One seed from its beginning to its judgement; many from the command line.

python -m tests.simulation.play SEED        one, with what happened
python -m tests.simulation.play FIRST LAST  many; prints the count, the seconds, and each seed that failed
"""

import asyncio
import sys
import time

from tests.simulation.events import Run
from tests.simulation.judge import misfits
from tests.simulation.world import World, tasks_belong_to_lives

SECONDS = 12.0
CALM_SECONDS = 32.0
"""Longer than a lease, a sweep and its margin, and than the pauses between the tries of what failed meanwhile."""


class Violated(AssertionError):
    """A promise was broken."""


async def play(seed: int) -> Run:
    """Let a world live and judge it.

    Raises:
        Violated: with the sentences, and the command that shows it again.
    """
    asyncio.get_running_loop().set_task_factory(tasks_belong_to_lives)
    world = World(seed)
    run = Run(world)
    try:
        await run.go(SECONDS)
        await world.calm(CALM_SECONDS)
        found = list(misfits(run))
    finally:
        await world.end()
    if found:
        again = f"python -m tests.simulation.play {seed}"
        raise Violated("\n".join([f"seed {seed}; see it again by `{again}`", *found[:20]]))
    return run


def main(arguments: list[str]) -> int:
    """Play seeds and answer how many failed."""
    first, last = int(arguments[0]), int(arguments[-1])
    began, failed, orders = time.monotonic(), 0, 0
    for seed in range(first, last + 1):
        try:
            orders += len(asyncio.run(play(seed)).numbers)
        except Violated as violated:
            failed += 1
            sys.stdout.write(f"{violated}\n")
    seconds = time.monotonic() - began
    sys.stdout.write(f"{last - first + 1} seeds, {orders} orders, {seconds:.0f} s, {failed} failed\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
