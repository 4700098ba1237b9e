"""What duetime needs from a publisher: somebody who passes facts on to one consumer.

Delivery is at least once. ``Envelope.event_id`` is the same at every repeat; ``version`` grows with every fact of an
order, so that a receiver can also ignore what is old (a repeat may come late).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from duetime.event import Json


@dataclass(frozen=True, slots=True)
class Envelope:
    """One fact on its way: ``version`` is the fact's ``seq``, ``order_key`` what keeps its place in the order."""

    event_id: str
    version: int
    order_key: str
    type: str
    created_at: datetime
    payload: Mapping[str, Json]


class Verdict(StrEnum):
    """What became of one fact."""

    TAKEN = "taken"
    TRY_AGAIN = "try again"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Delivery:
    """The answer for one fact: ``why`` where it was not taken, ``retry_after`` where the receiver asked for time."""

    event_id: str
    verdict: Verdict
    why: str = ""
    retry_after: timedelta | None = None


class Publisher(Protocol):
    """Passes facts on."""

    name: str

    async def publish(self, envelopes: Sequence[Envelope]) -> Sequence[Delivery]:
        """Pass facts on, in this order, and answer each by its ``event_id``.

        A fact whose fate is unknown is answered with TRY_AGAIN. A receiver that is away is no exception either: every
        fact gets its answer.
        """
        ...

    async def ping(self) -> tuple[bool, str]:
        """Say whether the receiver can be reached, in a sentence; never raises."""
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...
