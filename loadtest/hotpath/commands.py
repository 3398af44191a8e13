"""What Redis was asked, and how long it took for it by its own count."""

from __future__ import annotations

from typing import NamedTuple

from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings


class Spent(NamedTuple):
    command: str  # those that scripts give are counted in their scripts' time too
    calls: int
    us: int  # of all of them


class Commands:
    def __init__(self, url: str) -> None:
        self._connections = Connections(RedisSettings(url=url))
        self._before: dict[str, Spent] = {}

    async def begin(self) -> None:
        self._before = await self._spent()

    async def end(self) -> list[Spent]:
        """Since `begin`, what took longest first."""
        now = await self._spent()
        await self._connections.aclose()
        none = Spent("", 0, 0)
        since = [
            Spent(name, calls - self._before.get(name, none).calls, us - self._before.get(name, none).us)
            for name, (_, calls, us) in now.items()
        ]
        return sorted((each for each in since if each.calls), key=lambda each: -each.us)

    async def _spent(self) -> dict[str, Spent]:
        async with self._connections.limit():
            found = await self._connections.commands.info("commandstats")
        names = {key: key.removeprefix("cmdstat_") for key in found}
        return {name: Spent(name, found[key]["calls"], found[key]["usec"]) for key, name in names.items()}
