"""How workers part the orders among them."""

from collections import Counter

import pytest

from duetime.fleet import EVERYTHING, Fleet

NUMBERS = [f"so-{n}" for n in range(4000)]


@pytest.mark.parametrize("workers, shards", [(1, 8), (2, 8), (3, 8), (8, 8), (10, 8), (2, 1), (4, 64)])
def test_each_order_is_one_worker_s_and_some_may_have_none(workers: int, shards: int) -> None:
    fleet = Fleet(tuple(f"host:{n}" for n in range(workers)))
    parts = [fleet.part(worker, shards) for worker in fleet.workers]
    owners = Counter(sum(part.has(no) for part in parts) for no in NUMBERS)
    assert owners == {1: len(NUMBERS)}
    counts = [sum(part.has(no) for no in NUMBERS) for part in parts]
    assert sum(count > 0 for count in counts) == min(workers, shards)
    if workers <= shards and shards % workers == 0:
        assert max(counts) < 1.3 * min(counts)


def test_who_is_not_known_does_everything() -> None:
    assert Fleet(("a", "b")).part("c", 8) is EVERYTHING
    assert Fleet().part("a", 8) is EVERYTHING
    assert all(EVERYTHING.has(no) for no in NUMBERS)


def test_one_that_goes_leaves_its_part_to_the_others() -> None:
    before, after = Fleet(("a", "b", "c")), Fleet(("a", "c"))
    left = [no for no in NUMBERS if before.part("b", 8).has(no)]
    assert left
    assert all(after.part("a", 8).has(no) or after.part("c", 8).has(no) for no in left)
