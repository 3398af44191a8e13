"""A tenant's limits as clients see them, over two gateways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import openai
import pytest

from dllm_stack.keys import Created, KeyStore
from dllm_stack.limits.script import prefix
from dllm_stack.outcomes import ErrorCode, Problem
from dllm_stack.redis import Connections
from dllm_stack.settings import AccessSettings, LimitSettings, Settings
from tests.gateway.fake_worker import PROMPT_TOKENS, FakeWorker
from tests.gateway.served import begun_in_time, serving, until

BODY: dict[str, Any] = {"model": "tiny", "prompt": "x" * 40, "max_tokens": 20}  # 10 tokens by estimate


@pytest.fixture
def settings(settings: Settings) -> Settings:
    changes = {"access": AccessSettings(keys="redis"), "limits": LimitSettings(blind_s=0)}
    return settings.model_copy(update=changes)


@pytest.fixture
async def key(connections: Connections) -> Created:
    return await KeyStore(connections).create("acme")


@asynccontextmanager
async def limited(
    settings: Settings, connections: Connections, key: Created, **limits: int
) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Clients of two gateways, with the key."""
    await KeyStore(connections).change_tenant("acme", limits)
    async with serving(settings) as one, serving(settings) as other:
        await until(lambda: one.gateway.access.ready and other.gateway.access.ready)
        for served in (one, other):
            served.http.headers["Authorization"] = f"Bearer {key.secret}"
        yield [one.http, other.http]


async def charged(connections: Connections) -> int:
    return int(await connections.commands.hget(prefix("acme") + "state", "tokens"))


async def ask(client: httpx.AsyncClient, **changes: Any) -> httpx.Response:
    return await client.post("/v1/completions", json=BODY | changes)


async def test_requests_a_minute(
    settings: Settings, connections: Connections, key: Created, answering: FakeWorker
) -> None:
    async with limited(settings, connections, key, requests_per_minute=5) as clients:
        answers = [await ask(clients[number % 2], stream=number == 2) for number in range(7)]
    assert [answer.status_code for answer in answers] == 5 * [200] + 2 * [429]
    left = [answer.headers["x-ratelimit-remaining-requests"] for answer in answers]
    assert left == ["4", "3", "2", "1", "0", "0", "0"]
    refused = answers[-1]
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert 0 < int(refused.headers["retry-after-ms"]) <= 60_000
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert refused.headers["x-request-id"]
    assert "x-ratelimit-limit-tokens" not in refused.headers


async def test_what_is_refused_before_costs_nothing(
    settings: Settings, connections: Connections, key: Created, answering: FakeWorker
) -> None:
    async with limited(settings, connections, key, requests_per_minute=1) as (client, _):
        assert (await ask(client, mood="good")).status_code == 400
        assert (await ask(client, model="nowhere")).status_code == 404
        assert (await client.get("/v1/models")).status_code == 200
        assert (await ask(client)).status_code == 200


async def test_tokens_are_those_of_the_usage(
    settings: Settings, connections: Connections, key: Created, answering: FakeWorker
) -> None:
    async with limited(settings, connections, key, tokens_per_minute=100) as clients:
        whole = await ask(clients[0])
        assert whole.headers["x-ratelimit-remaining-tokens"] == "70"
        usage = whole.json()["usage"]["total_tokens"]
        assert await charged(connections) == usage == PROMPT_TOKENS + len("Hello world")
        streamed = await ask(clients[1], stream=True)
        assert streamed.headers["x-ratelimit-remaining-tokens"] == str(100 - usage - 30)
        assert await charged(connections) == 2 * usage
        refused = await ask(clients[0], prompt=3 * ["x" * 40])
        assert refused.status_code == 429
        assert "tokens" in refused.json()["error"]["message"]
        too_large = await ask(clients[0], max_tokens=99)
        assert too_large.headers["x-should-retry"] == "false"


CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "x"}]}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", BODY | {"max_tokens": 99}, "max_tokens"),
        ("/v1/chat/completions", CHAT | {"max_tokens": 99}, "max_tokens"),
        ("/v1/chat/completions", CHAT | {"max_completion_tokens": 99}, "max_completion_tokens"),
        (
            "/generate",
            {"text": "x", "sampling_params": {"max_new_tokens": 99}},
            "sampling_params.max_new_tokens",
        ),
    ],
)
async def test_what_is_too_large_at_any_time_is_named_as_it_was_sent(
    settings: Settings,
    connections: Connections,
    key: Created,
    answering: FakeWorker,
    path: str,
    body: dict[str, Any],
    param: str,
) -> None:
    async with limited(settings, connections, key, tokens_per_minute=50) as (client, _):
        answer = await client.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (429, param)


async def test_choices_cost_what_they_take(
    settings: Settings, connections: Connections, key: Created, answering: FakeWorker
) -> None:
    answer = len("Hello world")
    async with limited(settings, connections, key, tokens_per_minute=1000) as (client, _):
        usage = (await ask(client, n=3)).json()["usage"]
        assert usage["completion_tokens"] == 3 * answer
        assert await charged(connections) == PROMPT_TOKENS + answer  # it was generated once


async def test_a_question_is_a_request_without_tokens(
    settings: Settings, connections: Connections, key: Created, answering: FakeWorker
) -> None:
    async with limited(settings, connections, key, requests_per_minute=1, tokens_per_minute=10) as clients:
        answers = [await each.post("/tokenize", json={"prompt": "Hello world"}) for each in clients]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert answers[0].headers["x-ratelimit-remaining-tokens"] == "10"


async def test_chat_without_a_length_is_a_guess(
    settings: Settings, connections: Connections, key: Created, answering: FakeWorker
) -> None:
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
    async with limited(settings, connections, key, tokens_per_minute=200) as (client, _):
        answer = await client.post("/v1/chat/completions", json=chat)
        assert answer.headers["x-ratelimit-remaining-tokens"] == "0"
        assert await charged(connections) == answer.json()["usage"]["total_tokens"]


async def given_back(run: Any, client: asyncio.Task[httpx.Response]) -> None:
    await run.fail(Problem(ErrorCode.ENGINE_ERROR, "It broke."))
    await client


async def part_of_it(run: Any, client: asyncio.Task[httpx.Response]) -> None:
    await run.commit("text", tokens=3)
    await given_back(run, client)


async def client_leaves_early(run: Any, client: asyncio.Task[httpx.Response]) -> None:
    client.cancel()


async def client_leaves_midway(run: Any, client: asyncio.Task[httpx.Response]) -> None:
    await run.commit("text", tokens=3)
    client.cancel()


@pytest.mark.parametrize(
    ("what", "tokens"),
    [
        (given_back, 0),
        (part_of_it, PROMPT_TOKENS + 3),
        (client_leaves_early, 10),
        (client_leaves_midway, PROMPT_TOKENS + 3),
    ],
)
async def test_every_end_is_charged_for_what_was_used(
    settings: Settings,
    connections: Connections,
    key: Created,
    worker: FakeWorker,
    what: Callable[[Any, asyncio.Task[httpx.Response]], Awaitable[None]],
    tokens: int,
) -> None:
    async with limited(settings, connections, key, tokens_per_minute=100, concurrency=1) as (client, other):
        asking = asyncio.create_task(ask(client))
        run = await worker.claimed()
        assert await charged(connections) == 30
        assert (await ask(other)).status_code == 429
        await what(run, asking)

        async def is_settled() -> bool:
            return await charged(connections) == tokens

        await until(is_settled)
        again = asyncio.create_task(ask(other))
        second = await worker.claimed()
        await given_back(second, again)


async def test_time_that_is_up_before_the_first_block_costs_the_prompt(
    settings: Settings, connections: Connections, key: Created, worker: FakeWorker
) -> None:
    """As leaving does: a short timeout is another way to leave."""
    async with limited(settings, connections, key, tokens_per_minute=100) as (client, _):
        _, asking = await begun_in_time(worker, lambda timeout_s: ask(client, timeout=timeout_s))
        assert (await asking).status_code == 504
        assert await charged(connections) % 10 == 0  # 10 of each


async def test_a_refusal_of_the_queue_is_given_back(
    settings: Settings, connections: Connections, key: Created
) -> None:
    async with FakeWorker(connections, settings.queue, slots=0).working() as fake:
        pass  # the pool is known now, and no heartbeat comes any more
    async with limited(settings, connections, key, tokens_per_minute=100, concurrency=1) as (client, _):
        await fake.queue.worker_leave(fake.id)
        await connections.commands.delete("dllm:{tiny}:last_worker", "dllm:{tiny}:workers")
        answer = await ask(client)
        assert answer.status_code == 503
        assert await charged(connections) == 0


async def test_one_after_the_other_is_never_two_at_once(
    settings: Settings, connections: Connections, key: Created, answering: FakeWorker
) -> None:
    """The request before is over when its last byte arrives."""
    async with limited(settings, connections, key, concurrency=1) as clients:
        for number in range(20):
            answer = await ask(clients[number % 2], stream=number % 3 == 0)
            assert answer.status_code == 200, answer.text


async def test_the_sdk_waits_as_it_is_told(
    settings: Settings, connections: Connections, key: Created, worker: FakeWorker
) -> None:
    async with limited(settings, connections, key, concurrency=1) as (client, _):
        blocker = asyncio.create_task(ask(client))
        run = await worker.claimed()
        sdk = openai.AsyncOpenAI(base_url=f"{client.base_url}/v1", api_key=key.secret, max_retries=3)
        asking = asyncio.create_task(sdk.completions.create(**BODY))
        with pytest.raises(openai.RateLimitError) as error:
            await sdk.with_options(max_retries=0).completions.create(**BODY)
        assert error.value.code == "rate_limit_exceeded"
        assert error.value.response.headers["retry-after-ms"] == "1000"
        await run.commit("done")
        await run.finish()
        assert (await blocker).status_code == 200
        second = await worker.claimed()
        await second.commit("mine")
        await second.finish()
        assert (await asking).choices[0].text == "mine"
        await sdk.close()
