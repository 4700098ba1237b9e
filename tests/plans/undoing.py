"""A store that forgets: every transaction does all its work, and is rolled back instead of committed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from duetime.store import FullTransaction
from duetime.stores.sql.store import SqlStore


class _Undone(Exception):
    pass


class UndoingStore:
    """Fulfils ``duetime.store.Store``, so that many tests can close the same orders."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.name, self.capabilities = store.name, store.capabilities

    @asynccontextmanager
    async def transaction(self, *, write: bool = True) -> AsyncIterator[FullTransaction]:
        with suppress(_Undone):
            async with self._store.transaction(write=write) as tx:
                yield tx
                raise _Undone

    async def check(self) -> None:
        await self._store.check()

    async def aclose(self) -> None:
        await self._store.aclose()
