"""HTTP/1 for the simulator, as a protocol of the event loop: a framework would cost more than all the rest.

TCP_NODELAY is set, as asyncio and uvloop do on every connection. Nothing waits for a slow reader: what it
has not read is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

import httptools

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found"}
_LAST_CHUNK = b"0\r\n\r\n"


class Call:
    """One request, and its answer.

    Attributes:
        headers: names in lower case.
        gone: called if the connection is lost before the answer's end.
        lost: whether it has been.
    """

    def __init__(self, connection: _Connection, method: str, path: str, body: bytes, is_old: bool) -> None:
        self.method, self.path, self.body = method, path, body
        self.headers = dict(connection.headers)
        self.gone: Callable[[], None] | None = None
        self.lost = False
        self._connection = connection
        self._chunked = not is_old  # HTTP/1.0 knows no chunks: there the connection's end is the answer's
        self._stays = connection.stays

    def answer(self, document: bytes, status: int = 200) -> None:
        head = self._head(status, "application/json", f"content-length: {len(document)}")
        self._connection.write(head + document)
        self._end()

    def begin_events(self) -> None:
        self._stays &= self._chunked
        head = self._head(200, "text/event-stream", "transfer-encoding: chunked" if self._chunked else "")
        self._connection.write(head)

    def event(self, document: bytes) -> None:
        self._write(b"data: " + document + b"\n\n")

    def last_event(self, document: bytes) -> None:
        """And the end of the stream, in one write."""
        last = b"data: " + document + b"\n\ndata: [DONE]\n\n"
        self._write(last, _LAST_CHUNK if self._chunked else b"")
        self._end()

    def _write(self, data: bytes, after: bytes = b"") -> None:
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        self._connection.write(data + after)

    def _head(self, status: int, kind: str, length: str) -> bytes:
        stays = "keep-alive" if self._stays else "close"
        lines = [f"HTTP/1.1 {status} {_REASONS[status]}", f"content-type: {kind}", f"connection: {stays}"]
        return "\r\n".join([*lines, *([length] if length else []), "", ""]).encode()

    def _end(self) -> None:
        self.gone = None
        self._connection.answered(self._stays)


class Application(Protocol):
    async def __call__(self, call: Call) -> None: ...


class _Connection(asyncio.Protocol):
    """Also what httptools' parser calls."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._call: Call | None = None
        self._task: asyncio.Task[None] | None = None
        self.headers: list[tuple[str, str]] = []
        self.stays = True
        self._url = b""
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is of no such class

    def connection_lost(self, error: Exception | None) -> None:
        if self._call is not None:
            self._call.lost = True
            if self._call.gone is not None:
                self._call.gone()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_message_begin(self) -> None:
        self.headers, self._url, self._body = [], b"", b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._call is not None:  # nobody here asks before the answer has come
            self._transport.close()
            return
        path = httptools.parse_url(self._url).path.decode("latin-1")
        self.stays = self._parser.should_keep_alive()
        is_old = self._parser.get_http_version() == "1.0"
        method = self._parser.get_method().decode()
        self._call = Call(self, method, path, self._body, is_old)
        self._task = asyncio.create_task(self._application(self._call))

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def answered(self, stays: bool) -> None:
        self._call = None
        if not stays:
            self._transport.close()


async def listen(application: Application, host: str, port: int) -> asyncio.Server:
    """It serves until it is closed."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: _Connection(application), host, port, backlog=4096)
