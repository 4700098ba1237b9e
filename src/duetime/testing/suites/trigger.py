"""The suite of the trigger contract."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from duetime.clock import Clock
from duetime.testing.manual_clock import ManualClock
from duetime.trigger import Arming, Purpose, Signal, Trigger

SECOND = timedelta(seconds=1)
_SLACK_SECONDS = 5.0
_POLL_SECONDS = 0.02
_MORE_THAN_A_LIST = 5000


@dataclass(frozen=True)
class TriggerBench:
    """An empty trigger and the clock by which it tells the time.

    With a ``ManualClock`` waiting costs nothing; else the tests wait in real time, for as long as the trigger's limits
    say.
    """

    trigger: Trigger
    clock: Clock

    async def wait(self, by: timedelta) -> None:
        """Let time pass."""
        if isinstance(self.clock, ManualClock):
            await self.clock.advance(by)
        else:
            await asyncio.sleep(by.total_seconds())

    def soon(self, by: timedelta = SECOND) -> timedelta:
        """Answer a short delay that the trigger can keep apart from another one twice as long."""
        return max(by, 2 * self.trigger.limits.precision)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Listener"]:
        """Hear signals for the time of the block."""
        listener = Listener(self)
        task = asyncio.ensure_future(listener.run())
        try:
            yield listener
        finally:
            task.cancel()
            await asyncio.wait([task])


class Listener:
    """Collects signals as they come, with the instants at which they were heard."""

    def __init__(self, bench: TriggerBench) -> None:
        """Hear ``bench.trigger``."""
        self._bench = bench
        self.heard: list[Signal] = []
        self.times: list[Any] = []

    async def run(self) -> None:
        """Listen until cancelled."""
        async with aclosing(self._bench.trigger.signals()) as source:  # type: ignore[type-var]  # an iterator may be a generator
            async for signals in source:
                assert signals, "an empty list is no news"
                self.heard += signals
                self.times += [self._bench.clock.now()] * len(signals)

    async def wait_for(self, count: int, within: timedelta) -> list[Signal]:
        """Let up to ``within`` pass until ``count`` signals were heard, and answer all that were."""
        step = within / 20
        for _ in range(20):
            if len(self.heard) >= count:
                break
            await self._bench.wait(step)
        await self._settle_down(count)
        assert len(self.heard) >= count, f"heard {self.heard}, expected {count}"
        return self.heard

    async def _settle_down(self, count: int) -> None:
        """Give a real trigger its slack: brokers and pollers are seconds late on a busy machine."""
        if isinstance(self._bench.clock, ManualClock):
            return
        for _ in range(int(_SLACK_SECONDS / _POLL_SECONDS)):
            if len(self.heard) >= count:
                return
            await asyncio.sleep(_POLL_SECONDS)

    def names(self) -> list[str]:
        """Answer the order numbers heard, each once, sorted."""
        return sorted({signal.order_no for signal in self.heard})


def close(order_no: str, at: Any) -> Arming:  # noqa: ANN401 -- an instant
    """Ask for a close signal."""
    return Arming(order_no, Purpose.CLOSE, at)


class TriggerSuite:
    """Everything that a trigger promises.

    A subclass gives the asynchronous fixture ``bench``: a ``TriggerBench`` with a trigger that has nothing armed. The
    contract lets signals come early, late and twice; the suite asks only that none is forgotten.
    """

    async def test_an_armed_order_is_signalled(self, bench: TriggerBench) -> None:
        at = bench.clock.now() + bench.soon()
        async with bench.listening() as listener:
            result = await bench.trigger.arm([close("so-1", at)])
            assert result.not_taken == ()
            (signal, *_) = await listener.wait_for(1, 2 * bench.soon())
        assert (signal.order_no, signal.purpose) == ("so-1", Purpose.CLOSE)
        assert signal.at in {at, None}
        assert signal.token

    async def test_what_was_armed_before_anybody_listened_is_signalled(self, bench: TriggerBench) -> None:
        await bench.trigger.arm([close("so-1", bench.clock.now() + bench.soon())])
        await bench.wait(2 * bench.soon())
        async with bench.listening() as listener:
            await listener.wait_for(1, bench.soon())
        assert listener.names() == ["so-1"]

    @pytest.mark.parametrize("ago", [timedelta(0), SECOND, timedelta(days=1)])
    async def test_a_past_instant_is_signalled_at_once(self, bench: TriggerBench, ago: timedelta) -> None:
        async with bench.listening() as listener:
            await bench.trigger.arm([close("so-1", bench.clock.now() - ago)])
            await listener.wait_for(1, bench.soon())

    async def test_many_orders_are_armed_at_once_and_none_is_forgotten(self, bench: TriggerBench) -> None:
        at = bench.clock.now() + bench.soon()
        expected = sorted(f"so-{n}" for n in range(2000))
        async with bench.listening() as listener:
            await bench.trigger.arm([close(order_no, at) for order_no in expected])
            await listener.wait_for(2000, 2 * bench.soon())
        assert listener.names() == expected

    async def test_arming_nothing_and_disarming_nobody_is_harmless(self, bench: TriggerBench) -> None:
        assert (await bench.trigger.arm([])).not_taken == ()
        await bench.trigger.disarm([])
        await bench.trigger.disarm(["nobody"])
        await bench.trigger.settle([])
        await bench.trigger.postpone([], bench.clock.now())

    @pytest.mark.parametrize("order_no", ["订单-🛒", "n" * 190, "a:b", "{a}", "a b", "a\nb", '"', "\\", "*", "%s"])
    async def test_any_order_number_comes_back_as_it_was_armed(self, bench: TriggerBench, order_no: str) -> None:
        async with bench.listening() as listener:
            await bench.trigger.arm([close(order_no, bench.clock.now())])
            await listener.wait_for(1, bench.soon())
        assert listener.names() == [order_no]

    async def test_a_reminder_does_not_take_the_place_of_a_close(self, bench: TriggerBench) -> None:
        at = bench.clock.now() + bench.soon()
        async with bench.listening() as listener:
            await bench.trigger.arm([close("so-1", at), Arming("so-1", Purpose.REMIND, at)])
            await listener.wait_for(2, 2 * bench.soon())
            await bench.trigger.settle([signal for signal in listener.heard if signal.purpose is Purpose.REMIND])
        assert {signal.purpose for signal in listener.heard} == {Purpose.CLOSE, Purpose.REMIND}

    async def test_arming_again_for_an_earlier_instant_is_heard_at_the_earlier_one(self, bench: TriggerBench) -> None:
        now = bench.clock.now()
        async with bench.listening() as listener:
            await bench.trigger.arm([close("so-1", now + 40 * bench.soon())])
            await bench.trigger.arm([close("so-1", now + bench.soon())])
            await listener.wait_for(1, 2 * bench.soon())

    async def test_arming_again_for_a_later_instant_is_heard_at_the_later_one(self, bench: TriggerBench) -> None:
        now, later = bench.clock.now(), 3 * bench.soon()
        async with bench.listening() as listener:
            await bench.trigger.arm([close("so-1", now + bench.soon())])
            await bench.trigger.arm([close("so-1", now + later)])
            await bench.wait(later)
            await listener.wait_for(1, bench.soon())
        assert max(listener.times) >= now + later - bench.trigger.limits.precision

    async def test_what_is_too_far_ahead_is_named_and_the_rest_is_taken(self, bench: TriggerBench) -> None:
        longest = bench.trigger.limits.longest_delay
        if longest is None:
            pytest.skip(f"{bench.trigger.name} has no longest delay")
        now = bench.clock.now()
        far, near = close("far", now + longest + timedelta(days=1)), close("near", now)
        async with bench.listening() as listener:
            result = await bench.trigger.arm([far, near])
            await listener.wait_for(1, bench.soon())
        assert [refused.arming for refused in result.not_taken] == [far]
        assert result.not_taken[0].why
        assert listener.names() == ["near"]

    # Settling

    async def test_a_settled_signal_does_not_come_again(self, bench: TriggerBench) -> None:
        wait = bench.trigger.limits.redelivers_after or bench.soon()
        async with bench.listening() as listener:
            await bench.trigger.arm([close("so-1", bench.clock.now())])
            await bench.trigger.settle(await listener.wait_for(1, bench.soon()))
            heard = len(listener.heard)
            await bench.wait(2 * wait)
            assert len(listener.heard) == heard

    async def test_an_unsettled_signal_comes_again(self, bench: TriggerBench) -> None:
        wait = self.redelivery(bench)
        async with bench.listening() as listener:
            await bench.trigger.arm([close("so-1", bench.clock.now())])
            await listener.wait_for(2, 3 * wait)
        assert listener.names() == ["so-1"]

    async def test_what_a_listener_that_went_away_did_not_settle_comes_to_the_next_one(
        self, bench: TriggerBench
    ) -> None:
        if not bench.trigger.limits.redelivers_to_next:
            pytest.skip(f"{bench.trigger.name} says each signal once: what is lost is left to the sweep")
        wait = bench.trigger.limits.redelivers_after or bench.soon()
        async with bench.listening() as first:
            await bench.trigger.arm([close("so-1", bench.clock.now())])
            await first.wait_for(1, bench.soon())
        async with bench.listening() as second:
            await second.wait_for(1, 3 * wait)
        assert second.names() == ["so-1"]

    async def test_a_listener_that_went_away_in_the_middle_of_a_burst_leaves_all_of_it_to_the_next_one(
        self, bench: TriggerBench
    ) -> None:
        if not bench.trigger.limits.redelivers_to_next:
            pytest.skip(f"{bench.trigger.name} says each signal once: what is lost is left to the sweep")
        wait = bench.trigger.limits.redelivers_after or bench.soon()
        numbers = [f"so-{n}" for n in range(_MORE_THAN_A_LIST)]
        await bench.trigger.arm([close(order_no, bench.clock.now()) for order_no in numbers])
        async with aclosing(bench.trigger.signals()) as source:  # type: ignore[type-var]  # as above
            await anext(source)
        async with bench.listening() as second:
            for _ in range(30):
                if len(second.names()) == len(numbers):
                    break
                await bench.wait(wait / 5)
        assert second.names() == sorted(numbers)

    async def test_an_old_token_settles_nothing(self, bench: TriggerBench) -> None:
        wait = self.redelivery(bench)
        async with bench.listening() as listener:
            await bench.trigger.arm([close("so-1", bench.clock.now())])
            first = (await listener.wait_for(1, bench.soon()))[0]
            await listener.wait_for(2, 3 * wait)
            await bench.trigger.settle([first])
            await listener.wait_for(3, 3 * wait)

    async def test_an_old_token_takes_no_new_arming_away(self, bench: TriggerBench) -> None:
        async with bench.listening() as listener:
            await bench.trigger.arm([close("so-1", bench.clock.now())])
            first = (await listener.wait_for(1, bench.soon()))[0]
            await bench.trigger.arm([close("so-1", bench.clock.now() + bench.soon())])
            heard = len(listener.heard)
            await bench.trigger.settle([first])
            await listener.wait_for(heard + 1, 3 * bench.soon())

    async def test_settling_twice_is_harmless(self, bench: TriggerBench) -> None:
        async with bench.listening() as listener:
            await bench.trigger.arm([close("so-1", bench.clock.now()), close("so-2", bench.clock.now())])
            signals = list(await listener.wait_for(2, bench.soon()))
            await bench.trigger.settle(signals)
            await bench.trigger.settle(signals)

    async def test_a_list_is_bounded_whatever_is_owed(self, bench: TriggerBench) -> None:
        await bench.trigger.arm([close(f"so-{n}", bench.clock.now()) for n in range(_MORE_THAN_A_LIST)])
        async with aclosing(bench.trigger.signals()) as source:  # type: ignore[type-var]  # an iterator may be a generator
            first = await anext(source)
            assert 0 < len(first) < _MORE_THAN_A_LIST
            await bench.trigger.settle(first)
            assert {signal.order_no for signal in await anext(source)}.isdisjoint(signal.order_no for signal in first)

    # Postponing

    async def test_a_postponed_signal_comes_again_at_its_new_instant(self, bench: TriggerBench) -> None:
        async with bench.listening() as listener:
            await bench.trigger.arm([close("so-1", bench.clock.now())])
            signals = list(await listener.wait_for(1, bench.soon()))
            until = bench.clock.now() + 2 * bench.soon()
            await bench.trigger.postpone(signals, until)
            await listener.wait_for(len(signals) + 1, 4 * bench.soon())
        assert listener.times[-1] >= until - bench.trigger.limits.precision

    async def test_a_signal_can_be_settled_after_it_was_postponed(self, bench: TriggerBench) -> None:
        async with bench.listening() as listener:
            await bench.trigger.arm([close("so-1", bench.clock.now())])
            signals = list(await listener.wait_for(1, bench.soon()))
            await bench.trigger.postpone(signals, bench.clock.now())
            again = list(await listener.wait_for(len(signals) + 1, 2 * bench.soon()))
            await bench.trigger.settle(again)

    # Disarming

    async def test_a_disarmed_order_leaves_the_others_alone(self, bench: TriggerBench) -> None:
        at = bench.clock.now() + bench.soon()
        async with bench.listening() as listener:
            await bench.trigger.arm([close("so-1", at), close("so-2", at), close("so-3", at)])
            await bench.trigger.disarm(["so-2", "nobody"])
            await bench.wait(2 * bench.soon())
            await listener.wait_for(2, 2 * bench.soon())
        assert {"so-1", "so-3"} <= set(listener.names())

    async def test_a_disarmed_order_is_silent_where_the_trigger_can_take_it_back(self, bench: TriggerBench) -> None:
        if not bench.trigger.limits.can_disarm:
            pytest.skip(f"{bench.trigger.name} cannot take back what was armed")
        async with bench.listening() as listener:
            await bench.trigger.arm([close("so-1", bench.clock.now() + bench.soon())])
            await bench.trigger.disarm(["so-1"])
            await bench.wait(3 * bench.soon())
        assert listener.heard == []

    # Health and the end

    async def test_ping_says_that_it_is_up(self, bench: TriggerBench) -> None:
        health = await bench.trigger.ping()
        assert health.up
        assert health.summary

    async def test_closing_ends_the_signals(self, bench: TriggerBench) -> None:
        async def listen() -> list[Sequence[Signal]]:
            return [signals async for signals in bench.trigger.signals()]

        listening = asyncio.ensure_future(listen())
        await bench.wait(bench.soon())
        await bench.trigger.aclose()
        assert await asyncio.wait_for(listening, _SLACK_SECONDS) == []

    async def test_closing_twice_is_harmless_and_ping_never_raises(self, bench: TriggerBench) -> None:
        await bench.trigger.aclose()
        await bench.trigger.aclose()
        assert (await bench.trigger.ping()).summary

    def redelivery(self, bench: TriggerBench) -> timedelta:
        """Answer when an unsettled signal comes again; skip, visibly, where it does not."""
        wait = bench.trigger.limits.redelivers_after
        if wait is None:
            pytest.skip(f"{bench.trigger.name} says nothing again to a listener that is still there")
        return wait
