"""A migration that kills its own process, without any warning, before one more defining statement is sent.

python -m tests.migrations.killed URL STATEMENTS
"""

import asyncio
import os
import signal
import sys
from typing import Any

from sqlalchemy import Engine, event

from duetime.shop import OrdersTable
from duetime.stores.sql.migrate import Migrator


def kill_after(statements: int) -> None:
    """Let so many defining statements through; the next one never leaves."""
    left = statements

    def count(_connection: object, _cursor: object, statement: str, *_: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
        nonlocal left
        if not statement.lstrip().startswith(("CREATE", "ALTER", "INSERT", "COMMENT", "COMMIT")):
            return
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    event.listen(Engine, "before_cursor_execute", count)


if __name__ == "__main__":
    kill_after(int(sys.argv[2]))
    asyncio.run(Migrator(sys.argv[1], OrdersTable()).run(shop_ddl=False))
