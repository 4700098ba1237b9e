"""Waiting for what a test expects, with a limit: the only place of the tests that sleeps."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.02


class ExpectedInVainError(AssertionError):
    """What a test waited for did not happen in time."""

    def __init__(self, what: str, seconds_max: float) -> None:
        super().__init__(f"waited {seconds_max:g} s in vain: {what}")


async def eventually(what: str, holds: Callable[[], bool | Awaitable[bool]], *, seconds_max: float = 10) -> None:
    """Return as soon as the condition holds; fail with the sentence `what` when it does not in time."""
    deadline = time.monotonic() + seconds_max
    while True:
        answer = holds()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        if time.monotonic() >= deadline:
            raise ExpectedInVainError(what, seconds_max)
        await asyncio.sleep(POLL_SECONDS)


def eventually_sync(what: str, holds: Callable[[], bool], *, seconds_max: float = 10) -> None:
    """Do the same without an event loop."""
    deadline = time.monotonic() + seconds_max
    while not holds():
        if time.monotonic() >= deadline:
            raise ExpectedInVainError(what, seconds_max)
        time.sleep(POLL_SECONDS)


async def let_pass(seconds: float, *, because: str) -> None:
    """Let time pass that is itself what the test is about: a server that stays away, a worker that stays frozen."""
    del because  # for the reader
    await asyncio.sleep(seconds)


def let_pass_sync(seconds: float, *, because: str) -> None:
    """Do the same without an event loop."""
    del because  # for the reader
    time.sleep(seconds)
