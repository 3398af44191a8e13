"""Requests to a server of which nothing can be relied on."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from dllm_stack.messages import Decoding, Trace
from tests.waiting import eventually
from tests.worker.http.raw_server import (
    CHUNKED,
    LAST_CHUNK,
    LIMIT_S,
    Request,
    Talk,
    answer,
    chunk,
    event,
    raw_server,
)
from worker.engine import generation as generations
from worker.engine import http as https
from worker.engine.client import EngineClient, EngineFault, EngineRefusal, Generation
from worker.engine.http import Http, HttpError

FINISHED = {"output_ids": [5, 6], "meta_info": {"finish_reason": {"type": "length"}}}
BLOCK = {"output_ids": [5], "meta_info": {}}
END = event(b"[DONE]")
STREAM = b"".join(event(json.dumps(each).encode()) for each in (BLOCK, FINISHED)) + END
WHOLE = CHUNKED + chunk(STREAM) + LAST_CHUNK


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is too old because the machine stands still for a while."""
    monkeypatch.setattr(https, "_KEEP_ALIVE_S", 3600.0)


@asynccontextmanager
async def http(url: str) -> AsyncIterator[Http]:
    client = Http(url)
    yield client
    client.close("the test is over")


async def got(client: Http, path: str = "/") -> bytes:
    return await (await client.ask("GET", path)).body(1 << 20)


async def generated(client: EngineClient) -> list[int]:
    generation = await client.generate([1], 4, Decoding())
    try:
        return await read(generation)
    finally:
        await generation.stop()


async def read(generation: Generation) -> list[int]:
    tokens: list[int] = []
    while True:
        progress = await generation.next(LIMIT_S)
        tokens += progress.token_ids
        if progress.finish is not None:
            return tokens


async def echo(talk: Talk) -> None:
    """The number of the connection, and the path."""
    while True:
        request = await talk.request()
        await talk.say(answer(f"{talk.number} {request.path}".encode()))


async def test_a_connection_is_used_again() -> None:
    async with raw_server(echo) as server, http(server.url) as client:
        assert [await got(client, f"/{turn}") for turn in range(3)] == [b"1 /0", b"1 /1", b"1 /2"]
        both = await asyncio.gather(got(client, "/a"), got(client, "/b"))
        assert sorted(both) == [b"1 /a", b"2 /b"]
    await eventually(server.nobody_is_there)


async def test_a_connection_that_was_idle_for_long_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https, "_KEEP_ALIVE_S", 0.0)
    async with raw_server(echo) as server, http(server.url) as client:
        for turn in range(3):
            assert await got(client) == f"{turn + 1} /".encode()
            await asyncio.sleep(0.01)
        assert len(client._connections) == 1


async def test_what_a_request_says() -> None:
    said: list[Request] = []

    async def listen(talk: Talk) -> None:
        while True:
            said.append(await talk.request())
            await talk.say(answer(b"{}"))

    async with raw_server(listen) as server, http(server.url.replace("//", "//me:p%40ss@")) as client:
        await got(client, "/model_info")
        trace = {"traceparent": "00-1-2-01"}
        await client.ask("POST", "/generate", lambda: b'{"a":1}', trace)
    get, post = said
    host = server.url.removeprefix("http://")
    common = {"host": host, "authorization": "Basic bWU6cEBzcw=="}
    assert get == Request("GET", "/model_info", common, b"")
    length = {"content-type": "application/json", "content-length": "7"}
    assert post == Request("POST", "/generate", common | trace | length, b'{"a":1}')


async def test_a_trace_goes_along() -> None:
    said: list[Request] = []

    async def listen(talk: Talk) -> None:
        said.append(await talk.request())
        await talk.say(WHOLE)

    async with raw_server(listen) as server, EngineClient(server.url) as client:
        generation = await client.generate([1], 4, Decoding(), trace=Trace("00-ab-cd-01", "vendor=1"))
        await read(generation)
    assert (said[0].headers["traceparent"], said[0].headers["tracestate"]) == ("00-ab-cd-01", "vendor=1")


async def test_a_request_that_meets_the_end_of_its_connection_is_sent_again() -> None:
    """By another id: the engine refuses one that it has just seen."""
    ids: list[str] = []

    async def serve(talk: Talk) -> None:
        ids.append(json.loads((await talk.request()).body)["rid"])
        await talk.say(WHOLE)
        ids.append(json.loads((await talk.request()).body)["rid"])  # which is all that comes of it

    async with raw_server(serve) as server, EngineClient(server.url) as client:
        for _ in range(3):
            assert await generated(client) == [5, 6]
    assert server.made == 3
    assert len(set(ids)) == 5


async def test_a_request_on_a_new_connection_is_not_sent_again() -> None:
    asked = 0

    async def serve(talk: Talk) -> None:
        nonlocal asked
        await talk.request()
        asked += 1

    async with raw_server(serve) as server, EngineClient(server.url) as client:
        with pytest.raises(EngineFault, match="before the answer"):
            await client.generate([1], 4, Decoding())
    assert asked == 1


async def test_a_request_of_which_the_answer_has_begun_is_not_sent_again() -> None:
    begun = 0

    async def serve(talk: Talk) -> None:
        nonlocal begun
        await talk.request()
        await talk.say(answer(b"{}"))
        await talk.request()
        begun += 1
        await talk.say(b"H")

    async with raw_server(serve) as server, http(server.url) as client:
        await got(client)
        with pytest.raises(HttpError, match="in the answer"):
            await got(client)
    assert begun == 1


async def test_no_request_is_lost_to_connections_that_are_closed_at_any_moment() -> None:
    """Behind an answer, a while later, abruptly, or just when the next request comes."""
    random.seed(7)

    async def serve(talk: Talk) -> None:
        for _ in range(random.randrange(1, 5)):
            await talk.request()
            await talk.say(WHOLE)
        match random.randrange(4):
            case 0:
                await talk.cut_off()
            case 1:
                await asyncio.sleep(random.random() / 200)
            case 2:
                await talk.request()

    async def requests(client: EngineClient) -> None:
        for _ in range(40):
            assert await asyncio.wait_for(generated(client), LIMIT_S) == [5, 6]
            if random.random() < 0.3:
                await asyncio.sleep(random.random() / 200)

    async with raw_server(serve) as server, EngineClient(server.url) as client:
        await asyncio.gather(*(requests(client) for _ in range(10)))
        assert 80 < server.made < 400
    await eventually(server.nobody_is_there)


async def test_streams_that_are_cancelled_at_random_leave_nothing() -> None:
    random.seed(11)
    ends: dict[str, asyncio.Event] = {}

    async def serve(talk: Talk) -> None:
        while True:
            request = await talk.request()
            rid = json.loads(request.body)["rid"]
            if request.path == "/abort_request":
                if random.random() < 0.1:
                    return
                ends[rid].set()
                await talk.say(answer(b"{}"))
                continue
            ended = ends[rid] = asyncio.Event()
            await pause()
            await talk.say(CHUNKED)
            for _ in range(random.randrange(5)):
                if not ended.is_set():
                    await talk.say(chunk(event(json.dumps(BLOCK).encode())))
                    await pause()
            if random.random() < 0.1:
                return
            if random.random() < 0.5 and await talk.unless_gone(ended):
                return
            await talk.say(chunk(STREAM) + LAST_CHUNK)

    async def pause() -> None:
        await asyncio.sleep(random.random() / 100)

    async def one(client: EngineClient) -> None:
        stream = asyncio.create_task(generated(client))
        await asyncio.wait({stream}, timeout=random.random() / 20)
        stream.cancel()
        with suppress(EngineFault, asyncio.CancelledError):
            await stream

    async def some(client: EngineClient) -> None:
        for _ in range(20):
            await one(client)

    async with raw_server(serve) as server:
        async with EngineClient(server.url) as client:
            mine = asyncio.all_tasks()
            await asyncio.gather(*(some(client) for _ in range(50)))

            async def only_idle_ones() -> bool:
                return client._http._connections == {*client._http._idle}

            await eventually(only_idle_ones)

            async def as_many_there() -> bool:
                return len(server.open) == len(client._http._idle)

            await eventually(as_many_there)
        await eventually(server.nobody_is_there)

        async def no_task_more() -> bool:
            return asyncio.all_tasks() <= mine

        await eventually(no_task_more)


async def test_the_end_of_a_stream_is_not_waited_for() -> None:
    """The answer is whole with its last event. What follows is read all the same, and the connection used."""
    said_all = asyncio.Event()

    async def serve(talk: Talk) -> None:
        while True:
            await talk.request()
            await talk.say(CHUNKED + chunk(STREAM.removesuffix(END)))
            await said_all.wait()
            await talk.say(chunk(END) + LAST_CHUNK)

    async with raw_server(serve) as server, EngineClient(server.url) as client:
        assert await asyncio.wait_for(generated(client), LIMIT_S) == [5, 6]
        assert not client._http._idle
        said_all.set()

        async def is_idle() -> bool:
            return len(client._http._idle) == 1

        await eventually(is_idle)
        assert await generated(client) == [5, 6]
        assert server.made == 1


@pytest.mark.parametrize(
    ("status", "body", "raised", "told"),
    [
        ("400 Bad Request", b'{"error":{"message":"no"}}', EngineRefusal, '{"error":{"message":"no"}}'),
        ("400 Bad Request", b" no \n", EngineRefusal, "^no$"),
        ("400 Bad Request", b"\xff\xfe", EngineRefusal, "\ufffd\ufffd"),
        ("500 Internal Server Error", b"Internal Server Error", EngineFault, "failed: Internal"),
        ("503 Service Unavailable", b"", EngineFault, "no reason given, HTTP status 503"),
        ("307 Temporary Redirect", b"", EngineFault, "no reason given, HTTP status 307"),
    ],
)
async def test_errors_are_told(status: str, body: bytes, raised: type[Exception], told: str) -> None:
    async def serve(talk: Talk) -> None:
        while True:
            await talk.request()
            await talk.say(answer(body, status))

    async with raw_server(serve) as server, EngineClient(server.url) as client:
        for _ in range(2):
            with pytest.raises(raised, match=told):
                await client.generate([1], 4, Decoding())
        assert server.made == 1
        assert not await client.is_up()
        with pytest.raises(EngineFault, match=f"/server_info with HTTP status {status[:3]}"):
            await client.info()


async def test_errors_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not end, and one that is silent."""
    monkeypatch.setattr(generations, "_ERROR_S", 0.05)

    async def serve(talk: Talk) -> None:
        await talk.request()
        head = b"HTTP/1.1 400 Bad Request\r\ntransfer-encoding: chunked\r\n\r\n"
        await talk.say(head)
        if talk.number == 2:
            await talk.client_gone()
        while True:
            await talk.say(chunk(b"no " * 1000))

    async with raw_server(serve) as server, EngineClient(server.url) as client:
        monkeypatch.setattr(generations, "_ERROR_S", LIMIT_S)
        with pytest.raises(EngineRefusal) as endless:
            await client.generate([1], 4, Decoding())
        assert 1990 < len(str(endless.value)) <= 2000
        monkeypatch.setattr(generations, "_ERROR_S", 0.05)
        with pytest.raises(EngineRefusal, match="no reason given, HTTP status 400"):
            await client.generate([1], 4, Decoding())
        await eventually(server.nobody_is_there)


async def test_a_stream_that_breaks_says_first_what_has_come() -> None:
    last = b""

    async def serve(talk: Talk) -> None:
        if (await talk.request()).path == "/generate":
            await talk.say(CHUNKED + chunk(event(json.dumps(BLOCK).encode())) + last)

    async with raw_server(serve) as server, EngineClient(server.url) as client:
        for last, told in ((b"", "broke: .* closed"), (b"5\r\n", "broke"), (LAST_CHUNK, "ended before")):  # noqa: B007
            generation = await client.generate([1], 4, Decoding())
            assert (await generation.next()).token_ids == [5]
            with pytest.raises(EngineFault, match=told):
                await generation.next()
            assert not await generation.stop()


async def test_a_huge_event_comes_whole_and_a_slow_reader_is_waited_for() -> None:
    """Of 2 MiB, however it is cut on its way; and of as much in many events no more is held here than may
    be."""
    ids = [*range(1 << 18)]
    huge = {"output_ids": ids, "meta_info": {"finish_reason": {"type": "length"}}}
    small = event(json.dumps({"output_ids": [7] * 1000, "meta_info": {}}).encode())

    async def serve(talk: Talk) -> None:
        await talk.request()
        await talk.say(CHUNKED + chunk(event(json.dumps(huge).encode())) + LAST_CHUNK)
        await talk.request()
        await talk.say(CHUNKED)
        for _ in range(1000):
            await talk.say(chunk(small))
        await talk.say(chunk(STREAM) + LAST_CHUNK)

    async with raw_server(serve) as server, EngineClient(server.url) as client:
        assert await generated(client) == ids
        client._streams_deltas = True
        generation = await client.generate([1], 4, Decoding())

        async def is_full() -> bool:
            return generation._answer._paused

        await eventually(is_full)
        await asyncio.sleep(0.1)
        assert generation._answer._unread < 1 << 20
        tokens = await read(generation)
        assert len(tokens) == 1000 * 1000 + 3
        await generation.stop()


async def test_who_is_silent_is_given_up_in_time() -> None:
    head = b""

    async def serve(talk: Talk) -> None:
        await talk.request()
        await talk.say(head)
        await talk.client_gone()

    async with raw_server(serve) as server, EngineClient(server.url) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.generate([1], 4, Decoding())
        await eventually(server.nobody_is_there)
        head = CHUNKED
        generation = await client.generate([1], 4, Decoding())
        with pytest.raises(TimeoutError):
            await generation.next(0.05)
        assert not await generation.stop()
        assert not await generation.stop()
        await eventually(server.nobody_is_there)
        assert not await client.is_healthy(0.05)


async def test_a_server_that_takes_no_connection_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        async with http(f"http://127.0.0.1:{nobody.getsockname()[1]}") as client:
            with pytest.raises(HttpError, match=r"no connection: .*refused"):
                await client.ask("GET", "/")
        monkeypatch.setattr(https, "_CONNECT_S", 0.05)
        nobody.listen(0)
        with socket.create_connection(nobody.getsockname()):  # and no further one fits
            async with http(f"http://127.0.0.1:{nobody.getsockname()[1]}") as client:
                with pytest.raises(HttpError, match=r"no connection in 0\.05 s"):
                    await client.ask("GET", "/")
    async with http(f"http://{'a' * 70}.b") as client:  # as no name can be
        with pytest.raises(HttpError, match="no connection"):
            await client.ask("GET", "/")


async def test_who_has_given_it_up_gets_no_connection() -> None:
    """Neither one that is being made."""
    async with raw_server(echo) as server:
        client = Http(server.url)
        asking = asyncio.create_task(client.ask("GET", "/"))
        await asyncio.sleep(0)
        client.close("the engine has been given up")
        with pytest.raises(HttpError):
            await asyncio.wait_for(asking, LIMIT_S)
        await eventually(server.nobody_is_there)
        assert not client._connections


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
async def test_https(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(  # noqa: ASYNC221
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files],
        check=True,
        capture_output=True,
    )
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)

    async def serve(talk: Talk) -> None:
        while True:
            await talk.request()
            await talk.say(WHOLE)

    async with raw_server(serve, tls) as server:
        async with EngineClient(server.url) as stranger:
            with pytest.raises(EngineFault, match="CERTIFICATE_VERIFY_FAILED"):
                await stranger.generate([1], 4, Decoding())
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        made = server.made
        async with EngineClient(server.url) as client:
            for _ in range(3):
                assert await generated(client) == [5, 6]
        assert server.made == made + 1
