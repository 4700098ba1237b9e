"""Identifiers that no other process makes.

They are UUIDs of version 7 (RFC 9562, section 5.7): they grow with time, so that the unique index over them is written
at its end, and they say nothing about the shop.
"""

import os
import time


def new_event_id() -> str:
    """Make one identifier; later ones of the same machine sort after earlier ones, to the millisecond."""
    return new_event_ids(1)[0]


def new_event_ids(count: int) -> list[str]:
    """Make many identifiers at once: the clock and the system's random numbers are asked only once."""
    millis = f"{time.time_ns() // 1_000_000:012x}"
    random = os.urandom(10 * count).hex()
    start = f"{millis[:8]}-{millis[8:]}-7"
    return [
        f"{start}{random[at : at + 3]}-{_VARIANT[random[at + 3]]}{random[at + 4 : at + 7]}-{random[at + 7 : at + 19]}"
        for at in range(0, 20 * count, 20)
    ]


_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
