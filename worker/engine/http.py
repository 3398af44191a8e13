"""HTTP to one server, over connections that are used again."""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit

from worker.engine.connection import Answer, Connection, HttpError, Unheard

__all__ = ["Answer", "Http", "HttpError"]

_CONNECT_S = 5.0
# uvicorn closes an idle connection after 5 s; one that we use again must not be about to close.
_KEEP_ALIVE_S = 2.0


class Http:
    """
    Args:
        url: of the server, without a path. https is trusted as OpenSSL is set up here.
    """

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._tls = ssl.create_default_context() if where.scheme == "https" else None
        self._host, self._port = where.hostname or "", where.port or (80 if self._tls is None else 443)
        self._common = f"host: {where.netloc.rpartition('@')[2]}\r\n"
        if where.username is not None:
            login = unquote(f"{where.username}:{where.password or ''}")
            key = base64.b64encode(login.encode()).decode()
            self._common += f"authorization: Basic {key}\r\n"
        self._connections: set[Connection] = set()
        self._idle: dict[Connection, float] = {}  # since when, in monotonic seconds; the longest comes first
        self.closed = False

    async def ask(
        self,
        method: str,
        path: str,
        body: Callable[[], bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        events: bool = False,
    ) -> Answer:
        """Returns when the head of the answer has come. Cancelled, it closes the connection.

        A server may close a connection just when it is used again. What was asked on it is then asked once
        more on a new one: a request that got no byte of an answer was most likely not even read, and none
        does harm twice. A generation that was begun all the same ends with its connection.

        Args:
            body: makes the JSON that is sent; called again for what is asked once more.
            events: see `Answer`.

        Raises:
            HttpError
        """
        if (connection := self._kept()) is not None:
            try:
                return await _answered(connection, self._request(method, path, body, headers), events)
            except Unheard:
                if self.closed:
                    raise
        return await _answered(await self._connect(), self._request(method, path, body, headers), events)

    def close(self, why: str) -> None:
        """Ends all connections; whoever waits for an answer is told why."""
        self.closed = True
        for connection in [*self._connections]:
            connection.break_off(why)

    def _request(
        self, method: str, path: str, body: Callable[[], bytes] | None, headers: Mapping[str, str] | None
    ) -> bytes:
        lines = f"{method} {path} HTTP/1.1\r\n{self._common}"
        for name, value in (headers or {}).items():
            lines += f"{name}: {value}\r\n"
        if body is None:
            return f"{lines}\r\n".encode()
        content = body()
        lines += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        return lines.encode() + content

    def _kept(self) -> Connection | None:
        """One that is not in use, and was lately."""
        self._drop_old()
        while self._idle:
            connection, _ = self._idle.popitem()
            if not connection.is_lost:
                return connection
        return None

    def _drop_old(self) -> None:
        oldest = time.monotonic() - _KEEP_ALIVE_S
        while self._idle and (connection := next(iter(self._idle))) and self._idle[connection] < oldest:
            del self._idle[connection]
            connection.drop("it was idle")

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_S):
                _, connection = await loop.create_connection(
                    lambda: Connection(self), self._host, self._port, ssl=self._tls
                )
        except TimeoutError:
            raise HttpError(f"no connection in {_CONNECT_S:g} s") from None
        except (OSError, UnicodeError) as error:
            raise HttpError(f"no connection: {error}") from error
        if self.closed or connection.is_lost:
            connection.drop("")
            raise HttpError("the connection was closed at once")
        self._connections.add(connection)
        return connection

    # What connections call.

    def freed(self, connection: Connection) -> None:
        self._drop_old()
        self._idle[connection] = time.monotonic()

    def lost(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._idle.pop(connection, None)


async def _answered(connection: Connection, request: bytes, events: bool) -> Answer:
    answer = connection.ask(request, events=events)
    try:
        await answer.head()
    except BaseException:
        answer.close()
        raise
    return answer
