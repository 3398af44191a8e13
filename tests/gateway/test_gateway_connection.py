"""Connections of clients that do not keep to the rules, or stop half-way."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import SupportsIndex

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from gateway.http import body, connection
from gateway.http.connection import MAX_HEAD_BYTES, MAX_UNSENT_BYTES
from gateway.http.room import BODIES, Room
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, serving, until

REQUEST = b'POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: 30\r\n\r\n{"text": "Hi", "stream": true}'


class Reader(asyncio.StreamReader):
    """Keeps what has come: a reset takes it away from asyncio's, but from no client that reads at once."""

    def __init__(self) -> None:
        super().__init__()
        self.came = bytearray()

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        self.came += bytes(data)
        super().feed_data(data)


async def _connect(served: Served) -> tuple[Reader, asyncio.StreamWriter]:
    loop, reader = asyncio.get_running_loop(), Reader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.create_connection(lambda: protocol, "127.0.0.1", served.port)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


@pytest.mark.parametrize("more", [REQUEST, b"no HTTP"])
async def test_a_client_that_does_not_wait_for_its_answer_is_cut_off(
    served: Served, worker: FakeWorker, more: bytes
) -> None:
    reader, writer = await _connect(served)
    writer.write(REQUEST)
    run = await worker.claimed()
    await run.commit("part")
    assert b"part" in await asyncio.wait_for(reader.readuntil(b"\n\n"), 120)
    writer.write(more)
    assert b"400" not in await asyncio.wait_for(reader.read(), 120), "inside of an answer"
    await asyncio.wait_for(run.cancelled.wait(), 120)
    assert await served.outcomes() == {("generate", "tiny", "cancelled", ""): 1}
    writer.close()


async def test_so_is_one_that_sends_two_requests_at_once(served: Served, worker: FakeWorker) -> None:
    reader, writer = await _connect(served)
    writer.write(REQUEST + REQUEST)
    assert await asyncio.wait_for(reader.read(), 120) == b""
    await until(lambda: not served.gateway.ledger.open)
    writer.close()


async def test_what_is_no_http_gets_an_error_of_the_usual_shape(served: Served) -> None:
    reader, writer = await _connect(served)
    writer.write(b"no HTTP\r\n\r\n")
    head, body = (await asyncio.wait_for(reader.read(), 120)).split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    error = json.loads(body)["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_value", None)
    writer.close()


@pytest.mark.parametrize("pieces", [1, 7, 1000])
@pytest.mark.parametrize("offer", [b"h2c", b"websocket"])
async def test_an_offer_of_another_protocol_costs_no_body(
    served: Served, worker: FakeWorker, offer: bytes, pieces: int
) -> None:
    """Java's client makes one with its first request."""
    head, body = REQUEST.split(b"\r\n\r\n")
    head += b"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " + offer + b"\r\nHTTP2-Settings: AAEAAEAA"
    request = head + b"\r\n\r\n" + body
    reader, writer = await _connect(served)
    for _ in range(2):  # on one connection
        size = -(-len(request) // pieces)
        for start in range(0, len(request), size):
            writer.write(request[start : start + size])
            await writer.drain()
            await asyncio.sleep(0)
        run = await worker.claimed()
        await run.commit("text")
        await run.finish()
        assert b"[DONE]" in await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 120)
    writer.close()


async def test_white_space_behind_a_header_is_no_part_of_it(served: Served, worker: FakeWorker) -> None:
    _, writer = await _connect(served)
    writer.write(REQUEST.replace(b"host: x", b"host: x\r\nX-Tenant-ID: acme \t\r\nX-Session-ID:  a b  "))
    job = (await worker.claimed()).job
    assert (job.tenant, job.session) == ("acme", "a b")
    writer.close()


async def test_a_tunnel_is_refused(served: Served) -> None:
    reader, writer = await _connect(served)
    writer.write(b"CONNECT example.org:443 HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (await asyncio.wait_for(reader.read(), 120)).startswith(b"HTTP/1.1 400 ")
    writer.close()


@pytest.mark.parametrize("sent", [b"", b"POST /generate HTTP/1.1\r\nhost:"])
async def test_a_client_that_sends_no_whole_request_is_cut_off(served: Served, sent: bytes) -> None:
    served.server.config.timeout_keep_alive = 1
    reader, writer = await _connect(served)
    writer.write(sent)
    assert await asyncio.wait_for(reader.read(), 120) == b""
    writer.close()


async def test_a_request_under_way_is_not_idle(served: Served, worker: FakeWorker) -> None:
    _, writer = await _connect(served)
    writer.write(REQUEST)
    await worker.claimed()
    (connection,) = served.server.server_state.connections
    assert isinstance(connection, HttpToolsProtocol)
    assert connection.timeout_keep_alive_task is None
    writer.close()


async def test_the_kernel_looks_for_clients_that_vanish(served: Served) -> None:
    _, writer = await _connect(served)
    (connection,) = await until(lambda: served.server.server_state.connections)
    peer = connection.transport.get_extra_info("socket")
    assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == MAX_UNSENT_BYTES
    writer.close()


async def test_endless_headers_are_refused(served: Served) -> None:
    reader, writer = await _connect(served)
    writer.write(b"GET /healthz HTTP/1.1\r\n")

    async def go_on() -> None:
        while True:
            writer.write(b"x-padding: " + b"x" * 1000 + b"\r\n")
            await writer.drain()

    # The refusal itself is lost when the connection is closed on bytes that are still on their way.
    with pytest.raises(ConnectionError):
        await go_on()
    with suppress(ConnectionError):
        assert not (await reader.read()).startswith(b"HTTP/1.1 200")


async def test_headers_just_too_long_are_refused(served: Served) -> None:
    reader, writer = await _connect(served)
    head = b"GET /healthz HTTP/1.1\r\nx-padding: "
    writer.write(head + b"x" * (MAX_HEAD_BYTES - len(head)))
    await writer.drain()
    writer.write(b"x")
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"headers" in answer
    writer.close()


async def drip(writer: asyncio.StreamWriter) -> None:
    """Now and then a byte, so that the connection is never idle."""
    with suppress(ConnectionError, RuntimeError):  # the latter is uvloop's for a transport that is closed
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)


async def refusal(reader: Reader, writer: asyncio.StreamWriter) -> tuple[bytes, str]:
    """The status line and error code that a client gets while it drips."""
    dripping = asyncio.create_task(drip(writer))
    with suppress(ConnectionResetError):  # a drop was on its way
        await asyncio.wait_for(reader.read(), 120)
    head, body = bytes(reader.came).split(b"\r\n\r\n", 1)
    dripping.cancel()
    writer.close()
    return head.split(b"\r\n")[0], re.findall(r'"code":"(\w+)"', body.decode())[0]


async def test_slow_headers_are_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_HEAD_S", 0.3)
    reader, writer = await _connect(served)
    writer.write(b"GET /healthz HTTP/1.1\r\nx-")
    assert await refusal(reader, writer) == (b"HTTP/1.1 408 Request Timeout", "request_timeout")
    await until(lambda: not served.server.server_state.connections)


async def test_the_time_for_headers_is_each_request_s_own(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_HEAD_S", 0.3)
    reader, writer = await _connect(served)
    began = asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() < began + 0.7:
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b'{"status":"ok"}'), 120)
    writer.close()


async def test_a_slow_body_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "LINGER_S", 0.1)
    changed = settings.gateway.model_copy(update={"body_timeout_s": 0.3})
    async with serving(settings.model_copy(update={"gateway": changed})) as served:
        reader, writer = await _connect(served)
        writer.write(b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: 90000\r\n\r\n{")
        assert await refusal(reader, writer) == (b"HTTP/1.1 408 Request Timeout", "request_timeout")
        await until(lambda: not served.server.server_state.connections)
        assert await served.outcomes() == {("generate", "other", "rejected", "request_timeout"): 1}


def _holds(room: Room, most: int) -> bool:
    return room.bytes == most


async def test_half_sent_bodies_make_room_for_those_that_are_sent(
    settings: Settings, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "LINGER_S", 0.1)
    most = settings.gateway.max_body_bytes
    part = b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: 90000\r\n\r\n" + b" " * 80_000
    fit = BODIES * most // 80_000
    answering = FakeWorker(connections, settings.queue, blocks=["Hello"])
    async with answering.working(), serving(settings) as served:
        room, slow = served.gateway.room, []
        for number in range(1, 2 * fit + 1):
            slow.append(await _connect(served))
            slow[-1][1].write(part)
            await until(partial(_holds, room, min(number, fit) * 80_000))
        for reader, _ in slow[:fit]:
            answer = await asyncio.wait_for(reader.read(), 120)
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert b'"code":"gateway_full"' in answer
        honest = {"text": "x" * (most - 100), "sampling_params": {"max_new_tokens": 1}}
        assert (await served.http.post("/generate", json=honest)).json()["text"] == "Hello"
        # That took the room of one or two more; the others may still send the rest.
        reader, writer = slow[-1]
        writer.write(b'{"text": "Hi"}'.ljust(10_000))
        assert (await asyncio.wait_for(reader.readline(), 120)).startswith(b"HTTP/1.1 200 ")
        for _, writer in slow:
            writer.close()
        await until(lambda: not served.gateway.ledger.open)
        assert room.bytes == 0


async def test_a_body_that_nobody_asked_for_is_not_awaited(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LINGER_S", 0.3)
    reader, writer = await _connect(served)
    writer.write(b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 90000\r\n\r\n{")
    assert await refusal(reader, writer) == (b"HTTP/1.1 404 Not Found", "not_found")
    await until(lambda: not served.server.server_state.connections)


async def test_a_slow_reader_holds_no_slot_and_gets_all(served: Served, worker: FakeWorker) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1024)
    writer.write(REQUEST)
    run = await worker.claimed()
    for _ in range(4):
        await run.commit("x" * 500_000)
    await run.finish()
    assert served.gateway.ledger.open, "not all of it fits what is written ahead"
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)
    while not answer.endswith(b"[DONE]\n\n\r\n0\r\n\r\n"):
        answer += await asyncio.wait_for(reader.read(1 << 20), 120)
    assert (
        answer.count(b"x" * 500_000) == 4 * 5 // 2 + 4
    )  # each event repeats the answer, and so does the end
    writer.close()


@pytest.mark.parametrize("header", [b"", b"connection: close\r\n"])
async def test_an_answer_that_is_taken_a_byte_at_a_time_is_given_up(
    served: Served, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch, header: bytes
) -> None:
    monkeypatch.setattr(connection, "MAX_TAKE_S", 0.3)
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", served.port))
    slow.send(REQUEST.replace(b"host: x\r\n", b"host: x\r\n" + header).replace(b"true", b"null"))
    run = await worker.claimed()
    for _ in range(4):
        await run.commit("x" * 2_000_000)
    await run.finish()
    await until(lambda: not served.gateway.ledger.open)
    while served.server.server_state.connections:
        slow.recv(1)
        await asyncio.sleep(0.01)
    slow.close()
