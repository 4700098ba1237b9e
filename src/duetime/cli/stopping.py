"""Ending in order when the process is asked to: by SIGTERM, or by Ctrl-C."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from duetime import logs

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

IN_HAND_SECONDS: Final = 7.0
"""How long the batches in hand may take to finish; then they are cancelled, and the database rolls them back."""

AT_MOST_SECONDS: Final = 9.0
"""After how long the process ends in any case: a driver may wait for a server that is frozen, cancelled or not."""


@asynccontextmanager
async def told_to_stop(*, at_most_seconds: float | None = None) -> AsyncIterator[asyncio.Event]:
    """Give an event that is set by the first signal; a second one ends the process at once, with exit code 1.

    With ``at_most_seconds`` the process ends that long after the first signal, whatever it still waits for.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hear() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()
        if at_most_seconds is not None:
            loop.call_later(at_most_seconds, _leave)

    for one in SIGNALS:
        loop.add_signal_handler(one, hear)
    try:
        yield stop
    finally:
        for one in SIGNALS:
            loop.remove_signal_handler(one)


def _leave() -> None:
    """End without waiting for anything: what was not committed is rolled back by the database."""
    logs.logger().warning("stopped without an answer from the database; what was in hand is rolled back there")
    sys.stderr.flush()
    os._exit(0)
