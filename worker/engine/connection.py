"""One HTTP/1.1 connection to a server, and one answer after the other on it.

A client library makes objects, timers and tasks of every request and of every piece of its answer, which
takes several times as long as all that is done here.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Protocol, cast

import httptools

from worker.engine.events import Events

MOST_UNREAD = 256 << 10  # bytes that may wait for the reader; beyond, the server waits
LONGEST_HEAD = 64 << 10  # bytes, also of all together that come before an answer's own
LONGEST_EVENT = 256 << 20  # bytes; it has all tokens of the answer, and what is told of each
_REST_S = 1.0  # for what is left of an answer that nobody reads on


class HttpError(Exception):
    """There is no connection, or it broke, or what comes is no HTTP."""


class Unheard(HttpError):
    """The connection broke before a byte of the answer had come."""


class Pool(Protocol):
    """Whose connections they are."""

    def freed(self, connection: Connection) -> None:
        """It may be used again."""

    def lost(self, connection: Connection) -> None: ...


class Answer:
    """To one request. One task at a time may wait for it.

    Args:
        events: of a 200 the body is cut into events; any other comes as it comes.

    Attributes:
        status: HTTP's; 0 until the head has come.
        ended: nothing more comes, for whatever reason.
    """

    def __init__(self, connection: Connection, *, events: bool) -> None:
        self.status = 0
        self.ended = False
        self._connection = connection
        self._events = Events() if events else None
        self._loop = asyncio.get_running_loop()
        self._parts: deque[bytes] = deque()
        self._unread = 0
        self._paused = False
        self._left = False
        self._error: HttpError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = math.inf

    async def head(self) -> None:
        """Returns once `status` is known.

        Raises:
            HttpError
        """
        while not self.status:
            self._check()
            await self._more(math.inf)

    async def next(self, within_s: float = math.inf) -> bytes | None:
        """The next event, or piece of the body; None once there is no more. May be awaited again after it was
        cancelled.

        Raises:
            HttpError: after all that came before the connection broke.
            TimeoutError: nothing has come within this time.
        """
        while (part := self.came()) is None:
            self._check()
            if self.ended:
                return None
            await self._more(within_s)
        return part

    def came(self) -> bytes | None:
        """As `next`, if it is there already."""
        if not self._parts:
            return None
        part = self._parts.popleft()
        self._unread -= len(part)
        if self._paused and self._unread <= MOST_UNREAD // 2:
            self._read_on()
        return part

    async def body(self, most: int) -> bytes:
        """All of it, or so many bytes of it. The connection is closed if that is not all, or if this is
        cancelled.

        Raises:
            HttpError
        """
        found = bytearray()
        try:
            while len(found) < most and (part := await self.next()) is not None:
                found += part
        finally:
            self.close()
        return bytes(found[:most])

    def leave(self) -> None:
        """Nobody reads on. If the rest comes soon, the connection can be used again."""
        if self.ended or self._left:
            return
        self._left = True
        self._parts.clear()
        self._stop_timer()
        self._timer = self._loop.call_later(_REST_S, self.close)
        if self._paused:
            self._read_on()

    def close(self) -> None:
        """Nobody reads on, and the server shall notice."""
        self.break_off("it was closed")

    def break_off(self, why: str) -> None:
        """Closes the connection. `next` raises this, also where it is awaited already."""
        if not self.ended:
            self._parts.clear()
            self._connection.drop(why)

    # What the connection calls.

    def begin(self, status: int) -> None:
        self.status = status
        if status != 200:
            self._events = None
        self._wake()

    def add(self, data: bytes) -> None:
        if self._left:
            return
        if self._events is None:
            self._parts.append(data)
            self._unread += len(data)
        else:
            for event in self._events.feed(data):
                self._parts.append(event)
                self._unread += len(event)
            if self._events.unfinished > LONGEST_EVENT:
                self._connection.drop(f"an event has more than {LONGEST_EVENT} bytes")
        if self._parts:
            self._wake()
            if self._unread > MOST_UNREAD and not self._paused:
                self._paused = True
                self._connection.pause()

    def end(self, error: HttpError | None = None) -> None:
        self.ended = True
        self._error = error
        self._stop_timer()
        if self._paused:
            self._read_on()
        self._wake()

    def _read_on(self) -> None:
        self._paused = False
        self._connection.resume()

    def _check(self) -> None:
        if self._error is not None:
            # Another one, as what is raised holds those who were awaiting it, and they hold this.
            raise type(self._error)(*self._error.args)

    async def _more(self, within_s: float) -> None:
        """Returns once something has come, or the end."""
        self._deadline = self._loop.time() + within_s
        if within_s < math.inf and (self._timer is None or self._timer.when() > self._deadline):
            self._stop_timer()
            self._timer = self._loop.call_at(self._deadline, self._look)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _look(self) -> None:
        """Whether the wait of now takes too long: it may have begun after the one that this timer was made
        for. One timer for each wait would cost more than the wait."""
        self._timer = None
        if self._waiter is None or self._waiter.done() or self._deadline == math.inf:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        else:
            self._waiter.set_exception(TimeoutError())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Connection(asyncio.Protocol):
    """Also what httptools' parser calls."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._answer: Answer | None = None  # that has not ended
        self._heard = 0  # bytes of it, until its head has come
        self._until_closed = True  # nothing else says where it ends

    @property
    def is_lost(self) -> bool:
        return self._transport.is_closing()

    def ask(self, request: bytes, *, events: bool) -> Answer:
        self._answer = Answer(self, events=events)
        self._heard = 0
        self._transport.write(request)
        return self._answer

    def drop(self, why: str) -> None:
        self._transport.abort()
        self._end(HttpError(why) if self._heard else Unheard(why))

    def break_off(self, why: str) -> None:
        if self._answer is not None:
            self._answer.break_off(why)
        else:
            self.drop(why)

    def pause(self) -> None:
        if not self.is_lost:
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self.is_lost:
            self._transport.resume_reading()

    def _end(self, error: HttpError | None) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.end(error)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is of another class

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.drop("the server sent what nobody had asked for")
            return
        answer = self._answer
        if not answer.status:
            self._heard += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.drop(f"what the server sent is no HTTP: {error!r}")
        if not answer.status and self._heard > LONGEST_HEAD:
            self.drop(f"the head of an answer has more than {LONGEST_HEAD} bytes")

    def connection_lost(self, error: Exception | None) -> None:
        del self._parser  # which holds this
        self._pool.lost(self)
        if error is None and self._answer is not None and self._answer.status and self._until_closed:
            self._end(None)
        elif self._heard:
            self._end(HttpError(f"the connection broke in the answer: {error or 'closed'}"))
        else:
            self._end(Unheard(f"the connection broke before the answer: {error or 'closed'}"))

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._until_closed = True
        if self._answer is None:
            self.drop("the server sent more than it was asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._until_closed = False

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._answer is not None and status >= 200:  # below, the answer is still to come
            self._answer.begin(status)

    def on_body(self, body: bytes) -> None:
        if self._answer is not None:
            self._answer.add(body)

    def on_message_complete(self) -> None:
        if self._answer is None or not self._answer.status:
            return
        self._end(None)
        if self._parser.should_keep_alive() and not self._transport.get_write_buffer_size():
            self._pool.freed(self)
        else:
            self._transport.abort()
