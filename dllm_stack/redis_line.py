"""One connection to Redis on which any number of commands are under way, answered in their order.

redis-py has a connection for each command that is under way, which it borrows from a pool, looks at, locks
and gives back, and it writes and reads each command by itself: at 64 at a time that is five times the CPU
time of all that is done here, and costs Redis more too. It still makes the connection: TLS, login, Sentinels.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import hiredis
from redis._parsers.base import BaseParser
from redis.exceptions import ConnectionError, InvalidResponse, ReadOnlyError
from redis.exceptions import TimeoutError as RedisTimeoutError

_NOT_YET = object()


class Connecting(Protocol):
    """A connection of redis-py's, and what it is made of."""

    async def connect(self) -> None: ...
    async def disconnect(self, nowait: bool = False) -> None: ...
    def transport(self) -> asyncio.Transport: ...


class Line:
    """Connects with the first command, and again when the connection is lost.

    Args:
        new: makes a connection, not yet connected.
        timeout_s: for a connection to be there.
    """

    def __init__(self, new: Callable[[], Connecting], timeout_s: float) -> None:
        self._new = new
        self._timeout_s = timeout_s
        self._connecting: asyncio.Task[_Wire] | None = None
        self._wire: _Wire | None = None
        self._closed = False

    async def send(self, *command: Any) -> Any:
        """What Redis answers. After a restart of Redis the connection is dead, so a command that failed in
        transit is sent once more: it must be safe to repeat.

        Raises:
            RedisError
        """
        wire = await self._connected()
        try:
            return await wire.send(command)
        except ConnectionError:
            return await (await self._connected()).send(command)

    def mistrust(self, silent_s: float) -> None:
        """Drops the connection if nothing has come from Redis for so long: its other end may be gone without
        a word."""
        if self._wire is not None and time.monotonic() - self._wire.heard > silent_s:
            self._wire.drop()

    def close(self) -> None:
        self._closed = True
        if self._wire is not None:
            self._wire.drop()

    async def _connected(self) -> _Wire:
        """It is all callers' connection that is being made: one that gives up takes it from nobody."""
        if self._wire is not None and not self._wire.lost:
            return self._wire
        if self._closed:
            raise ConnectionError("The connection to Redis is closed.")
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(_look_at)
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> _Wire:
        connection = self._new()
        try:
            async with asyncio.timeout(self._timeout_s):
                await connection.connect()
        except TimeoutError:
            await connection.disconnect(nowait=True)
            raise RedisTimeoutError(f"Redis took no connection in {self._timeout_s:g} s.") from None
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self._wire = _Wire(connection)
        if self._closed:
            self._wire.drop()
        return self._wire


def _look_at(task: asyncio.Task[_Wire]) -> None:
    """Else asyncio complains of an error that all callers had stopped waiting for."""
    if not task.cancelled():
        task.exception()


class _Wire(asyncio.Protocol):
    """
    Attributes:
        heard: when something came from Redis, in monotonic seconds.
        lost: there is no connection any more.
    """

    def __init__(self, connection: Connecting) -> None:
        self.heard = time.monotonic()
        self.lost = False
        self._connection = connection  # which would close what is its own, were it let go
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(
            protocolError=InvalidResponse, replyError=BaseParser.parse_error, notEnoughData=_NOT_YET
        )
        self._unanswered: deque[asyncio.Future[Any]] = deque()
        self._transport = connection.transport()
        self._transport.set_protocol(self)
        self.lost = self._transport.is_closing()

    def send(self, command: tuple[Any, ...]) -> asyncio.Future[Any]:
        self._transport.write(hiredis.pack_command(command))
        answer = self._loop.create_future()
        self._unanswered.append(answer)
        return answer

    def drop(self) -> None:
        self.lost = True
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self.heard = time.monotonic()
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not _NOT_YET:
            answer = self._unanswered.popleft()
            if isinstance(reply, ReadOnlyError):  # this one is the master no more; another may be
                reply = ConnectionError(str(reply))
                self.drop()
            if answer.done():
                continue  # whoever asked has gone
            if isinstance(reply, Exception):
                answer.set_exception(reply)
            else:
                answer.set_result(reply)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        for answer in self._unanswered:
            if not answer.done():
                answer.set_exception(
                    ConnectionError(f"The connection to Redis was lost: {error or 'closed'}")
                )
        self._unanswered.clear()
