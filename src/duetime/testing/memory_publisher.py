"""The smallest publisher that keeps the contract, with a receiver in the same process."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from duetime.publisher import Delivery, Envelope, Verdict


class MemoryPublisher:
    """Appends facts to ``received``. ``answer`` may refuse or put off single ones, as a receiver does."""

    def __init__(self, *, name: str = "memory", answer: Callable[[Envelope], Verdict] | None = None) -> None:
        """Take everything unless ``answer`` says otherwise."""
        self.name = name
        self.received: list[Envelope] = []
        self.away = False
        self._answer = answer or (lambda _: Verdict.TAKEN)

    async def publish(self, envelopes: Sequence[Envelope]) -> Sequence[Delivery]:
        """Pass facts on, in this order, and answer each."""
        return [self._publish(envelope) for envelope in envelopes]

    def _publish(self, envelope: Envelope) -> Delivery:
        if self.away:
            return Delivery(envelope.event_id, Verdict.TRY_AGAIN, "the receiver is away", timedelta(seconds=1))
        verdict = self._answer(envelope)
        if verdict is not Verdict.TAKEN:
            return Delivery(envelope.event_id, verdict, "the receiver said so")
        self.received.append(envelope)
        return Delivery(envelope.event_id, verdict)

    async def ping(self) -> tuple[bool, str]:
        """Say whether the receiver is there."""
        return (False, "the receiver is away") if self.away else (True, f"{len(self.received)} facts received")

    async def aclose(self) -> None:
        """Have no connections to give back."""
