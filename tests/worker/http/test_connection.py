"""What one connection makes of the bytes that come, however they come."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress
from typing import cast

import pytest

from tests.worker.http.raw_server import CHUNKED, HEAD, LAST_CHUNK, answer, chunk, event
from worker.engine import connection as connections
from worker.engine.connection import Answer, Connection, HttpError, Unheard
from worker.engine.events import Events


class FakeTransport:
    """Stands where a socket's would, which puts together and takes apart what is sent as it likes."""

    def __init__(self) -> None:
        self.closing = False
        self.reading = True
        self.unsent = 0
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Line:
    """A connection, and what has become of it."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.free = 0
        self.lost_ones = 0
        self.connection = Connection(self)
        self.connection.connection_made(cast(asyncio.Transport, self.transport))

    def freed(self, connection: Connection) -> None:
        self.free += 1

    def lost(self, connection: Connection) -> None:
        self.lost_ones += 1

    def asked(self, *, events: bool = True) -> Answer:
        return self.connection.ask(b"GET / HTTP/1.1\r\n\r\n", events=events)

    def hear(self, *pieces: bytes) -> None:
        for piece in pieces:
            if not self.transport.closing:
                self.connection.data_received(piece)

    def hang_up(self, error: Exception | None = None) -> None:
        self.transport.closing = True
        self.connection.connection_lost(error)


async def parts(answer: Answer, found: list[bytes] | None = None) -> list[bytes]:
    """All of it, which has come."""
    found = [] if found is None else found
    await answer.head()
    while (part := await asyncio.wait_for(answer.next(), 120)) is not None:
        found.append(part)
    return found


EVENTS = [b'{"a":1}', b'{"text":"\\n\xe4\xb8\xad"}', b'{"b":[1,2,3]}']
STREAM = event(EVENTS[0]) + b": still here\n\n" + event(EVENTS[1]) + event(EVENTS[2]) + b"data: [DONE]\n\n"
CHUNKS = b"".join(map(chunk, (STREAM[:9], STREAM[9:30], STREAM[30:])))
ANSWERS = {
    "chunked": CHUNKED + CHUNKS + LAST_CHUNK,
    "chunked, with a trailer": CHUNKED + CHUNKS + b"0\r\nx-took: 1\r\n\r\n",
    "after a hint": b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + answer(STREAM),
    "a length": answer(STREAM),
    "to be closed": answer(STREAM, more="connection: close\r\n"),
    "until closed": HEAD + b"\r\n" + STREAM,
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\n" + STREAM,
}
CLOSED = ("to be closed", "until closed", "HTTP/1.0")


@pytest.mark.parametrize("kind", ANSWERS)
async def test_wherever_an_answer_is_cut_its_events_are_the_same(kind: str) -> None:
    whole = ANSWERS[kind]
    for at in range(len(whole)):
        line = Line()
        asked = line.asked()
        line.hear(*filter(None, (whole[:at], whole[at:])))
        if kind in ("until closed", "HTTP/1.0"):
            line.hang_up()
        assert await parts(asked) == EVENTS, at
        assert (line.free, line.transport.closing) == ((0, True) if kind in CLOSED else (1, False))


@pytest.mark.parametrize("kind", ANSWERS)
async def test_an_answer_may_come_in_single_bytes(kind: str) -> None:
    line = Line()
    for _ in range(1 if kind in CLOSED else 3):
        asked = line.asked()
        line.hear(*(ANSWERS[kind][at : at + 1] for at in range(len(ANSWERS[kind]))))
        if kind in CLOSED:
            line.hang_up()
        assert await parts(asked) == EVENTS


@pytest.mark.parametrize("kind", ["chunked", "a length"])
async def test_an_answer_that_breaks_is_told_from_one_that_ends(kind: str) -> None:
    """Wherever it breaks; and what has come before is not lost."""
    whole = ANSWERS[kind]
    for at in range(len(whole)):
        line = Line()
        asked = line.asked()
        line.hear(*filter(None, [whole[:at]]))
        line.hang_up(ConnectionResetError("reset") if at % 2 else None)
        found: list[bytes] = []
        with pytest.raises(HttpError) as raised:
            await parts(asked, found)
        assert found == EVENTS[: len(found)]
        assert isinstance(raised.value, Unheard) == (at == 0)
        assert not line.free


@pytest.mark.parametrize(
    "heard",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nhello",
    ],
)
async def test_what_is_no_answer_closes_the_connection(heard: bytes) -> None:
    line = Line()
    asked = line.asked()
    line.hear(heard)
    with pytest.raises(HttpError):
        await parts(asked)
    assert line.transport.closing
    assert not line.free


async def test_what_nobody_has_asked_for_closes_the_connection() -> None:
    for behind in (b"x", answer(b"{}")):
        line = Line()
        asked = line.asked(events=False)
        line.hear(answer(b"{}") + behind)
        assert await parts(asked) == [b"{}"]
        assert line.transport.closing
        line = Line()
        line.hear(behind)
        assert line.transport.closing


async def test_a_request_that_is_not_sent_yet_may_be_answered() -> None:
    """As one that is too large; the rest of it would be taken for the next one."""
    line = Line()
    asked = line.asked()
    line.transport.unsent = 1
    line.hear(answer(b"too large", "413 Content Too Large"))
    assert await parts(asked) == [b"too large"]
    assert line.transport.closing
    assert not line.free


async def test_only_a_200_is_cut_into_events() -> None:
    line = Line()
    asked = line.asked()
    line.hear(answer(event(b"{}"), "503 Service Unavailable"))
    assert await parts(asked) == [event(b"{}")]
    assert asked.status == 503


async def test_of_a_long_body_no_more_is_read_than_wanted() -> None:
    for length, most in ((10, 11), (10, 10), (10, 3)):
        line = Line()
        asked = line.asked(events=False)
        line.hear(CHUNKED, chunk(b"x" * length))
        if length < most:
            line.hear(LAST_CHUNK)
        assert await asked.body(most) == b"x" * min(length, most)
        assert line.transport.closing == (length >= most)


async def test_a_reader_that_is_slow_makes_the_server_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_UNREAD", 20)
    line = Line()
    asked = line.asked()
    documents = [b'{"number":%d}' % number for number in range(9)]
    line.hear(CHUNKED)
    sent = 0
    found: list[bytes] = []
    for _ in documents:
        while sent < len(documents) and line.transport.reading:
            line.hear(chunk(event(documents[sent])))
            sent += 1
        assert sent - len(found) <= 3
        part = await asked.next()
        assert part is not None
        found.append(part)
    assert found == documents
    line.hear(LAST_CHUNK)
    assert line.transport.reading


async def test_an_event_that_is_longer_than_what_may_wait_is_read_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MOST_UNREAD", 20)
    line = Line()
    asked = line.asked()
    document = b'{"text":"%s"}' % (b"x" * 1000)
    sent = chunk(event(document))
    line.hear(CHUNKED, sent[:500], sent[500:900])
    assert line.transport.reading
    line.hear(sent[900:])
    assert not line.transport.reading
    assert await asked.next() == document
    assert line.transport.reading


async def test_an_event_without_end_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LONGEST_EVENT", 1000)
    line = Line()
    asked = line.asked()
    line.hear(CHUNKED, chunk(event(b"{}")), *[chunk(b"x" * 300)] * 4)
    assert await asked.next() == b"{}"
    with pytest.raises(HttpError, match="more than 1000 bytes"):
        await asked.next()
    assert line.transport.closing


@pytest.mark.parametrize(
    "piece", [b"x-more: x\r\n", b"\r\nHTTP/1.1 103 Early Hints\r\n"], ids=["one head", "hint after hint"]
)
async def test_a_head_without_end_has_one(monkeypatch: pytest.MonkeyPatch, piece: bytes) -> None:
    monkeypatch.setattr(connections, "LONGEST_HEAD", 1000)
    line = Line()
    asked = line.asked()
    line.hear(answer(b"x" * 2000))  # which is no head
    assert await parts(asked) == []
    asked = line.asked()
    line.hear(b"HTTP/1.1 103 Early Hints\r\n", *[piece] * 100)
    assert line.transport.closing
    with pytest.raises(HttpError, match="more than 1000 bytes"):
        await asked.head()


@pytest.mark.parametrize("heard", [[], [CHUNKED], [answer(b"{}")]])
async def test_what_is_over_is_gone_without_the_garbage_collector(heard: list[bytes]) -> None:
    gc.disable()
    try:
        line = Line()
        asked = line.asked()
        line.hear(*heard)
        line.hang_up()
        with suppress(HttpError):
            await asked.next()
        gone = weakref.ref(asked), weakref.ref(line.connection)
        del asked, line.connection
        assert (gone[0](), gone[1]()) == (None, None)
    finally:
        gc.enable()


async def test_a_paused_connection_can_be_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer's end has come with what was too much; or nobody reads on."""
    monkeypatch.setattr(connections, "MOST_UNREAD", 1)
    line = Line()
    asked = line.asked()
    line.hear(CHUNKED + chunk(event(EVENTS[0])) + LAST_CHUNK)
    assert line.transport.reading
    assert line.free == 1
    left = line.asked()
    line.hear(CHUNKED + chunk(event(EVENTS[0])))
    assert not line.transport.reading
    left.leave()
    assert line.transport.reading
    line.hear(chunk(event(EVENTS[1])) + LAST_CHUNK)
    assert line.free == 2
    assert await parts(asked) == EVENTS[:1]
    assert await left.next() is None


async def test_an_answer_that_was_left_has_to_end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_REST_S", 0.05)
    line = Line()
    asked = line.asked()
    line.hear(CHUNKED)
    asked.leave()
    with pytest.raises(HttpError, match="closed"):
        await asyncio.wait_for(asked.next(), 120)
    assert line.transport.closing
    assert not line.free


async def test_each_wait_has_its_limit() -> None:
    line = Line()
    asked = line.asked()
    loop = asyncio.get_running_loop()

    async def next_event(within_s: float) -> bytes | None:
        loop.call_soon(line.hear, chunk(event(b"{}")))
        return await asked.next(within_s)

    line.hear(CHUNKED)
    assert await next_event(3600) == b"{}"
    with pytest.raises(TimeoutError):  # sooner than the one before would have had
        await asyncio.wait_for(asked.next(0.02), 120)
    assert await next_event(3600) == b"{}"
    for _ in range(3):  # it may be awaited on
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asked.next(0.02), 120)
    reading = asyncio.create_task(asked.next())  # without one, after some that had
    await asyncio.sleep(0.05)
    assert not reading.done()
    line.hear(chunk(event(b"{}")) + LAST_CHUNK)
    assert await reading == b"{}"
    assert asked._timer is None


async def test_a_wait_that_began_later_ends_later() -> None:
    """One timer stands for all waits: that of the first is due in the midst of the second."""
    line = Line()
    asked = line.asked()
    line.hear(CHUNKED)
    loop = asyncio.get_running_loop()
    loop.call_soon(line.hear, chunk(event(b"{}")))
    assert await asked.next(0.2) == b"{}"
    await asyncio.sleep(0.1)
    began = loop.time()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asked.next(0.2), 120)
    assert loop.time() - began > 0.15


async def test_whoever_waits_is_told_that_it_is_given_up() -> None:
    line = Line()
    asked = line.asked()
    line.hear(CHUNKED, chunk(event(b"{}")))
    assert await asked.next() == b"{}"
    reading = asyncio.create_task(asked.next())
    await asyncio.sleep(0)
    line.connection.break_off("the engine has been given up")
    with pytest.raises(HttpError, match="given up"):
        await reading
    with pytest.raises(HttpError, match="given up"):
        await asked.next()
    unread = Line()
    asked = unread.asked()
    unread.hear(CHUNKED, chunk(event(b"{}")))
    unread.connection.break_off("the engine has been given up")
    with pytest.raises(HttpError, match="given up"):
        await asked.next()


def test_events_are_cut_wherever_they_come_apart() -> None:
    for first in range(len(STREAM) + 1):
        for second in range(first, len(STREAM) + 1):
            events = Events()
            pieces = filter(None, (STREAM[:first], STREAM[first:second], STREAM[second:]))
            assert [each for piece in pieces for each in events.feed(piece)] == EVENTS
            assert not events.unfinished
