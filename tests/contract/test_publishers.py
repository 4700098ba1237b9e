"""The publisher suite on the reference implementation."""

import pytest

from duetime.publisher import Verdict
from duetime.testing.memory_publisher import MemoryPublisher
from duetime.testing.suites import PublisherBench, PublisherSuite
from duetime.testing.suites.publisher import envelope


class TestMemoryPublisher(PublisherSuite):
    @pytest.fixture
    async def bench(self) -> PublisherBench:
        publisher = MemoryPublisher()

        def go(*, away: bool) -> None:
            publisher.away = away

        return PublisherBench(
            publisher,
            lambda: [(fact.event_id, fact.payload) for fact in publisher.received],
            go_away=lambda: go(away=True),
            come_back=lambda: go(away=False),
        )


@pytest.mark.parametrize("verdict", [Verdict.TRY_AGAIN, Verdict.NEVER])
async def test_a_receiver_can_refuse_single_facts(verdict: Verdict) -> None:
    def answer(fact: object) -> Verdict:
        return verdict if fact == envelope(2) else Verdict.TAKEN

    publisher = MemoryPublisher(answer=answer)
    answers = await publisher.publish([envelope(1), envelope(2), envelope(3)])
    assert [answer.verdict for answer in answers] == [Verdict.TAKEN, verdict, Verdict.TAKEN]
    assert publisher.received == [envelope(1), envelope(3)]
