"""Each verb writes facts with the keys that the reference names, on every kind of store."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from duetime.event import Fact, FactType
from duetime.stores.memory import MemoryStore
from duetime.testing import ManualClock
from duetime.testing.memory_hand import MemoryShopHand
from scripts.docs_events import ASSETS, IN_ALL, LATER, WRITTEN, every_fact
from tests.support.databases import FreshDatabase
from tests.support.servers import run_apart
from tests.support.sql_bench import create_tables, sql_bench

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


async def on_memory() -> list[Fact]:
    store = MemoryStore(tuple(ASSETS.values()), ManualClock())
    return await every_fact(store, MemoryShopHand(store))


async def on_database(url: str) -> list[Fact]:
    async with sql_bench(url, locks_rows=False) as bench:
        return await every_fact(bench.store, bench.hand)


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.services),
        pytest.param("mariadb", marks=pytest.mark.services),
    ]
)
def facts(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> list[Fact]:
    """The facts that duetime wrote while each of its verbs was run."""
    if request.param == "memory":
        return asyncio.run(on_memory())
    url = fresh_database(request.param)
    run_apart(create_tables(url))
    return run_apart(on_database(url))


def test_payloads_have_the_keys_of_the_reference(facts: Sequence[Fact]) -> None:
    for fact in facts:
        assert set(fact.payload) == {*IN_ALL, *WRITTEN[fact.type].keys}, fact
        assert (fact.payload["event_id"], fact.payload["order_no"]) == (fact.event_id, fact.order_no)


def test_values_have_the_types_of_the_reference(facts: Sequence[Fact]) -> None:
    for fact in facts:
        for key, (kind, _) in {**IN_ALL, **WRITTEN[fact.type].keys}.items():
            assert fits(fact.payload[key], kind), (fact.type, key, fact.payload[key])


def test_every_type_is_either_written_or_said_not_to_be(facts: Sequence[Fact]) -> None:
    assert {fact.type for fact in facts} == set(WRITTEN)
    assert set(WRITTEN) | set(LATER) == set(FactType)
    assert not set(WRITTEN) & set(LATER)


FITS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int),
    "number": lambda value: isinstance(value, int | float),
    "instant": lambda value: isinstance(value, str) and bool(INSTANT.fullmatch(value)),
    "list of `kind`, `ref`, `quantity`": lambda value: all(set(one) == {"kind", "ref", "quantity"} for one in value),
}


def fits(value: object, kind: str) -> bool:
    """Say whether a value is what the reference calls it."""
    return (value is None and kind.endswith(" or null")) or FITS[kind.removesuffix(" or null")](value)


def test_payloads_are_plain_json(facts: Sequence[Fact]) -> None:
    for fact in facts:
        assert json.loads(json.dumps(fact.payload)) == fact.payload
