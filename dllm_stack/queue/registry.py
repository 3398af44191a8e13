"""Which pools exist: every worker publishes its own with its heartbeat.

`dllm:registry` (hash): pool -> ModelCard, or nil until the worker knows its model. It disappears when
no worker has written to it for a day, and no router has kept it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dllm_stack.messages import ModelCard, encode
from dllm_stack.redis import Connections

_KEY = "dllm:registry"
_TTL_S = 86_400

_decode = msgspec.msgpack.Decoder(ModelCard | None).decode


class Registry:
    """Every method raises `RedisError` when Redis does not answer in time."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def publish(self, pool: str, card: ModelCard | None) -> None:
        commands = self._connections.commands
        async with self._connections.limit("registry"), commands.pipeline(transaction=False) as pipe:
            pipe.hset(_KEY, pool, encode(card))
            pipe.expire(_KEY, _TTL_S)
            await pipe.execute()

    async def keep(self) -> None:
        """As if a worker had written to it: a pool that is scaled to none for days has to stay known."""
        async with self._connections.limit("registry"):
            await self._connections.commands.expire(_KEY, _TTL_S)

    async def pools(self) -> dict[str, ModelCard | None]:
        async with self._connections.limit("registry"):
            found: Any = await self._connections.commands.hgetall(_KEY)
        return {pool.decode(errors="replace"): _card(entry) for pool, entry in found.items()}


def _card(entry: bytes) -> ModelCard | None:
    try:
        return _decode(entry)
    except msgspec.DecodeError:  # from a worker of another version
        return None
