"""A gateway that asks for keys, which Redis holds, and a key."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dllm_stack.keys import Created, KeyStore
from dllm_stack.redis import Connections
from dllm_stack.settings import AccessSettings, Settings
from tests.gateway.served import Served, serving, until
from tests.keys.kit import pass_time


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"access": AccessSettings(keys="redis")})


@pytest.fixture
async def store(connections: Connections) -> KeyStore:
    await pass_time(connections)
    return KeyStore(connections)


@pytest.fixture
async def key(store: KeyStore) -> Created:
    return await store.create("acme")


@pytest.fixture
async def served(key: Created, settings: Settings) -> AsyncIterator[Served]:
    async with serving(settings) as served:
        await until(lambda: served.gateway.access.ready)
        yield served
