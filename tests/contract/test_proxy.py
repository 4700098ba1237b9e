"""The proxy does to connections what it says, and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from duetime.testing.proxy import TcpProxy
from tests.support.waiting import eventually, let_pass

SECONDS_MAX = 5


class EchoServer:
    """Answers every line with the same line, and remembers what it heard."""

    def __init__(self) -> None:
        self.heard = b""
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                self.heard += data
                writer.write(data)
                await writer.drain()
        finally:
            writer.transport.abort()


Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Client]]


@pytest.fixture
async def server() -> AsyncIterator[EchoServer]:
    echo = EchoServer()
    listening = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    echo.port = listening.sockets[0].getsockname()[1]
    yield echo
    listening.close()


@pytest.fixture
async def proxy(server: EchoServer) -> AsyncIterator[TcpProxy]:
    async with TcpProxy("127.0.0.1", server.port) as proxy:
        yield proxy


@pytest.fixture
async def connect(proxy: TcpProxy) -> AsyncIterator[Connect]:
    clients: list[Client] = []

    async def one() -> Client:
        clients.append(await asyncio.open_connection("127.0.0.1", proxy.port))
        return clients[-1]

    yield one
    for _, writer in clients:
        writer.transport.abort()
    await let_pass(0, because="the transports close themselves in the next turn of the loop")


async def say(client: Client, words: bytes) -> bytes:
    client[1].write(words)
    await client[1].drain()
    return await asyncio.wait_for(client[0].read(65536), SECONDS_MAX)


async def is_cut(client: Client) -> bool:
    try:
        return await asyncio.wait_for(client[0].read(1), SECONDS_MAX) == b""
    except ConnectionError:
        return True


async def test_it_passes_on_in_both_directions(connect: Connect, proxy: TcpProxy, server: EchoServer) -> None:
    first, second = await connect(), await connect()
    assert await say(first, b"one") == b"one"
    assert await say(second, b"two") == b"two"
    assert server.heard == b"onetwo"
    assert proxy.connections == 2


async def test_cut_ends_all_connections_and_new_ones_work(connect: Connect, proxy: TcpProxy) -> None:
    first, second = await connect(), await connect()
    await say(first, b"one")
    await say(second, b"two")
    proxy.cut()
    assert await is_cut(first)
    assert await is_cut(second)
    assert await say(await connect(), b"three") == b"three"


async def test_a_lost_answer_was_heard_by_the_server(connect: Connect, proxy: TcpProxy, server: EchoServer) -> None:
    client, other = await connect(), await connect()
    proxy.lose_answer_to(b"COMMIT")
    assert await say(client, b"select 1") == b"select 1"
    client[1].write(b"commit")
    assert await is_cut(client)
    assert server.heard == b"select 1commit"
    assert proxy.answers_lost == 1
    assert await say(other, b"commit") == b"commit"


async def test_a_commit_is_not_found_in_a_longer_word(connect: Connect, proxy: TcpProxy) -> None:
    """Where each transaction begins with the words READ COMMITTED, every test of a lost commit would show nothing."""
    client = await connect()
    proxy.lose_answer_to(b"COMMIT")
    assert await say(client, b"begin isolation level read committed") == b"begin isolation level read committed"
    client[1].write(b"\x0bCOMMIT\0")
    assert await is_cut(client)
    assert proxy.answers_lost == 1


async def test_cut_after_passes_on_so_many_bytes_and_no_more(
    connect: Connect, proxy: TcpProxy, server: EchoServer
) -> None:
    client = await connect()
    await say(client, b"abc")
    proxy.cut_after(4)
    client[1].write(b"defghij")
    assert await is_cut(client)
    await eventually("the server hears the first four bytes", lambda: server.heard == b"abcdefg")


async def test_refused_connections_end_at_once_and_old_ones_live(connect: Connect, proxy: TcpProxy) -> None:
    old = await connect()
    await say(old, b"one")
    proxy.refuse()
    assert await is_cut(await connect())
    assert await say(old, b"two") == b"two"
    proxy.accept()
    assert await say(await connect(), b"three") == b"three"


async def test_while_it_pauses_nothing_arrives_and_afterwards_everything_does(
    connect: Connect, proxy: TcpProxy, server: EchoServer
) -> None:
    client = await connect()
    await say(client, b"one")
    proxy.pause()
    client[1].write(b"two")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client[0].read(1), 0.1)
    assert server.heard == b"one"
    proxy.go_on()
    assert await asyncio.wait_for(client[0].read(65536), SECONDS_MAX) == b"two"


async def test_a_server_that_is_away_ends_the_connection() -> None:
    async with TcpProxy("127.0.0.1", 1) as proxy:
        client = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await is_cut(client)
        client[1].transport.abort()
