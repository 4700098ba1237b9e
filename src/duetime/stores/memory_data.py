"""What the model of a store keeps: rows as values, in dictionaries."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime

from duetime.event import Fact
from duetime.hold import AssetKey, HeldHold
from duetime.observation import Observation
from duetime.order import Order
from duetime.store import Failure, Line, OrderNote, Payment, Stage, SweepRun


@dataclass(frozen=True, slots=True)
class MemoryAsset:
    """One row of an asset's table: a counter's two numbers, or an instance's state and its own validity."""

    available: int = 0
    held: int = 0
    state: str | None = None
    valid_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class MemoryHold:
    """One row of ``duetime_hold``."""

    held: HeldHold
    held_at: datetime
    released_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MemoryFact:
    """One row of the outbox, with its place in it."""

    seq: int
    fact: Fact
    created_at: datetime


@dataclass(frozen=True, slots=True)
class MemoryDelivery:
    """A fact that is owed to a consumer."""

    consumer: str
    seq: int


Check = Callable[[MemoryAsset], bool]
"""A constraint of the shop on one asset's row: False refuses the write."""


def never_below_zero(row: MemoryAsset) -> bool:
    """Hold for counters what the sample shop's CHECK constraints say."""
    return row.available >= 0 and row.held >= 0


@dataclass
class MemoryData:
    """Everything that is stored. Rows are values: a copy of the containers is a copy of the data."""

    orders: dict[str, Order] = field(default_factory=dict)
    columns: dict[str, Mapping[str, object]] = field(default_factory=dict)
    assets: dict[AssetKey, MemoryAsset] = field(default_factory=dict)
    holds: dict[tuple[str, str, str], MemoryHold] = field(default_factory=dict)
    lines: dict[str, list[Line]] = field(default_factory=dict)
    notes: dict[str, OrderNote] = field(default_factory=dict)
    facts: dict[str, MemoryFact] = field(default_factory=dict)
    consumers: dict[str, frozenset[str]] = field(default_factory=dict)
    deliveries: list[MemoryDelivery] = field(default_factory=list)
    payments: dict[str, Payment] = field(default_factory=dict)
    failures: dict[tuple[str, Stage], Failure] = field(default_factory=dict)
    sweep_runs: list[SweepRun] = field(default_factory=list)
    leases: dict[str, datetime] = field(default_factory=dict)
    paused_by: str | None = None
    rate: float | None = None
    observed: dict[str, Observation] = field(default_factory=dict)
    last_id: int = 0
    last_seq: int = 0

    def fork(self) -> "MemoryData":
        """Copy the containers; the rows in them never change."""
        twin = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list):
                setattr(twin, name, value.copy())
        return twin
