"""What a request may choose of its decoding, what reaches the worker of it, and what is refused by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai.types.chat import ChatCompletionMessageParam

from dllm_stack.capabilities import DRAWING
from dllm_stack.decoding import ALGORITHMS, Decision, Sampling
from dllm_stack.messages import Decoding, DecodingCard, ModelCard
from dllm_stack.queue import Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings, Settings
from tests.gateway.fake_worker import FakeWorker, Run
from tests.gateway.served import Served, serving, until

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hi"}]
SPEED = Decision(algorithm="JointThreshold", parameters={"threshold": 0.5, "edit_threshold": 0.0})
QUALITY = Decision(algorithm="LowConfidence", parameters={"threshold": 0.95})
CARD = DecodingCard(
    default=SPEED,
    modes={"speed": SPEED, "quality": QUALITY},
    algorithms={name: sorted(takes) for name, takes in ALGORITHMS.items()} | {"Mine": []},
    sampling=["LowConfidence"],
)
INVALID, UNSUPPORTED, NOT_FOUND = "invalid_value", "unsupported_parameter", "model_not_found"


@pytest.fixture
async def choosing(connections: Connections, settings: Settings) -> AsyncIterator[FakeWorker]:
    """A worker whose model has modes, and whose runs the test drives."""
    async with FakeWorker(connections, settings.queue, decoding=CARD).working() as worker:
        yield worker


Ask = dict[str, Any]


async def decoded(served: Served, worker: FakeWorker, path: str, body: Ask) -> Decoding:
    """What the worker is told of a request's decoding, lengths and stops left out."""
    request = asyncio.create_task(served.http.post(path, json=body))
    run = await worker.claimed()
    await run.finish()
    response = await request
    assert response.status_code == 200, response.text
    told = run.job.decoding
    return Decoding(mode=told.mode, decision=told.decision, sampling=told.sampling)


def joint(**parameters: float) -> Decision:
    return Decision(algorithm="JointThreshold", parameters={**SPEED.parameters, **parameters})


CHOICES: list[tuple[str, Ask, Decoding]] = [
    ("tiny", {}, Decoding()),
    ("tiny", {"mode": None}, Decoding()),
    ("tiny:quality", {}, Decoding(mode="quality")),
    ("tiny", {"mode": "quality"}, Decoding(mode="quality")),
    ("tiny:quality", {"mode": "quality", "stats": False}, Decoding(mode="quality")),
    ("tiny", {"threshold": 1}, Decoding(decision=joint(threshold=1))),
    ("tiny:speed", {"edit_threshold": 0.25}, Decoding(decision=joint(edit_threshold=0.25))),
    (
        "tiny",
        {"mode": "quality", "threshold": 0.5},
        Decoding(decision=Decision(algorithm="LowConfidence", parameters={"threshold": 0.5})),
    ),
    ("tiny", {"algorithm": "Hierarchical"}, Decoding(decision=Decision(algorithm="Hierarchical"))),
    (
        "tiny",
        {"algorithm": "Credit", "credit_decay": 0.5, "max_steps": 40},
        Decoding(decision=Decision(algorithm="Credit", parameters={"credit_decay": 0.5, "max_steps": 40})),
    ),
    (
        "tiny",
        {"algorithm": "Mine", "greed": 7},
        Decoding(decision=Decision(algorithm="Mine", parameters={"greed": 7})),
    ),
]


@pytest.mark.parametrize(("model", "dllm", "told"), CHOICES, ids=str)
async def test_a_choice_reaches_the_worker(
    served: Served, choosing: FakeWorker, model: str, dllm: Ask, told: Decoding
) -> None:
    chat = {"model": model, "messages": MESSAGES, "dllm": dllm}
    assert await decoded(served, choosing, "/v1/chat/completions", chat) == told
    completion = {"model": model, "prompt": "Hi", "dllm": dllm}
    assert await decoded(served, choosing, "/v1/completions", completion) == told
    generate = {"model": model, "text": "Hi", "sampling_params": {"custom_params": {"dllm": dllm}}}
    assert await decoded(served, choosing, "/generate", generate) == told


async def test_the_sdk_asks_by_alias_and_by_extra_body(served: Served, choosing: FakeWorker) -> None:
    async def ask(**how: Any) -> Any:
        return await served.openai.chat.completions.create(messages=MESSAGES, **how)

    for how, decoding in (
        ({"model": "tiny:quality"}, Decoding(mode="quality")),
        ({"model": "tiny", "extra_body": {"dllm": {"mode": "quality"}}}, Decoding(mode="quality")),
    ):
        request = asyncio.create_task(ask(**how))
        run = await choosing.claimed()
        assert (run.job.pool, run.job.decoding) == ("tiny", decoding)
        await run.finish()
        assert (await request).model == how["model"]
    assert {label[1] for label in await served.outcomes()} == {"tiny"}


async def test_sampling_reaches_the_worker(served: Served, choosing: FakeWorker) -> None:
    sampling = Sampling(temperature=0.7, top_p=0.9, top_k=5, seed=2**63 - 1)
    body = {"model": "tiny:quality", "temperature": 0.7, "top_p": 0.9, "top_k": 5, "seed": 2**63 - 1}
    told = Decoding(mode="quality", sampling=sampling)
    assert await decoded(served, choosing, "/v1/completions", {**body, "prompt": "Hi"}) == told
    params = {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "sampling_seed": 2**63 - 1}
    generate = {"model": "tiny:quality", "text": "Hi", "sampling_params": params}
    assert await decoded(served, choosing, "/generate", generate) == told


async def test_all_tokens_may_be_sampled(served: Served, choosing: FakeWorker) -> None:
    body = {"model": "tiny:quality", "prompt": "Hi", "temperature": 1, "top_k": -1, "seed": 0}
    told = await decoded(served, choosing, "/v1/completions", body)
    assert told.sampling == Sampling(temperature=1.0)


def sampled(run: Run) -> Sampling:
    assert run.job.decoding.sampling is not None
    return run.job.decoding.sampling


async def test_without_a_seed_each_job_gets_one_that_its_attempts_share(
    served: Served, choosing: FakeWorker
) -> None:
    body = {"model": "tiny:quality", "prompt": ["Hi", "Hi"], "temperature": 1}
    request = asyncio.create_task(served.http.post("/v1/completions", json=body))
    first, second = [await choosing.claimed() for _ in range(2)]
    seeds = {run.job.id: sampled(run).seed for run in (first, second)}
    assert len(set(seeds.values())) == 2
    assert all(0 < seed < 2**63 for seed in seeds.values())
    await first.give_back()
    again = await choosing.claimed()
    assert (again.job.id, again.attempt) == (first.job.id, first.attempt + 1)
    assert sampled(again).seed == seeds[first.job.id]
    for run in (again, second):
        await run.finish()
    assert (await request).status_code == 200


@pytest.mark.parametrize("neutral", [{"top_p": 1}, {"top_k": -1}, {"top_k": 0}, {"top_k": 1}, {"seed": None}])
async def test_neutral_values_pass_without_a_temperature(
    served: Served, choosing: FakeWorker, neutral: Ask
) -> None:
    body = {"model": "tiny", "prompt": "Hi", "temperature": 0, **neutral}
    assert await decoded(served, choosing, "/v1/completions", body) == Decoding()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def refusing(redis_settings: RedisSettings) -> AsyncIterator[Served]:
    """A gateway that knows a model with modes, and one that nobody has loaded. There is no worker."""
    connections = Connections(redis_settings)
    card = ModelCard(
        name="tiny",
        context_length=4096,
        block_size=32,
        algorithm="JointThreshold",
        created=0,
        decoding=CARD,
        capabilities=sorted(DRAWING),
    )
    await connections.commands.flushall()
    await Registry(connections).publish("tiny", card)
    await Registry(connections).publish("unloaded", None)
    await connections.aclose()
    async with serving(Settings(redis=redis_settings)) as served:
        await served.gateway.catalogue.refresh()
        yield served


REFUSALS: list[tuple[Ask, str, str, str]] = [
    ({"model": "tiny:turbo"}, "model", NOT_FOUND, "the modes of tiny are speed, quality"),
    ({"model": "tiny:"}, "model", NOT_FOUND, "the modes of tiny"),
    ({"model": "tiny:speed:quality"}, "model", NOT_FOUND, "the modes of tiny"),
    ({"model": "none:speed"}, "model", NOT_FOUND, "does not exist"),
    ({"dllm": {"mode": "turbo"}}, "dllm.mode", INVALID, "must be a mode of tiny: speed, quality"),
    ({"dllm": {"mode": 5}}, "dllm.mode", INVALID, "must be a string"),
    ({"dllm": {"mode": "speed", "algorithm": "Credit"}}, "dllm.algorithm", INVALID, "beside a mode"),
    ({"model": "tiny:speed", "dllm": {"algorithm": "Credit"}}, "dllm.algorithm", INVALID, "beside a mode"),
    ({"model": "tiny:speed", "dllm": {"mode": "quality"}}, "dllm.mode", INVALID, "differs from the mode"),
    ({"dllm": {"algorithm": "Best"}}, "dllm.algorithm", INVALID, "must be an algorithm of tiny: Low"),
    ({"dllm": {"algorithm": ["Credit"]}}, "dllm.algorithm", INVALID, "must be a string"),
    ({"dllm": {"stats": "yes"}}, "dllm.stats", INVALID, "must be a boolean"),
    ({"dllm": {"threshold": 1.5}}, "dllm.threshold", INVALID, "<= 1"),
    ({"dllm": {"threshold": -1}}, "dllm.threshold", INVALID, ">= 0"),
    ({"dllm": {"threshold": "0.5"}}, "dllm.threshold", INVALID, "must be a number"),
    ({"dllm": {"threshold": True}}, "dllm.threshold", INVALID, "must be a number"),
    ({"dllm": {"max_steps": 0}}, "dllm.max_steps", INVALID, ">= 1"),
    ({"dllm": {"max_steps": 2.5}}, "dllm.max_steps", INVALID, "max_steps"),
    ({"dllm": {"max_steps": 10**30}}, "dllm.max_steps", INVALID, "max_steps"),
    ({"dllm": {"entropy_bound": 1}}, "dllm.entropy_bound", UNSUPPORTED, "not a parameter of JointThreshold"),
    ({"dllm": {"mode": "quality", "edit_threshold": 1}}, "dllm.edit_threshold", UNSUPPORTED, "LowConfidence"),
    ({"dllm": {"surprise": 1}}, "dllm.surprise", UNSUPPORTED, "which takes edit_threshold"),
    ({"dllm": {"algorithm": "Mine", "greed": "much"}}, "dllm.greed", INVALID, "must be a number"),
    ({"dllm": {"algorithm": "Mine", "greed": 10**30}}, "dllm.greed", INVALID, "must be from -2^53 to 2^53"),
    ({"dllm": {"algorithm": "Mine", "max_steps": 10**9}}, "dllm.max_steps", INVALID, "<= 1024"),
    ({"dllm": []}, "dllm", INVALID, "object"),
    ({"temperature": 0.5}, "temperature", UNSUPPORTED, "JointThreshold, which takes the most probable"),
    (
        {"temperature": 1, "dllm": {"algorithm": "Credit"}},
        "temperature",
        UNSUPPORTED,
        "choose LowConfidence",
    ),
    ({"model": "tiny:quality", "temperature": 2.5}, "temperature", INVALID, "less than or equal to 2"),
    ({"model": "tiny:quality", "top_p": 0.5}, "top_p", UNSUPPORTED, "without a temperature above 0"),
    ({"model": "tiny:quality", "top_k": 2}, "top_k", UNSUPPORTED, "without a temperature above 0"),
    ({"model": "tiny:quality", "seed": 2}, "seed", UNSUPPORTED, "without a temperature above 0"),
    ({"model": "tiny:quality", "temperature": 1, "min_p": 0.1}, "min_p", UNSUPPORTED, "only top_p and top_k"),
]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("change", "param", "code", "says"), REFUSALS, ids=lambda value: str(value)[:50])
async def test_a_wrong_choice_is_refused_by_name(
    refusing: Served, change: Ask, param: str, code: str, says: str
) -> None:
    for path, body in (
        ("/v1/chat/completions", {"model": "tiny", "messages": MESSAGES}),
        ("/v1/completions", {"model": "tiny", "prompt": "Hi"}),
    ):
        response = await refusing.http.post(path, json={**body, **change})
        assert response.status_code == (404 if code == NOT_FOUND else 400)
        error = response.json()["error"]
        assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)
        assert param in error["message"] or code == NOT_FOUND
        assert says in error["message"]


@pytest.mark.asyncio(loop_scope="module")
async def test_generate_names_its_own_fields(refusing: Served) -> None:
    for params, param in (
        ({"custom_params": {"dllm": {"threshold": 7}}}, "sampling_params.custom_params.dllm.threshold"),
        ({"temperature": 1}, "sampling_params.temperature"),
        ({"sampling_seed": 1}, "sampling_params.sampling_seed"),
        ({"top_k": 9}, "sampling_params.top_k"),
    ):
        body = {"model": "tiny", "text": "Hi", "sampling_params": params}
        response = await refusing.http.post("/generate", json=body)
        assert response.status_code == 400
        assert response.json()["error"]["param"] == param


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "change",
    [
        {"model": "unloaded:speed"},
        {"model": "unloaded:"},
        {"dllm": {"mode": "speed"}},
        {"dllm": {"stats": True}},
        {"temperature": 1},
    ],
)
async def test_a_model_that_nobody_has_loaded_yet_is_to_be_asked_later(refusing: Served, change: Ask) -> None:
    body = {"model": "unloaded", "prompt": "Hi", **change}
    response = await refusing.http.post("/v1/completions", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "no_worker")
    assert int(response.headers["retry-after"]) > 0


async def test_a_model_tells_what_may_be_chosen(served: Served, choosing: FakeWorker) -> None:
    await until(served.gateway.catalogue.all)
    (listed,) = (await served.http.get("/v1/models")).json()["data"]
    assert listed["decoding"] == {
        "default": {"algorithm": "JointThreshold", "threshold": 0.5, "edit_threshold": 0.0},
        "modes": {
            "speed": {"algorithm": "JointThreshold", "threshold": 0.5, "edit_threshold": 0.0},
            "quality": {"algorithm": "LowConfidence", "threshold": 0.95},
        },
        "algorithms": CARD.algorithms,
        "sampling": ["LowConfidence"],
    }
    client = served.openai
    assert (await client.models.retrieve("tiny:quality")).id == "tiny:quality"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("tiny:turbo")
