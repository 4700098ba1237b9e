"""The suite of the store contract, in one class."""

from duetime.testing.suites.store_assets import AssetTests
from duetime.testing.suites.store_books import BookTests
from duetime.testing.suites.store_facts import FactTests
from duetime.testing.suites.store_holds import HoldTests
from duetime.testing.suites.store_keeping import KeepingTests
from duetime.testing.suites.store_observed import ObservedTests
from duetime.testing.suites.store_orders import OrderTests
from duetime.testing.suites.store_transactions import TransactionTests
from duetime.testing.suites.store_writes import WriteTests


class StoreSuite(
    TransactionTests,
    OrderTests,
    WriteTests,
    HoldTests,
    AssetTests,
    FactTests,
    BookTests,
    KeepingTests,
    ObservedTests,
):
    """Everything that a store promises.

    A subclass gives the asynchronous fixture ``bench``: a ``StoreBench`` with an empty store that describes the sample
    shop's order table and ``suite_assets()``, and the shop's hand on the same tables.
    """
