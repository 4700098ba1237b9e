"""One published suite per contract: a backend is finished when its suite is green.

Each suite is a class of asynchronous tests for pytest with pytest-asyncio. Subclass it in a test module of your own and
give it the one fixture that it names. ``docs/reference/testing.md`` shows how.
"""

import pytest

_MODULES = (
    "bench",
    "clock",
    "observer",
    "publisher",
    "store_assets",
    "store_books",
    "store_facts",
    "store_holds",
    "store_orders",
    "store_transactions",
    "store_writes",
    "trigger",
)
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

# Imported only now, so that their assertions explain themselves.
from duetime.testing.suites.bench import StoreBench, suite_assets  # noqa: E402 -- see above
from duetime.testing.suites.clock import ClockBench, ClockSuite  # noqa: E402 -- see above
from duetime.testing.suites.observer import ObserverSuite  # noqa: E402 -- see above
from duetime.testing.suites.publisher import PublisherBench, PublisherSuite  # noqa: E402 -- see above
from duetime.testing.suites.store import StoreSuite  # noqa: E402 -- see above
from duetime.testing.suites.trigger import TriggerBench, TriggerSuite  # noqa: E402 -- see above

__all__ = [
    "ClockBench",
    "ClockSuite",
    "ObserverSuite",
    "PublisherBench",
    "PublisherSuite",
    "StoreBench",
    "StoreSuite",
    "TriggerBench",
    "TriggerSuite",
    "suite_assets",
]
