"""The Lua scripts of the limits, put together from `scripts/` and sent.

A script sees before its own text the constants, and `tenant.lua`.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from dllm_stack.lua import WHEN_MEMORY_IS_FULL, Sender
from dllm_stack.redis import Connections

WINDOW_MS = 60_000
BUCKET_MS = 20  # what is charged within it ends to be charged at one time, up to so much late
OPEN_WAIT_MS = 1000  # until one of the open requests may have ended; nobody knows when that is
AT_ONCE = 64  # buckets that are looked at together

_SCRIPTS = files("dllm_stack.limits.scripts")
_CONSTANTS = {
    "WINDOW_MS": WINDOW_MS,
    "BUCKET_MS": BUCKET_MS,
    "OPEN_WAIT_MS": OPEN_WAIT_MS,
    "AT_ONCE": AT_ONCE,
}


class Scripts:
    def __init__(self, connections: Connections) -> None:
        self._sender = Sender(connections, self.text)

    async def run(self, name: str, tenant: str, *args: str | int) -> Any:
        """Raises `RedisError` when Redis does not answer in time; the script may have run all the same."""
        return await self._sender.run(name, prefix(tenant), *args)

    def text(self, name: str) -> str:
        """A script, whole."""
        constants = "".join(f"local {constant} = {value}\n" for constant, value in _CONSTANTS.items())
        # Redis beyond its `maxmemory` begins no request. Those open can still be settled, which makes room.
        return ("" if name == "reserve" else WHEN_MEMORY_IS_FULL) + constants + _text("tenant") + _text(name)


def prefix(tenant: str) -> str:
    """How all keys of a tenant begin."""
    return f"dllm:{{limits:{tenant}}}:"


def _text(name: str) -> str:
    return _SCRIPTS.joinpath(f"{name}.lua").read_text()
