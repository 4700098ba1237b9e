"""The same random histories on the model and on every real store: the same outcomes, holds, assets and facts.

Each store is compared with the model, so that a server that is not there leaves the other comparisons standing.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from duetime.hold import Hold
from duetime.stores.memory import MemoryStore
from duetime.testing import ManualClock
from duetime.testing.faults import KINDS
from duetime.testing.memory_hand import MemoryShopHand
from duetime.testing.suites import StoreBench, suite_assets
from tests.support.histories import Seen, run
from tests.support.history_steps import (
    COUPONS,
    ORDERS,
    SKUS,
    Close,
    Extend,
    HandDeletes,
    HandHolds,
    HandMoves,
    HandSpoils,
    HandTakesDeadline,
    Pay,
    Place,
    ReleaseOnce,
    RetryOnce,
    Step,
    SweepOnce,
    TimePasses,
    WhileLocked,
    WithFault,
)
from tests.support.servers import MariaDBServer, PostgreSQLServer, run_apart
from tests.support.sql_bench import cleared, create_tables, filled_database, sql_bench

EXAMPLES, EXAMPLES_LONG, STEPS = 8, 400, 18

order = st.sampled_from(ORDERS)
some_orders = st.lists(order, min_size=1, max_size=4, unique=True).map(tuple)
hold = st.one_of(
    st.builds(Hold, st.just("stock"), st.sampled_from(SKUS), st.integers(1, 5)),
    st.builds(Hold, st.just("coupon"), st.sampled_from(COUPONS)),
    st.builds(Hold, st.just("points"), st.just("member-1"), st.integers(1, 100)),
)
place = st.builds(
    Place, some_orders, st.lists(hold, max_size=3).map(tuple), st.sampled_from([None, "seckill", "unknown"])
)
pay = st.builds(
    Pay, st.lists(order, min_size=1, max_size=2).map(tuple), st.integers(1, 2), st.sampled_from([1990, 1990, 1990, 5])
)
close = st.builds(Close, some_orders, st.sampled_from(["timeout", "timeout", "customer"]))
extend = st.builds(Extend, order, st.sampled_from([-1, 11, 45, 200]))
verbs = st.one_of(place, pay, close, close, extend, st.builds(SweepOnce))
time = st.builds(TimePasses, st.sampled_from([7, 35, 70]))
hand = st.one_of(
    st.builds(HandHolds, order, st.sampled_from(SKUS)),
    st.builds(HandHolds, order, st.sampled_from(SKUS)),
    st.builds(HandMoves, order, st.sampled_from(["paid", "closed", "on hold by hand"])),
    st.builds(HandMoves, order, st.just("shipped"), st.just("paid")),
    st.builds(HandDeletes, order),
    st.builds(HandTakesDeadline, order),
    st.builds(HandHolds, order, st.sampled_from(SKUS)),
)
spoils = st.builds(HandSpoils, st.sampled_from(SKUS + COUPONS), st.sampled_from(["delete", "forget", "more"]))
faulty = st.builds(WithFault, verbs, st.integers(0, 14), st.sampled_from(KINDS))
asset = st.one_of(
    st.tuples(st.just("stock"), st.sampled_from(SKUS)), st.tuples(st.just("coupon"), st.sampled_from(COUPONS))
)
some_assets = st.lists(asset, min_size=1, max_size=4, unique=True).map(tuple)
everybody = st.just(Close(ORDERS))
locks = st.one_of(
    # Closing at the deadline waits for nothing; people are waited for, so only assets are locked for them.
    st.builds(WhileLocked, st.lists(order, max_size=2, unique=True).map(tuple), some_assets, everybody, st.just(70)),
    st.builds(
        WhileLocked, st.just(()), some_assets, st.one_of(pay, st.builds(Close, some_orders, st.just("customer")))
    ),
)
work = st.one_of(st.builds(ReleaseOnce), st.builds(RetryOnce))
anything = st.one_of(verbs, verbs, verbs, time, time, hand, spoils, faulty, faulty, work)


def after_placing(steps: st.SearchStrategy[object]) -> st.SearchStrategy[Sequence[object]]:
    """Let a history open with orders being placed: without any, little can happen."""
    opening = st.lists(place, min_size=2, max_size=4)
    rest = st.lists(steps, min_size=STEPS - 4, max_size=STEPS)
    return st.builds(lambda first, second: [*first, *second], opening, rest)


histories = after_placing(anything)
locking_histories = after_placing(st.one_of(anything, anything, locks))

USUAL: Any = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
}

Steps = Sequence[Any]
Compare = Callable[[Steps], None]


async def on_the_model(history: Sequence[Step]) -> list[Seen]:
    store = MemoryStore(suite_assets(), ManualClock())
    return await run(StoreBench(store, MemoryShopHand(store)), history)


@contextmanager
def comparing(url: str, *, locks_rows: bool) -> Iterator[Compare]:
    """Give a function that runs a history on the model and on the database, on the same connections each time."""
    with asyncio.Runner() as runner:
        opening = sql_bench(url, locks_rows=locks_rows)
        bench = runner.run(opening.__aenter__())

        def compare(history: Steps) -> None:
            expected = runner.run(on_the_model(history))
            found = runner.run(run(runner.run(cleared(bench)), history))
            for (step, *there), (_, *here) in zip(expected, found, strict=True):
                assert here == there, step

        yield compare
        runner.run(opening.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compare]:
    url = f"sqlite:///{tmp_path_factory.mktemp('histories') / 'shop.db'}"
    run_apart(create_tables(url))
    with comparing(url, locks_rows=False) as compare:
        yield compare


@pytest.fixture(scope="module")
def postgresql(postgresql_server: PostgreSQLServer) -> Iterator[Compare]:
    with filled_database(postgresql_server) as url, comparing(url, locks_rows=True) as compare:
        yield compare


@pytest.fixture(scope="module")
def mariadb(mariadb_server: MariaDBServer) -> Iterator[Compare]:
    with filled_database(mariadb_server) as url, comparing(url, locks_rows=True) as compare:
        yield compare


def few(function: Callable[..., None]) -> Callable[..., None]:
    """The same few histories in every run of CI, as they are: `make test-long` looks for new ones and shrinks them."""
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    return settings(max_examples=EXAMPLES, derandomize=True, phases=phases, **USUAL)(function)


def many(function: Callable[..., None]) -> Callable[..., None]:
    """New histories in every run; a failing one is printed so that it can be repeated."""
    return settings(max_examples=EXAMPLES_LONG, print_blob=True, **USUAL)(function)


@few
@given(histories)
def test_sqlite_does_what_the_model_does(sqlite: Compare, history: Steps) -> None:
    sqlite(history)


@few
@given(locking_histories)
def test_postgresql_does_what_the_model_does(postgresql: Compare, history: Steps) -> None:
    postgresql(history)


@few
@given(locking_histories)
def test_mariadb_does_what_the_model_does(mariadb: Compare, history: Steps) -> None:
    mariadb(history)


@settings(max_examples=150, derandomize=True, phases=[Phase.generate], **USUAL)
@given(locking_histories)
def test_the_model_keeps_its_promises(history: Steps) -> None:
    asyncio.run(on_the_model(history))


@pytest.mark.long
@pytest.mark.timeout(3600)
@many
@given(histories)
def test_sqlite_does_what_the_model_does_in_many_histories(sqlite: Compare, history: Steps) -> None:
    sqlite(history)


@pytest.mark.long
@pytest.mark.timeout(3600)
@many
@given(locking_histories)
def test_postgresql_does_what_the_model_does_in_many_histories(postgresql: Compare, history: Steps) -> None:
    postgresql(history)


@pytest.mark.long
@pytest.mark.timeout(3600)
@many
@given(locking_histories)
def test_mariadb_does_what_the_model_does_in_many_histories(mariadb: Compare, history: Steps) -> None:
    mariadb(history)
