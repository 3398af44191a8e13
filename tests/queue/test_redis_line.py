"""Commands that share one connection, and what becomes of them when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha1

import pytest
from redis.exceptions import ConnectionError, ResponseError

from dllm_stack.redis import Connections, RedisError, Script
from dllm_stack.settings import RedisSettings

ECHO = "return {ARGV[1]}"
ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def script(text: str) -> Script:
    return Script("test", text, sha1(text.encode()).hexdigest())


@asynccontextmanager
async def talking_to(serve: Serve, timeout_s: float = 30) -> AsyncIterator[Connections]:
    """Connections to a made-up Redis."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connections = Connections(RedisSettings(url=f"redis://127.0.0.1:{port}", timeout_s=timeout_s))
    yield connections
    await connections.aclose()
    server.close()
    await server.wait_closed()


async def answer_setup(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers what a connection begins with, up to the first script, which is left unanswered."""
    while True:
        words = await command(reader)
        if words[0].startswith(b"EVAL"):
            return
        writer.write(b"+OK\r\n")


async def command(reader: asyncio.StreamReader) -> list[bytes]:
    """The next one.

    Raises:
        asyncio.IncompleteReadError: there is none.
    """
    count = int((await reader.readuntil(b"\r\n"))[1:])
    words = []
    for _ in range(count):
        length = int((await reader.readuntil(b"\r\n"))[1:])
        words.append((await reader.readexactly(length + 2))[:-2])
    return words


async def test_each_caller_gets_its_own_answer(connections: Connections) -> None:
    echo = script(ECHO)
    asked = [str(number) * (number * 37 % 4096) for number in range(500)]
    answers = await asyncio.gather(*(connections.run(echo, "k", [text]) for text in asked))
    assert answers == [[text.encode()] for text in asked]


async def test_a_caller_that_leaves_takes_nobodys_answer_along(connections: Connections) -> None:
    echo = script(ECHO)
    await connections.run(echo, "k", ["loaded"])
    callers = [asyncio.create_task(connections.run(echo, "k", [number])) for number in range(300)]
    await asyncio.sleep(0)
    for caller in callers[::3]:
        caller.cancel()
    answers = await asyncio.gather(*callers, return_exceptions=True)
    for number, answer in enumerate(answers):
        assert isinstance(answer, asyncio.CancelledError) if number % 3 == 0 else answer == [b"%d" % number]


async def test_an_error_is_the_callers_whose_script_it_was(connections: Connections) -> None:
    scripts = [script(ECHO), script("return redis.call('NOSUCHTHING')")]
    answers = await asyncio.gather(
        *(connections.run(scripts[number % 2], "k", [number]) for number in range(20)), return_exceptions=True
    )
    for number, answer in enumerate(answers):
        assert isinstance(answer, ResponseError) if number % 2 else answer == [b"%d" % number]


async def test_a_redis_that_has_lost_its_scripts_is_given_them_again(connections: Connections) -> None:
    echo = script(ECHO)
    await connections.run(echo, "k", ["a"])
    async with connections.limit():
        await connections.commands.script_flush()
    answers = await asyncio.gather(*(connections.run(echo, "k", [number]) for number in range(10)))
    assert answers == [[b"%d" % number] for number in range(10)]


async def test_what_is_lost_on_the_way_is_sent_once_more() -> None:
    connected = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        connected += 1
        first = connected == 1
        await answer_setup(reader, writer)
        if first:
            writer.close()
            return
        try:
            while True:
                writer.write(b":7\r\n")
                await command(reader)
        except asyncio.IncompleteReadError:
            writer.close()

    async with talking_to(serve) as connections:
        answers = await asyncio.gather(*(connections.run(script(ADD), "k", [1]) for _ in range(20)))
        assert answers == [7] * 20
        assert connected == 2


async def test_but_not_for_ever() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer_setup(reader, writer)
        writer.close()

    async with talking_to(serve) as connections:
        with pytest.raises(ConnectionError, match="lost"):
            await connections.run(script(ADD), "k", [1])


async def test_a_caller_that_gives_up_takes_no_connection_that_is_being_made_from_others() -> None:
    connected, asked, given_up = 0, asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        connected += 1
        asked.set()
        await given_up.wait()
        await answer_setup(reader, writer)
        writer.write(b":7\r\n")
        await reader.read()
        writer.close()

    async with talking_to(serve) as connections:
        first, second = (asyncio.create_task(connections.run(script(ADD), "k", [1])) for _ in range(2))
        await asked.wait()
        first.cancel()
        await asyncio.wait({first})
        given_up.set()
        assert await second == 7
        assert connected == 1


async def test_what_is_closed_is_not_opened_again() -> None:
    connected, asked = 0, asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        connected += 1
        await answer_setup(reader, writer)
        asked.set()
        await reader.read()
        writer.close()

    async with talking_to(serve) as connections:
        waiting = asyncio.create_task(connections.run(script(ADD), "k", [1]))
        await asked.wait()
        await connections.aclose()
        with pytest.raises(ConnectionError, match="closed"):
            await waiting
        with pytest.raises(ConnectionError, match="closed"):
            await connections.run(script(ADD), "k", [1])
        assert connected == 1


async def test_a_master_that_is_one_no_more_is_left() -> None:
    connected = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        connected += 1
        await answer_setup(reader, writer)
        writer.write(b"-READONLY You can't write.\r\n" if connected == 1 else b":7\r\n")
        await reader.read()
        writer.close()

    async with talking_to(serve) as connections:
        assert await connections.run(script(ADD), "k", [1]) == 7
        assert connected == 2


async def test_a_connection_that_has_fallen_silent_is_left() -> None:
    connected = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        connected += 1
        silent = connected == 1
        await answer_setup(reader, writer)
        if not silent:
            writer.write(b":7\r\n")
        await reader.read()
        writer.close()

    async with talking_to(serve, timeout_s=1) as connections:
        with pytest.raises(RedisError, match="did not answer"):
            await connections.run(script(ADD), "k", [1])
        async with asyncio.timeout(60):
            while True:
                with suppress(RedisError):  # on a machine that is busy it may take more than one
                    assert await connections.run(script(ADD), "k", [1]) == 7
                    break
        assert connected > 1
