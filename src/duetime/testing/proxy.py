"""A TCP proxy that loses connections at chosen moments.

It stands on 127.0.0.1 in front of a server and passes bytes on until it is told not to. What it can do to a connection
is what networks and servers do: end it, end it in the middle of a statement, or let the client's words through and lose
the server's answer. The last one, at a COMMIT, is the case that only a proxy can show: the server has done it, and the
client cannot know.
"""

import asyncio
import contextlib
import re
from collections.abc import Coroutine
from types import TracebackType
from typing import Self

_CHUNK_BYTES = 65536


class TcpProxy:
    """Passes connections on to ``host``:``port``; use it as an asynchronous context manager."""

    def __init__(self, host: str, port: int) -> None:
        """Stand in front of a server; nothing listens before the block is entered."""
        self._host, self._target_port = host, port
        self._server: asyncio.Server | None = None
        self._pairs: set[_Pair] = set()
        self._refusing = False
        self._running = asyncio.Event()
        self._running.set()
        self.connections = 0
        self.answers_lost = 0
        self._lose_after: re.Pattern[bytes] | None = None
        self._bytes_left: int | None = None

    @property
    def port(self) -> int:
        """The port on 127.0.0.1 to connect to."""
        assert self._server is not None, "enter the block first"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        self.go_on()
        await asyncio.gather(*(pair.ended.wait() for pair in self._pairs))

    # What can be done to connections

    def cut(self) -> None:
        """End all connections at once, without a farewell."""
        for pair in list(self._pairs):
            pair.abort()

    def cut_after(self, count: int) -> None:
        """End the connection that brings the ``count``-th byte from now; what comes after it is not passed on."""
        self._bytes_left = count

    def lose_answer_to(self, words: bytes) -> None:
        """Pass on the next bytes of a client that contain ``words``, drop the server's answer to them, and cut.

        The last word is a whole one: ``COMMIT`` is not found in ``BEGIN ISOLATION LEVEL READ COMMITTED``.
        """
        self._lose_after = re.compile(re.escape(words) + rb"(?![A-Z])")

    def refuse(self) -> None:
        """End new connections as soon as they come."""
        self._refusing = True

    def accept(self) -> None:
        """Take new connections again."""
        self._refusing = False

    def pause(self) -> None:
        """Pass nothing on, in either direction, as a network does that lost its way."""
        self._running.clear()

    def go_on(self) -> None:
        """Pass on again, first of all what has come meanwhile."""
        self._running.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._refusing:
            writer.transport.abort()
            return
        try:
            target = await asyncio.open_connection(self._host, self._target_port)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair((reader, writer), target)
        self._pairs.add(pair)
        try:
            await pair.run(self._from_client(pair), self._from_server(pair))
        finally:
            self._pairs.discard(pair)

    async def _from_client(self, pair: "_Pair") -> None:
        while data := await pair.client[0].read(_CHUNK_BYTES):
            await self._running.wait()
            if self._lose_after is not None and self._lose_after.search(data.upper()):
                self._lose_after = None
                pair.answer_to_lose = True
            if self._bytes_left is not None:
                kept, self._bytes_left = data[: self._bytes_left], self._bytes_left - len(data)
                if self._bytes_left <= 0:
                    self._bytes_left = None
                    pair.server[1].write(kept)
                    await pair.server[1].drain()
                    return
            pair.server[1].write(data)
            await pair.server[1].drain()

    async def _from_server(self, pair: "_Pair") -> None:
        while data := await pair.server[0].read(_CHUNK_BYTES):
            await self._running.wait()
            if pair.answer_to_lose:
                self.answers_lost += 1
                return
            pair.client[1].write(data)
            await pair.client[1].drain()


_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Pair:
    """The two connections of one client; both end as soon as one direction does."""

    def __init__(self, client: _Streams, server: _Streams) -> None:
        self.client, self.server = client, server
        self.answer_to_lose = False
        self.ended = asyncio.Event()

    async def run(self, *directions: Coroutine[None, None, None]) -> None:
        tasks = [asyncio.ensure_future(direction) for direction in directions]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.abort()
            for task in tasks:
                task.cancel()
            with contextlib.suppress(ConnectionError):
                await asyncio.gather(*tasks, return_exceptions=True)
            self.ended.set()

    def abort(self) -> None:
        self.client[1].transport.abort()
        self.server[1].transport.abort()
