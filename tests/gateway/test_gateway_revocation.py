"""Keys at two gateways, each a process of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from dllm_stack.keys import KeyStore
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings, Settings
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import RestartableRedis, until
from tests.gateway.test_gateway_process import Process, running
from tests.keys.kit import pass_time

BODY = {"model": "tiny", "prompt": "Hi"}


class Two:
    """Two gateways on one Redis, a worker that answers, and their key store."""

    def __init__(self, gateways: list[Process], store: KeyStore) -> None:
        self.gateways = gateways
        self.store = store

    async def statuses(self, secret: str) -> list[int]:
        """Of a completion from each."""
        headers = {"Authorization": f"Bearer {secret}"}
        answers = await asyncio.gather(
            *(gateway.http.post("/v1/completions", json=BODY, headers=headers) for gateway in self.gateways)
        )
        return [answer.status_code for answer in answers]

    async def until_each_says(self, secret: str, status: int) -> None:
        async def said() -> bool:
            return await self.statuses(secret) == [status] * len(self.gateways)

        await until(said)


@pytest.fixture
async def two(redis: RestartableRedis, settings: Settings) -> AsyncIterator[Two]:
    at = RedisSettings(url=redis.url, timeout_s=60)
    connections = Connections(at)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(connections.aclose)
        worker = FakeWorker(connections, settings.queue, blocks=["Hello"])
        await stack.enter_async_context(worker.working())
        env = {"DLLM_ACCESS__KEYS": "redis", "DLLM_ADMIN__PORT": "0"}
        contexts = [running(at, **env) for _ in range(2)]
        gateways = await asyncio.gather(*(stack.enter_async_context(each) for each in contexts))
        await pass_time(connections)
        yield Two(gateways, KeyStore(connections))


async def test_what_is_revoked_is_refused_by_both_within_a_second(two: Two, redis: RestartableRedis) -> None:
    """Whatever is sent a second later, however slow it all is."""
    keys = [await two.store.create("acme") for _ in range(4)]
    other = await two.store.create("acme")
    for key in [*keys, other]:
        await two.until_each_says(key.secret, 200)
    for key in keys[:3]:
        change = await two.store.revoke([key.key.id])
        await asyncio.sleep(1)
        assert await two.statuses(key.secret) == [401, 401]

        async def known_to_be(change: str = change) -> bool:
            return not await two.store.behind(change)

        await until(known_to_be)

    # Redis loses everything. Its worker announces itself again, and whoever was known goes on.
    redis.stop()
    while_away = await two.statuses(other.secret)
    assert while_away == [503, 503]
    redis.start()
    await two.until_each_says(other.secret, 200)
    for key in keys[:3]:
        assert await two.statuses(key.secret) == [401, 401]

    # One gateway is held up; what is revoked meanwhile it refuses at once when it goes on.
    two.gateways[0].signal(signal.SIGSTOP)
    await two.store.revoke([keys[3].key.id])
    await asyncio.sleep(1)
    two.gateways[0].signal(signal.SIGCONT)
    assert await two.statuses(keys[3].secret) == [401, 401]
