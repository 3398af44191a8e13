"""One client's HTTP connection: uvicorn's, made to notice every client that is gone."""

from __future__ import annotations

import asyncio
import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dllm_stack.outcomes import ErrorCode, Problem
from gateway.sse import encode_json

# What a client that vanishes without a word, its machine off or its network cut, may leave unanswered.
_SILENT_S, _PROBE_EVERY_S, _PROBES = 30, 10, 3

MAX_HEAD_BYTES = 64 << 10
MAX_HEAD_S = 30


class Connection(HttpToolsProtocol):
    """Differs from uvicorn's in five ways.

    - A client that sends a request before it has the answer to the one before is cut off. uvicorn would
      put the request aside and read no further, and so not see that client go away.
    - A client that has not sent a whole request is idle, and cut off as such.
    - Headers have a limit, in bytes and in seconds.
    - A client that vanishes is found out by the kernel.
    - What is no HTTP is refused in the shape of every other error.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_began: float | None = None  # loop time; None: no headers are being received
        self._head_bytes = 0
        _watch(transport.get_extra_info("socket"))
        self._limit_idleness()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_began is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES or self.loop.time() - self._head_began > MAX_HEAD_S:
                self._head_began = None
                self.send_400_response(
                    f"The headers take more than {MAX_HEAD_BYTES} bytes or {MAX_HEAD_S} s."
                )
        self._limit_idleness()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_began, self._head_bytes = self.loop.time(), 0

    def on_headers_complete(self) -> None:
        self._head_began = None
        if self._is_answering():
            raise ConnectionError("the request before is not answered yet")
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if not self._is_answering():  # else it would come between the parts of an answer
            body = encode_json(Problem(ErrorCode.INVALID_VALUE, msg).body())
            self.transport.write(_BAD_REQUEST % len(body) + body)
        self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _limit_idleness(self) -> None:
        if self.timeout_keep_alive_task is None and not self._is_answering():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )


_BAD_REQUEST = (
    b"HTTP/1.1 400 Bad Request\r\n"
    b"content-type: application/json\r\n"
    b"content-length: %d\r\n"
    b"connection: close\r\n"
    b"\r\n"
)


def _watch(peer: socket.socket) -> None:
    """Makes the kernel end a connection whose other end answers nothing any more."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_EVERY_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
    # The same for a client that was being sent something.
    milliseconds = 1000 * (_SILENT_S + _PROBES * _PROBE_EVERY_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
