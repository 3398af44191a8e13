"""Real SGLang on two ranks: the answers of one, one series of metrics, and no rank that dies alone."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dllm_stack.local.service import free_port
from dllm_stack.messages import Decoding
from tests.engine.decoding.plain import PlainDecoder
from tests.engine.decoding.requests import prompt
from tests.engine.decoding.test_engine import PROMPTS, TOKENS, ask
from tests.engine.running import START_S, engine_command
from tests.waiting import eventually
from tests.worker.conftest import engine_children
from tests.worker.test_engine_process import gone
from worker.engine.client import EngineClient, Generation
from worker.engine.exposition import one_series
from worker.engine.process import EngineProcess

RANKS = 2
ASKED = PROMPTS[:15]  # each way of decoding once
LONG = 1900  # tokens of an answer


@pytest.mark.timeout(START_S + 300)
async def test_two_ranks_are_one_engine(model_folder: Path, plain: PlainDecoder, tmp_path: Path) -> None:
    """All in one test: it takes an engine of its own, which it ends."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = engine_command(model_folder, port, tmp_path, tp=RANKS, check_ranks=True)
    engine = await EngineProcess.start(command, url, tmp_path)
    ended = asyncio.create_task(engine.ended())
    try:
        async with EngineClient(url) as client, httpx.AsyncClient(base_url=url, timeout=300) as http:
            await eventually(partial(is_up, client, ended, engine), within_s=START_S)
            engine.watch_children()
            info = await client.info()
            assert (info.slots, info.prefill_fallback) == (command.slots, None)
            await answers_are_those_of_one(http, plain)
            await there_is_one_series(client)
            await aborted_requests_hold_nothing(client, http)

            generation = await begun(client)
            *ranks, _ = engine_children(psutil.Process(engine.pid))
            assert len(ranks) == RANKS
            everything = [psutil.Process(engine.pid), *psutil.Process(engine.pid).children(recursive=True)]
            ranks[1].kill()
            await asyncio.wait_for(ended, timeout=300)
            await engine.stop()
            assert await gone(*everything)
            await generation.stop()
    finally:
        ended.cancel()
        await engine.stop()


async def is_up(client: EngineClient, ended: asyncio.Task[str], engine: EngineProcess) -> bool:
    assert not ended.done(), engine.tail()
    return await client.is_up()


async def answers_are_those_of_one(http: httpx.AsyncClient, plain: PlainDecoder) -> None:
    together = await asyncio.gather(*(ask(http, ids, options) for ids, options in ASKED))
    alone = [await ask(http, ids, options) for ids, options in ASKED[::5]]
    for (ids, options), answer in zip([*ASKED, *ASKED[::5]], [*together, *alone], strict=True):
        assert answer == plain.answer(ids, options, TOKENS), options


async def there_is_one_series(client: EngineClient) -> None:
    text = await client.metrics()
    assert b'tp_rank="1"' in text
    families = text_string_to_metric_families(one_series(text).decode())
    samples = [each for family in families for each in family.samples]
    assert {each.labels.get("tp_rank", "0") for each in samples} == {"0"}
    series = [(each.name, *sorted(each.labels.items())) for each in samples]
    assert len(series) == len(set(series))


async def aborted_requests_hold_nothing(client: EngineClient, http: httpx.AsyncClient) -> None:
    """An abort reaches one rank only, which tells the others."""
    running = [await begun(client) for _ in range(2)]
    for each in running:
        await each.stop()

    async def none_held() -> bool:
        loads = (await http.get("/v1/loads")).json()["loads"]
        return all(load["num_used_tokens"] == 0 for load in loads)

    await eventually(none_held, within_s=300)


async def begun(client: EngineClient) -> Generation:
    """A long answer of which there is something."""
    generation = await client.generate(prompt(1, 40), LONG, Decoding(ignore_eos=True))
    await generation.next()
    return generation
