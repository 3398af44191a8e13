"""The simulator does what is expected of an engine, and a real worker serves from it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from dllm_stack.messages import Decoding, Job, Reply, TokenPrompt
from dllm_stack.outcomes import Outcome
from dllm_stack.queue import START
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RedisSettings
from loadtest.fleet import POOL, Fleet, Size, ready, simulator
from loadtest.simulator.__main__ import CHECKPOINT
from loadtest.simulator.voice import BLOCK, Answer, Voice
from tests.queue.kit import WatchedQueue
from tests.waiting import eventually
from worker.engine.client import EngineClient, EngineRefusal, Generation, Progress

PROMPT = list(range(100, 145))
TOKENS = 200


@pytest.fixture(scope="module")
def voice() -> Voice:
    return Voice(CHECKPOINT)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[EngineClient]:
    """The worker's client of a simulator with one slot."""
    engine, url = simulator("simulator", ["--slots", "1", "--block-ms", "150"], tmp_path)
    await engine.start()
    try:
        await ready(engine)
        async with EngineClient(url) as client:
            yield client
    finally:
        await engine.kill()


def answer(voice: Voice, prompt: list[int], tokens: int) -> Answer:
    answer = Answer(voice, prompt)
    while len(answer.ids) < tokens:
        answer.extend(tokens - len(answer.ids))
    return answer


async def rest(generation: Generation) -> list[Progress]:
    events = [await generation.next()]
    while events[-1].finish is None:
        events.append(await generation.next())
    await generation.stop()
    return events


async def running(client: EngineClient) -> int:
    async with aiohttp.ClientSession() as http, http.get(f"{client.url}/v1/loads") as response:
        return int((await response.json())["loads"][0]["num_running_reqs"])


async def is_free(client: EngineClient) -> bool:
    return await running(client) == 0


@pytest.mark.parametrize("length", [1, 31, 32, 33, 45])
def test_a_broken_off_answer_continues_after_each_whole_block(voice: Voice, length: int) -> None:
    prompt = PROMPT[:length]
    whole = answer(voice, prompt, TOKENS).ids
    boundaries = [kept for kept in range(TOKENS) if (length + kept) % BLOCK == 0]
    assert len(boundaries) >= TOKENS // BLOCK
    for kept in boundaries:
        assert answer(voice, prompt + whole[:kept], TOKENS - kept).ids == whole[kept:]


def test_inside_a_block_it_does_not_as_with_the_engine(voice: Voice) -> None:
    whole = answer(voice, PROMPT, TOKENS).ids
    inside = [kept for kept in range(TOKENS) if (len(PROMPT) + kept) % BLOCK == BLOCK // 2]
    assert all(answer(voice, PROMPT + whole[:kept], TOKENS - kept).ids != whole[kept:] for kept in inside)


def test_answers_differ_and_blocks_also_end_inside_a_character(voice: Voice) -> None:
    answers = [answer(voice, [*PROMPT, number], 15 * BLOCK) for number in range(100)]
    assert len({tuple(each.ids) for each in answers}) == len(answers)
    first = BLOCK - (len(PROMPT) + 1) % BLOCK
    ends = [voice.decode(each.ids[:end]) for each in answers for end in range(first, 15 * BLOCK, BLOCK)]
    assert any(text.endswith("\N{REPLACEMENT CHARACTER}") for text in ends)
    assert not any("\N{REPLACEMENT CHARACTER}" in voice.decode(each.ids)[:-3] for each in answers)


async def test_a_stream_has_a_block_an_event_and_continues(client: EngineClient, voice: Voice) -> None:
    events = await rest(await client.generate(PROMPT, TOKENS, Decoding()))
    assert [len(event.token_ids) for event in events] == [19, *[BLOCK] * 5, 21]
    whole = [id for event in events for id in event.token_ids]
    assert whole == answer(voice, PROMPT, TOKENS).ids
    assert events[-1].finish is not None
    assert events[-1].finish.type == "length"

    kept = 19 + 2 * BLOCK
    continued = await rest(await client.generate(PROMPT + whole[:kept], TOKENS - kept, Decoding()))
    assert [id for event in continued for id in event.token_ids] == whole[kept:]


async def test_an_aborted_request_frees_its_slot(client: EngineClient) -> None:
    first = await client.generate(PROMPT, 1900, Decoding())
    await first.next()
    second = asyncio.create_task(rest(await client.generate(PROMPT, BLOCK, Decoding())))
    assert await first.stop()
    assert (await second)[-1].finish is not None
    await eventually(lambda: is_free(client))


async def test_a_vanished_client_frees_its_slot(client: EngineClient) -> None:
    async with EngineClient(client.url) as vanishing:
        await (await vanishing.generate(PROMPT, 1900, Decoding())).next()
        assert await running(client) == 1
    await eventually(lambda: is_free(client))


async def test_what_it_cannot_do_it_refuses(client: EngineClient) -> None:
    with pytest.raises(EngineRefusal, match="no stops"):
        await client.generate(PROMPT, BLOCK, Decoding(stop=["x"]))
    with pytest.raises(EngineRefusal, match="context"):
        await client.generate(PROMPT, 10_000, Decoding())


async def test_a_worker_serves_from_it(voice: Voice) -> None:
    async with Fleet(Size(gateways=0, routers=0, workers=1), pace=["--block-ms", "20"]) as fleet:
        connections = Connections(RedisSettings(url=fleet.redis_url, timeout_s=60))
        queue = WatchedQueue(connections, POOL, QueueSettings())
        job = Job(
            id=uuid.uuid4().hex,
            pool=POOL,
            gateway="g",
            prompt=TokenPrompt(PROMPT),
            decoding=Decoding(max_tokens=TOKENS),
        )
        assert await queue.admit(job) is None
        while not (dispatched := await queue.dispatch()):
            pass
        assert [each.job_id for each in dispatched] == [job.id]
        replies: list[Reply] = []
        last = START
        while not replies or replies[-1].end is None:
            last, new = await queue.replies("g", last)
            replies += new
        await connections.aclose()
    end, expected = replies[-1].end, answer(voice, PROMPT, TOKENS)
    assert end is not None
    assert (end.outcome, end.completion_tokens) == (Outcome.COMPLETED, TOKENS)
    blocks = [reply.block for reply in replies if reply.block]
    assert [id for block in blocks for id in block.token_ids] == expected.ids
    assert "".join(block.text for block in blocks) == expected.text(over=True)
