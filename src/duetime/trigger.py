"""What duetime needs from a trigger: somebody who says *look at this order now*.

A trigger may be early, late, silent, or say the same thing twice: it suggests, the store decides. What it may not do
is forget that it was not answered. A signal stays owed until it is settled, and comes again where it is not.

How Redis, RabbitMQ and RocketMQ fulfil this is worked through in ``docs/decisions/0002-trigger-contract.md``.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol


class Purpose(StrEnum):
    """What a signal is for: so that a reminder never overwrites a close."""

    CLOSE = "close"
    REMIND = "remind"


@dataclass(frozen=True, slots=True)
class Arming:
    """Ask for a signal about ``order_no`` at the instant ``at``.

    Arming again for the same purpose replaces the earlier one where the trigger can take that back; where it cannot,
    the earlier instant is signalled too, and the store finds the order not yet due.
    """

    order_no: str
    purpose: Purpose
    at: datetime


@dataclass(frozen=True, slots=True)
class NotTaken:
    """An arming that the trigger cannot take, and why."""

    arming: Arming
    why: str


@dataclass(frozen=True, slots=True)
class ArmResult:
    """What became of a list of armings: everything not named here is durable, as far as the trigger's limits say."""

    not_taken: tuple[NotTaken, ...] = ()


@dataclass(frozen=True, slots=True)
class Signal:
    """One word from a trigger.

    ``token`` identifies this delivery: a frozen owner that wakes up with an old token settles nothing.
    ``at`` is the instant that was asked for, where the trigger remembers it.
    """

    order_no: str
    purpose: Purpose
    token: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """What a trigger cannot do.

    ``longest_delay``: armings further ahead are not taken (None: any). ``precision``: how far off a signal may be.
    ``redelivers_after``: when an unsettled signal comes again though its listener is still there (None: it does not;
    a lease runs out, an unacknowledged delivery stays where it is). ``redelivers_to_next``: what a listener that ended
    had not settled comes to the next one, after ``redelivers_after`` or at once; what is said in memory only does not.
    """

    longest_delay: timedelta | None
    precision: timedelta
    survives_restart: bool
    can_disarm: bool
    redelivers_after: timedelta | None
    redelivers_to_next: bool


@dataclass(frozen=True, slots=True)
class TriggerHealth:
    """Whether a trigger can be reached, in a sentence; ``facts`` are numbers worth showing."""

    up: bool
    summary: str
    facts: dict[str, str | int | float] = field(default_factory=dict)


class Trigger(Protocol):
    """Says when to look at an order. Lists in, lists out."""

    name: str
    limits: TriggerLimits

    async def arm(self, armings: Sequence[Arming]) -> ArmResult:
        """Ask for signals. Durable when it returns; what cannot be taken is named, never dropped.

        Raises:
            TriggerError: the trigger is away; nothing, or only a part, was taken. Arming again is harmless.
        """
        ...

    async def disarm(self, order_nos: Sequence[str]) -> None:
        """Take back what was asked for these orders, best effort: a signal may come all the same."""
        ...

    def signals(self) -> AsyncIterator[Sequence[Signal]]:
        """Yield signals as they come, in lists. Ends only when the trigger is closed.

        One listener at a time. What is claimed from the source is bounded, and nothing more is claimed before the
        listener comes back for the next list: that is how a full batcher keeps leases from running out in a queue. A
        word that is no signal (another program's message) is dropped and counted, never raised; a lost connection is
        made again behind the scenes.
        """
        ...

    async def settle(self, signals: Sequence[Signal]) -> None:
        """Say that these were acted upon; only after the close has answered. An old token is ignored.

        Raises:
            TriggerError: the trigger is away; what it did not hear comes again.
        """
        ...

    async def postpone(self, signals: Sequence[Signal], until: datetime) -> None:
        """Ask for these again at ``until``, or somewhat later. An old token is ignored.

        Raises:
            TriggerError: the trigger is away; what it did not hear comes again, sooner or later than ``until``.
        """
        ...

    async def ping(self) -> TriggerHealth:
        """Say how it goes; never raises."""
        ...

    async def aclose(self) -> None:
        """End ``signals`` and give back connections. What is unsettled comes again elsewhere."""
        ...
