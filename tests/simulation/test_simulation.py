"""Whole workers in a world where everything goes wrong, seed by seed. A failing seed prints how to see it again."""

import asyncio

import pytest

from tests.simulation.play import play

SEEDS = range(300)
KEPT: tuple[int, ...] = ()
"""Seeds that once failed."""


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, 10))
def test_seeds(first: int) -> None:
    for seed in range(first, first + 10):
        asyncio.run(play(seed))


@pytest.mark.parametrize("seed", KEPT)
def test_seeds_that_once_failed(seed: int) -> None:
    asyncio.run(play(seed))
