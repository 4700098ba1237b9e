"""The demo's shop: its settings, its tables, and what is in them at the beginning."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

from duetime.cli.demo.plan import Shop
from duetime.clock import SystemClock
from duetime.settings import Settings
from duetime.wiring import migrator

GRACE: Final = timedelta(milliseconds=200)
SWEEP_INTERVAL: Final = timedelta(milliseconds=100)

SOON: Final = timedelta(seconds=10)
"""When every fifth coupon's own validity runs out, in the middle of a usual demo."""


def settings_for(file: Path, timeout: timedelta) -> Settings:
    """Answer the settings; nothing is read from a file or the environment, which may describe a real shop."""
    return Settings.model_validate(
        {
            "store": {"url": f"sqlite:///{file}"},
            "timeouts": {"default": timeout, "grace": GRACE},
            "sweep": {"interval": SWEEP_INTERVAL, "pause": timedelta(0)},
        }
    )


async def build(settings: Settings, file: Path, shop: Shop) -> None:
    """Create the tables as ``duetime migrate --sample-shop`` does, and fill the shelves."""
    await migrator(settings).run(sample_shop=True)
    soon = (SystemClock().now() + SOON).replace(tzinfo=None).isoformat(" ")
    with closing(sqlite3.connect(file)) as database, database:
        database.executemany("INSERT INTO stock (sku_id, available, held) VALUES (?, ?, 0)", shop.stock.items())
        database.executemany(
            "INSERT INTO coupon (coupon_id, state, valid_until) VALUES (?, 'unused', ?)",
            [(coupon, soon if n % 5 == 0 else None) for n, coupon in enumerate(shop.coupons)],
        )
