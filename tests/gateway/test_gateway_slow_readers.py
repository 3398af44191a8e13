"""Readers that are slower than the engine cost the gateway little, and get all of it in the end."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.http.channel import Channel
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

BLOCK, BLOCKS = "0123456789abcdef" * 64, 300  # KiB
ALL = BLOCK * BLOCKS


async def test_what_is_rendered_ahead_is_bounded(
    pair: tuple[Served, FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """/generate's events are all of the answer so far: 45 MB of 300 KB."""
    served, worker = pair
    written: list[int] = []
    write = Channel.write

    async def counted(channel: Channel, body: bytes, *, more: bool) -> None:
        written.append(len(body))
        await write(channel, body, more=more)

    monkeypatch.setattr(Channel, "write", counted)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=2**16)
    body = json.dumps({"text": "Hi", "stream": True}).encode()
    writer.write(b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    run = await worker.claimed()
    for _ in range(BLOCKS):
        await run.commit(BLOCK)
    await run.finish()
    # Its slot is free, and it has been sent but a part.
    await until(lambda: sum(written) > 0)
    assert not worker.runs
    assert sum(written) < 20 * len(ALL)
    received = bytearray()
    while not received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"):
        piece = await asyncio.wait_for(reader.read(2**20), 120)
        assert piece, received[-500:]
        received += piece
    writer.close()
    last = received.decode().rsplit("data: {", 1)[1]
    assert last.count(BLOCK) == BLOCKS
    assert max(written) < 3 * len(ALL)
