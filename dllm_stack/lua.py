"""What sends Lua scripts to Redis, whoever has put them together."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha1
from typing import Any

from dllm_stack.redis import Connections, Script

WHEN_MEMORY_IS_FULL = "#!lua flags=allow-oom\n"
"""The first line of a script that Redis runs beyond its `maxmemory` too."""


class Sender:
    """
    Args:
        text: a script by its name, asked for once.
        kind: before the name of a script, where metrics name the command.
    """

    def __init__(self, connections: Connections, text: Callable[[str], str], kind: str = "") -> None:
        self._connections = connections
        self._text = text
        self._kind = kind
        self._scripts: dict[str, Script] = {}

    async def run(self, name: str, prefix: str, *args: str | bytes | int | float) -> Any:
        """Runs a script on the keys that begin with `prefix`.

        Raises:
            RedisError: Redis does not answer in time; the script may have run all the same.
        """
        script = self._scripts.get(name) or self._prepare(name)
        return await self._connections.run(script, prefix, args)

    def _prepare(self, name: str) -> Script:
        text = self._text(name)
        script = Script(self._kind + name, text, sha1(text.encode()).hexdigest())
        self._scripts[name] = script
        return script
