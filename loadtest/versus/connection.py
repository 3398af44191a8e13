"""A client that costs next to nothing: a connection, and one request after the other on it."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from dataclasses import dataclass
from typing import Self, cast
from urllib.parse import urlsplit

import httptools

_TEXT = re.compile(rb'"content": ?"[^"]')


@dataclass(frozen=True)
class Answer:
    """
    Attributes:
        status: HTTP's; 0 if the connection broke before it.
        whole: the response came to its end.
        sent, first, ended: monotonic seconds; `first` is of the first text, infinite without any.
    """

    status: int
    body: bytes
    whole: bool
    sent: float
    first: float
    ended: float

    @property
    def ttft_s(self) -> float:
        return self.first - self.sent

    @property
    def total_s(self) -> float:
        return self.ended - self.sent


class Connection(asyncio.Protocol):
    """TCP_NODELAY is on, as it is on every transport of asyncio and uvloop.

    Args:
        own: the socket, which both event loops have a different way to get at.
        quick_ack: what arrives is acknowledged at once, and not when the kernel thinks fit.
    """

    def __init__(self, own: socket.socket, quick_ack: bool) -> None:
        self._socket = own
        self._quick_ack = quick_ack
        self._transport: asyncio.Transport | None = None
        self._done: asyncio.Future[bool] | None = None
        self._begin()

    @classmethod
    async def open(cls, url: str, quick_ack: bool = False) -> Self:
        """Raises OSError."""
        where = urlsplit(url)
        loop = asyncio.get_running_loop()
        own = socket.socket()
        own.setblocking(False)
        try:
            await loop.sock_connect(own, (where.hostname, where.port))
            _, connection = await loop.create_connection(lambda: cls(own, quick_ack), sock=own)
        except BaseException:
            own.close()
            raise
        return connection

    @property
    def usable(self) -> bool:
        """For another request."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Answer:
        """Cancelled, it leaves: the connection is closed."""
        assert self._transport is not None
        self._begin()
        self._done = asyncio.get_running_loop().create_future()
        sent = time.monotonic()
        if self.usable:
            self._transport.write(request)
        else:
            self._done.set_result(False)
        try:
            whole = await self._done
        except asyncio.CancelledError:
            self.leave()
            raise
        ended = time.monotonic()
        if whole and not self._parser.should_keep_alive():
            self.leave()
        return Answer(self._status, bytes(self._body), whole, sent, self._first, ended)

    def leave(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._status, self._body, self._first = 0, bytearray(), float("inf")

    def _acknowledge(self) -> None:
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is of another class
        if self._quick_ack:
            self._acknowledge()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.leave()
        if self._quick_ack and self.usable:
            self._acknowledge()  # the kernel forgets it

    def connection_lost(self, error: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(False)

    # What the parser calls.

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._body += body
        if self._first == float("inf") and _TEXT.search(self._body):
            self._first = time.monotonic()

    def on_message_complete(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(True)


def lost(sent: float | None = None) -> Answer:
    """There was none."""
    now = time.monotonic()
    return Answer(0, b"", False, now if sent is None else sent, float("inf"), now)


async def ask_once(url: str, request: bytes) -> Answer:
    """On a connection of its own; status 0 if there is none to be had."""
    sent = time.monotonic()
    try:
        connection = await Connection.open(url)
    except OSError:
        return lost(sent)
    try:
        return await connection.ask(request)
    finally:
        connection.leave()
