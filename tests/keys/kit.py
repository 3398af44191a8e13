"""What tests of the key store share."""

from __future__ import annotations

from dllm_stack.keys import KeyStore
from dllm_stack.redis import Connections

PREFIX = "dllm:access:{access}:"


async def pass_time(connections: Connections) -> None:
    """It is a while ago that Redis was empty."""
    await KeyStore(connections).read()
    await connections.commands.set(PREFIX + "born", 1)
