"""Gateways with their admin APIs, a fake worker, and a real Valkey under all."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest
import uvicorn

from dllm_stack.keys import KeyStore
from dllm_stack.queue import PoolQueue
from dllm_stack.redis import Connections
from dllm_stack.settings import AccessSettings, QueueSettings, RedisSettings, Settings
from gateway.admin.app import create_app
from gateway.admin.server import AdminServer
from gateway.http.connection import Connection
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, serving, until
from tests.keys.kit import pass_time

POOL = "tiny"


@dataclass
class Admin:
    """
    Attributes:
        http: a client of the admin API, with an admin key.
        public: of the gateway's own port, without a key.
    """

    http: httpx.AsyncClient
    public: httpx.AsyncClient
    served: Served

    async def pool(self, act: str) -> httpx.Response:
        return await self.http.post(f"/admin/pools/{POOL}/{act}")


@pytest.fixture
def settings(redis_settings: RedisSettings) -> Settings:
    return Settings(
        redis=redis_settings,
        queue=QueueSettings(heartbeat_s=0.1, heartbeat_ttl_s=60.0),
        access=AccessSettings(keys="redis"),
    )


@pytest.fixture
async def store(connections: Connections) -> KeyStore:
    """In a database that is empty, and was so before."""
    await pass_time(connections)
    return KeyStore(connections)


@pytest.fixture
async def secret(store: KeyStore) -> str:
    """An admin key."""
    return (await store.create("operators", admin=True)).secret


@pytest.fixture
async def user(store: KeyStore) -> dict[str, str]:
    """The headers of a client."""
    return {"authorization": f"Bearer {(await store.create('acme')).secret}"}


@asynccontextmanager
async def administered(settings: Settings, secret: str) -> AsyncIterator[Admin]:
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(serving(settings))
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            create_app(served.gateway), http=Connection, ws="none", lifespan="off", log_config=None
        )
        server = AdminServer(config)
        task = asyncio.create_task(server.serve([listener]))
        headers = {"authorization": f"Bearer {secret}"}
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, headers=headers, timeout=120))
        await until(lambda: server.started)
        try:
            yield Admin(http, served.http, served)
        finally:
            await http.aclose()
            server.should_exit = True
            await task


@pytest.fixture
async def admin(settings: Settings, secret: str, user: dict[str, str]) -> AsyncIterator[Admin]:
    async with administered(settings, secret) as admin:
        yield admin


@pytest.fixture
async def worker(connections: Connections, settings: Settings) -> AsyncIterator[FakeWorker]:
    """A worker with two slots, whose runs the test drives."""
    async with FakeWorker(connections, settings.queue, slots=2).working() as worker:
        yield worker


@pytest.fixture
def queue(connections: Connections, settings: Settings) -> PoolQueue:
    return PoolQueue(connections, POOL, settings.queue)
