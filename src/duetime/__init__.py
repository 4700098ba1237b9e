"""duetime closes unpaid orders at their payment deadline: on time, exactly once, giving back what they held."""

from duetime._version import __version__
from duetime.app import Duetime, Story
from duetime.errors import (
    ConfigError,
    DuetimeError,
    InvalidInput,
    StoreConflict,
    StoreDenied,
    StoreError,
    StoreMisfit,
    StoreRefused,
    StoreUnavailable,
)
from duetime.hold import Hold, HoldState
from duetime.order import (
    AlreadyClosed,
    AlreadyPaid,
    AlreadyPlaced,
    Blocked,
    Busy,
    Closed,
    Extended,
    NeedsReview,
    NotYetDue,
    OutOfStock,
    Paid,
    Placed,
    Reason,
    Refused,
    State,
    UnknownOrder,
)
from duetime.paying import PaymentNotice
from duetime.placing import Placement
from duetime.settings import Settings, load_settings

__all__ = [
    "AlreadyClosed",
    "AlreadyPaid",
    "AlreadyPlaced",
    "Blocked",
    "Busy",
    "Closed",
    "ConfigError",
    "Duetime",
    "DuetimeError",
    "Extended",
    "Hold",
    "HoldState",
    "InvalidInput",
    "NeedsReview",
    "NotYetDue",
    "OutOfStock",
    "Paid",
    "PaymentNotice",
    "Placed",
    "Placement",
    "Reason",
    "Refused",
    "Settings",
    "State",
    "StoreConflict",
    "StoreDenied",
    "StoreError",
    "StoreMisfit",
    "StoreRefused",
    "StoreUnavailable",
    "Story",
    "UnknownOrder",
    "__version__",
    "load_settings",
]
