"""One client's HTTP connection: uvicorn's, made to notice every client that is gone, and to end with one that
takes its time."""

from __future__ import annotations

import asyncio
import socket
from http import HTTPStatus

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dllm_stack.outcomes import ErrorCode, Problem
from gateway.http.body import LINGER_S
from gateway.http.request_id import new_request_id
from gateway.http.sse import encode_json

# What a client that vanishes without a word, its machine off or its network cut, may leave unanswered.
_SILENT_S, _PROBE_EVERY_S, _PROBES = 30, 10, 3

MAX_HEAD_BYTES = 64 << 10
MAX_HEAD_S = 30.0
# What may be written and not sent yet, in the kernel and here besides; an answer goes on once there is less.
MAX_UNSENT_BYTES = 16 << 10
MAX_TAKE_S = 60.0  # for what of an answer is still here when the last of it is written


class Connection(HttpToolsProtocol):
    """Differs from uvicorn's in ten ways.

    - A client that sends a request before it has the answer to the one before is cut off. uvicorn would
      put the request aside and read no further, and so not see that client go away.
    - A client that has not sent a whole request is idle, and cut off as such.
    - Headers have a limit, in bytes and in seconds.
    - What is left of a body once its request is answered has a limit, in seconds.
    - Less of an answer is written ahead of a client that reads slowly.
    - What is left of an answer has a limit, in seconds: uvicorn would wait for one who takes a byte now and
      then.
    - A client that vanishes is found out by the kernel.
    - White space behind a header's value is no part of it.
    - What is no HTTP is refused in the shape of every other error.
    - An offer to go on in another protocol, which Java's client makes with its first request, is declined by
      answering the request; uvicorn would lose its body.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.parser = _Parser(self)  # type: ignore[assignment]
        self._head_timer: asyncio.TimerHandle | None = None  # there while headers are being received
        self._head_bytes = 0
        self._receives = False  # a request, from the first byte to the last
        self._end_timers: list[asyncio.TimerHandle] = []  # of the request that was answered last
        transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        peer: socket.socket = transport.get_extra_info("socket")
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT_BYTES)
        _watch(peer)
        self._limit_idleness()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_end_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_timer is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(ErrorCode.INVALID_VALUE, f"The headers take more than {MAX_HEAD_BYTES} bytes.")
        self._limit_idleness()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._receives = True
        self._head_bytes = 0
        self._stop_head_timer()
        self._head_timer = self.loop.call_later(MAX_HEAD_S, self._refuse_slow_head)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():  # the parser begins again
            return
        self._stop_head_timer()
        if self._is_answering():
            raise ConnectionError("the request before is not answered yet")
        self._stop_end_timers()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._receives = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._receives:
            self._end_timers.append(self.loop.call_later(LINGER_S, self._end_unsent_request))
        if self.transport.get_write_buffer_size():
            self._end_timers.append(self.loop.call_later(MAX_TAKE_S, self._end_untaken_answer))

    def send_400_response(self, msg: str) -> None:
        self._refuse(ErrorCode.INVALID_VALUE, msg)

    def _refuse_slow_head(self) -> None:
        self._refuse(ErrorCode.REQUEST_TIMEOUT, f"The headers did not arrive within {MAX_HEAD_S:g} s.")

    def _refuse(self, code: ErrorCode, message: str) -> None:
        self._stop_head_timer()
        if not self._is_answering():  # else it would come between the parts of an answer
            problem = Problem(code, message)
            body = encode_json(problem.body())
            status = f"{problem.status} {HTTPStatus(problem.status).phrase}".encode()
            self.transport.write(_REFUSAL % (status, len(body), new_request_id().encode()) + body)
        self.transport.close()

    def _end_unsent_request(self) -> None:
        if self._receives:
            self.transport.close()

    def _end_untaken_answer(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _limit_idleness(self) -> None:
        if self.timeout_keep_alive_task is None and not self._is_answering():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_end_timers(self) -> None:
        for timer in self._end_timers:
            timer.cancel()
        self._end_timers.clear()


class _Parser:
    """httptools', which takes what follows the headers of a request that offers another protocol for that
    protocol, and not for the request's body. Such a request is read once more without its offer."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._parser = HttpRequestParser(connection)

    def feed_data(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as offer:
            if self.get_method() == b"CONNECT":  # this is no request for anything here
                raise HttpParserError from None
            head = self._head_without_offer()
            self._parser = HttpRequestParser(self._connection)
            self.feed_data(head + data[offer.args[0] :])

    def get_method(self) -> bytes:
        return self._parser.get_method()

    def get_http_version(self) -> str:
        return self._parser.get_http_version()

    def should_keep_alive(self) -> bool:
        return self._parser.should_keep_alive()

    def should_upgrade(self) -> bool:
        return self._parser.should_upgrade()

    def _head_without_offer(self) -> bytes:
        version = self.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.get_method(), self._connection.url, version)]
        lines += [b"%s: %s" % field for field in self._connection.headers if field[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])


_REFUSAL = (
    b"HTTP/1.1 %s\r\n"
    b"content-type: application/json\r\n"
    b"content-length: %d\r\n"
    b"x-request-id: %s\r\n"
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
