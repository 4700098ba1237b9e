"""The doctor's own ways: order, what needs what, and checks that end badly."""

import asyncio

from duetime.doctor import Check, Found, Grade, Line, examine, failed, ok
from duetime.errors import ConfigError, StoreMisfit


async def well() -> Found:
    return ok("all is well")


async def bad() -> Found:
    return failed("it is broken", "mend it")


async def endless() -> Found:
    await asyncio.Event().wait()
    return ok("never")


async def denied() -> Found:
    raise StoreMisfit("permission denied\n  for table orders")


async def misfit() -> Found:
    raise ConfigError(["orders.id: one", "orders.status: two"])


async def test_what_needs_a_failed_check_is_not_looked_at() -> None:
    told: list[Line] = []
    checks = [Check("a", bad), Check("b", endless, ("a",)), Check("c", endless, ("b",)), Check("d", well)]
    lines = await examine(checks, told=told.append)
    assert [(line.check, line.grade) for line in lines] == [
        ("a", Grade.FAILED),
        ("b", Grade.SKIPPED),
        ("c", Grade.SKIPPED),
        ("d", Grade.OK),
    ]
    assert lines[1].found == "not looked at: it needs the check 'a'"
    assert told == lines


async def test_a_check_builds_on_lines_from_before() -> None:
    before = [Line("driver", Grade.FAILED, "it is not installed")]
    lines = await examine([Check("server", endless, ("driver",))], before=before)
    assert [line.grade for line in lines] == [Grade.FAILED, Grade.SKIPPED]


async def test_a_check_that_takes_too_long_is_ended_and_says_so() -> None:
    lines = await examine([Check("slow", endless, seconds=0.01), Check("next", well, ("slow",))])
    assert [(line.check, line.grade) for line in lines] == [("slow", Grade.WARNING), ("next", Grade.OK)]
    assert lines[0].found == "it took longer than 0.01 seconds and was ended"


async def test_what_goes_wrong_while_looking_is_the_finding() -> None:
    lines = await examine([Check("rows", denied), Check("config", misfit)])
    assert [(line.grade, line.found) for line in lines] == [
        (Grade.FAILED, "permission denied for table orders"),
        (Grade.FAILED, "orders.id: one; orders.status: two"),
    ]
