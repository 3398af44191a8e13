"""The registry of pools, on a real Valkey."""

from __future__ import annotations

from dllm_stack.messages import ModelCard
from dllm_stack.queue import Registry
from dllm_stack.redis import Connections

CARD = ModelCard(name="tiny", context_length=512, block_size=32, algorithm="LowConfidence", created=1)


async def test_pools_are_found_with_their_models(connections: Connections) -> None:
    registry = Registry(connections)
    assert await registry.pools() == {}
    await registry.publish("tiny", CARD)
    await registry.publish("loading", None)
    assert await registry.pools() == {"tiny": CARD, "loading": None}
    assert await connections.commands.ttl("dllm:registry") > 0


async def test_an_entry_of_another_version_hides_no_pool(connections: Connections) -> None:
    registry = Registry(connections)
    await registry.publish("tiny", CARD)
    await connections.commands.hset("dllm:registry", "newer", b"unreadable")
    assert await registry.pools() == {"tiny": CARD, "newer": None}


async def test_a_name_that_is_no_text_hides_no_pool(connections: Connections) -> None:
    registry = Registry(connections)
    await registry.publish("tiny", CARD)
    await connections.commands.hset("dllm:registry", b"\xff", b"unreadable")
    assert await registry.pools() == {"tiny": CARD, "\ufffd": None}
