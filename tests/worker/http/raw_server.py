"""A server that says to each of its clients, byte by byte, what a test wants."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

LIMIT_S = 120.0  # for what comes at once, unless the machine stands still

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(eq=False)
class Talk:
    """One connection, the server's end.

    Attributes:
        number: of the connections made so far.
    """

    number: int
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    async def request(self) -> Request:
        """Raises asyncio.IncompleteReadError when the client is gone."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        return Request(method, path, headers, body)

    async def say(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def client_gone(self) -> None:
        with suppress(ConnectionError):
            while await self._reader.read(1 << 16):
                pass

    async def unless_gone(self, event: asyncio.Event) -> bool:
        """Waits for this; returns whether the client has gone before. It is not to say anything meanwhile."""
        both = [asyncio.create_task(event.wait()), asyncio.create_task(self.client_gone())]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for each in both:
            each.cancel()
        await asyncio.wait(both)
        return not event.is_set()

    async def cut_off(self) -> None:
        """Without waiting for the client, but not before all is sent that was said."""
        while self._writer.transport.get_write_buffer_size():  # noqa: ASYNC110
            await asyncio.sleep(0)
        self._writer.transport.abort()


@dataclass
class RawServer:
    url: str = ""
    made: int = 0  # connections, so far
    open: set[Talk] = field(default_factory=set)

    async def nobody_is_there(self) -> bool:
        return not self.open


Script = Callable[[Talk], Awaitable[None]]


@asynccontextmanager
async def raw_server(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """
    Args:
        script: what happens on each connection, which is closed when it returns.
    """
    server = RawServer()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.made += 1
        talk = Talk(server.made, reader, writer)
        server.open.add(talk)
        try:
            await script(talk)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError, RuntimeError):
            pass  # the last is uvloop's for a connection that is closed
        finally:
            writer.close()
            server.open.discard(talk)
            tasks.discard(task)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls, backlog=1024)
    host, port = listener.sockets[0].getsockname()[:2]
    server.url = f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(document: bytes) -> bytes:
    return b"data: " + document + b"\n\n"


def answer(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{more}\r\n".encode() + body
