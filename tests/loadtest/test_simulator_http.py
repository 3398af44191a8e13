"""The simulator's HTTP, from the test's own event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from dllm_stack.messages import Decoding
from loadtest.simulator.__main__ import CHECKPOINT
from loadtest.simulator.engine import Pace, SimulatedEngine
from loadtest.simulator.fixed import FixedPace
from loadtest.simulator.http import listen
from loadtest.simulator.rounds import MeasuredPace
from loadtest.simulator.server import Server
from loadtest.simulator.table import Table
from loadtest.simulator.voice import BLOCK, Voice
from tests.waiting import eventually
from worker.engine.client import EngineClient, Progress
from worker.prompt import Renderer


@dataclass
class Served:
    engine: SimulatedEngine
    port: int


@pytest.fixture(scope="module")
def voice() -> Voice:
    return Voice(CHECKPOINT)


@pytest.fixture
async def served(voice: Voice) -> AsyncIterator[Served]:
    async with serving(voice, MeasuredPace(Table.read("h200"))) as served:
        yield served


@asynccontextmanager
async def serving(voice: Voice, pace: Pace) -> AsyncIterator[Served]:
    engine = SimulatedEngine(voice, 16, pace)
    server = await listen(Server(engine, Renderer.load(str(CHECKPOINT), None, 4096), 2048), "127.0.0.1", 0)
    yield Served(engine, server.sockets[0].getsockname()[1])
    server.close()


def post(path: str, body: dict[str, Any], version: str = "1.1") -> bytes:
    encoded = json.dumps(body).encode()
    head = f"POST {path} HTTP/{version}\r\nhost: x\r\ncontent-length: {len(encoded)}\r\n\r\n"
    return head.encode() + encoded


def chat(*, stream: bool) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": "Hello."}],
        "max_tokens": 2 * BLOCK,
        "stream": stream,
        "stream_options": {"include_usage": True},
    }


async def test_an_answer_tells_what_each_block_has_cost(served: Served) -> None:
    seen: list[Progress] = []
    async with EngineClient(f"http://127.0.0.1:{served.port}") as client:
        generation = await client.generate([7] * 40, 3 * BLOCK, Decoding())
        while not seen or seen[-1].finish is None:
            seen.append(await generation.next())
    blocks = [block for progress in seen for block in progress.blocks()]
    assert [len(block.token_ids) for block in blocks] == [24, BLOCK, BLOCK, 8]
    for block in blocks:
        first, *others = block.work
        assert first.forwards == first.steps + 1 > 1
        assert not any(work.forwards or work.steps or work.edits for work in others)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_connection_is_used_again(served: Served, stream: bool) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    answers = []
    for _ in range(2):
        writer.write(post("/v1/chat/completions", chat(stream=stream)))
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"connection: keep-alive" in head
        if stream:
            body = await reader.readuntil(b"data: [DONE]\n\n\r\n0\r\n\r\n")
            last = body.split(b"data: ")[-2]
            answers.append(json.loads(last.split(b"\n\n")[0])["usage"])
        else:
            length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
            answers.append(json.loads(await reader.readexactly(length))["usage"])
    writer.close()
    assert answers[0] == answers[1]
    assert answers[0]["completion_tokens"] == 2 * BLOCK


async def test_an_old_client_gets_a_stream_without_chunks(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(post("/v1/chat/completions", chat(stream=True), version="1.0"))
    answer = await reader.read()  # until it is closed
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert body.startswith(b"data: {")
    assert body.endswith(b"\n\ndata: [DONE]\n\n")


@pytest.mark.parametrize("stream", [False, True])
async def test_whoever_hangs_up_frees_its_slot(voice: Voice, stream: bool) -> None:
    async with serving(voice, FixedPace(block_s=3600)) as served:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(post("/v1/chat/completions", chat(stream=stream)))

        async def running(number: int) -> bool:
            return served.engine.running == number

        await eventually(lambda: running(1))
        writer.transport.abort()
        await eventually(lambda: running(0))
        assert served.engine.totals().completed == 0


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n", b"404"),
        (post("/generate", {"input_ids": [1], "sampling_params": {"stop": ["x"]}}), b"400"),
        (post("/generate", {"input_ids": [1], "sampling_params": {"max_new_tokens": 0}}), b"400"),
        (post("/generate", {"input_ids": "x"}), b"400"),
        (post("/v1/chat/completions", {}), b"400"),
    ],
)
async def test_what_it_does_not_know_it_refuses(served: Served, sent: bytes, status: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(sent)
    assert (await reader.readline()).split()[1] == status
    writer.close()
    assert served.engine.running == 0


async def test_what_is_no_http_ends_the_connection(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(b"hello\r\n\r\n")
    assert await reader.read() == b""
    writer.close()
