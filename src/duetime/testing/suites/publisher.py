"""The suite of the publisher contract."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from duetime.event import FactType
from duetime.publisher import Envelope, Publisher, Verdict

_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class PublisherBench:
    """A publisher and its receiver's end.

    ``received`` answers what has arrived so far, as identifiers with payloads, in the order of arrival.
    ``go_away`` and ``come_back`` take the receiver from the network and put it back; None where that cannot be done.
    """

    publisher: Publisher
    received: Callable[[], Sequence[tuple[str, Any]]]
    go_away: Callable[[], None] | None = None
    come_back: Callable[[], None] | None = None

    async def arrived(self, count: int) -> Sequence[tuple[str, Any]]:
        """Wait until ``count`` facts have arrived."""
        for _ in range(int(_WAIT_SECONDS / _POLL_SECONDS)):
            if len(self.received()) >= count:
                break
            await asyncio.sleep(_POLL_SECONDS)
        return self.received()


def envelope(number: int, order_no: str = "so-1", **payload: Any) -> Envelope:  # noqa: ANN401 -- any JSON
    """Answer a fact on its way."""
    event_id = f"018f0000-0000-7000-8000-{number:012d}"
    at = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
    content = {"event_id": event_id, "order_no": order_no, **payload}
    return Envelope(event_id, number, order_no, FactType.ORDER_CLOSED, at, content)


class PublisherSuite:
    """Everything that a publisher promises.

    A subclass gives the asynchronous fixture ``bench``: a ``PublisherBench`` whose receiver takes everything.
    """

    async def test_a_fact_arrives_with_its_identity_and_payload(self, bench: PublisherBench) -> None:
        sent = envelope(1, "订单-🛒", reason="timeout", deep={"list": [1, None, True, -2.5, "'\"\\\n"]})
        (answer,) = await bench.publisher.publish([sent])
        assert (answer.event_id, answer.verdict) == (sent.event_id, Verdict.TAKEN)
        ((event_id, payload),) = await bench.arrived(1)
        assert event_id == sent.event_id
        assert {name: payload[name] for name in sent.payload} == dict(sent.payload)

    async def test_every_fact_gets_its_answer(self, bench: PublisherBench) -> None:
        sent = [envelope(n, f"so-{n % 7}") for n in range(300)]
        answers = await bench.publisher.publish(sent)
        assert {answer.event_id: answer.verdict for answer in answers} == {
            fact.event_id: Verdict.TAKEN for fact in sent
        }
        assert len(answers) == len(sent)
        assert {event_id for event_id, _ in await bench.arrived(len(sent))} == {fact.event_id for fact in sent}

    async def test_facts_of_one_order_arrive_in_their_order(self, bench: PublisherBench) -> None:
        sent = [envelope(n) for n in range(50)]
        for start in range(0, 50, 10):
            await bench.publisher.publish(sent[start : start + 10])
        arrived = [event_id for event_id, _ in await bench.arrived(50)]
        assert list(dict.fromkeys(arrived)) == [fact.event_id for fact in sent]

    async def test_publishing_nothing_is_harmless(self, bench: PublisherBench) -> None:
        assert list(await bench.publisher.publish([])) == []

    async def test_the_same_fact_again_has_the_same_identity(self, bench: PublisherBench) -> None:
        sent = envelope(1)
        for _ in range(2):
            (answer,) = await bench.publisher.publish([sent])
            assert answer.verdict is Verdict.TAKEN
        assert {event_id for event_id, _ in await bench.arrived(1)} == {sent.event_id}

    async def test_a_large_fact_arrives_whole(self, bench: PublisherBench) -> None:
        sent = envelope(1, text="套" * 20_000)
        (answer,) = await bench.publisher.publish([sent])
        assert answer.verdict is Verdict.TAKEN
        ((_, payload),) = await bench.arrived(1)
        assert payload["text"] == sent.payload["text"]

    async def test_a_receiver_that_is_away_is_an_answer_and_no_error(self, bench: PublisherBench) -> None:
        if bench.go_away is None or bench.come_back is None:
            pytest.skip(f"the receiver of {bench.publisher.name} cannot be taken away")
        sent = [envelope(n) for n in range(3)]
        bench.go_away()
        answers = await bench.publisher.publish(sent)
        assert {answer.event_id for answer in answers} == {fact.event_id for fact in sent}
        assert {answer.verdict for answer in answers} == {Verdict.TRY_AGAIN}
        assert all(answer.why for answer in answers)
        up, sentence = await bench.publisher.ping()
        assert not up
        assert sentence
        bench.come_back()
        answers = await bench.publisher.publish(sent)
        assert {answer.verdict for answer in answers} == {Verdict.TAKEN}

    async def test_ping_says_that_the_receiver_is_there(self, bench: PublisherBench) -> None:
        up, sentence = await bench.publisher.ping()
        assert up
        assert sentence

    async def test_closing_twice_is_harmless(self, bench: PublisherBench) -> None:
        await bench.publisher.publish([envelope(1)])
        await bench.publisher.aclose()
        await bench.publisher.aclose()
