"""Where a request's time to its first text goes: the commands that Redis gets on the way, by MONITOR."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from statistics import median

import redis.asyncio

from dllm_stack.queue.script import Scripts
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RedisSettings, RouterSettings
from loadtest.overhead.timing import Timing

_SCRIPTS = ("admit", "commit", "finish")  # of the queue; each belongs to one phase's end
_LIMITS = "{limits:"

PHASES = {
    "gateway, to the first word to Redis": "headers, key, body, rules",
    "limits": "reserved in one script; Redis and back",
    "worker and engine: to the first block": "to a slot at once; template, tokens, the engine itself",
    "block to client": "Redis, gateway, the client's socket",
}


class Monitor:
    """What Redis was told, and when (Unix time)."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._names = _names()
        self._seen: list[tuple[float, str]] = []

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        client = redis.asyncio.Redis.from_url(self._url)
        async with client.monitor() as monitor:
            reading = asyncio.create_task(self._read(monitor))
            try:
                yield
            finally:
                await asyncio.sleep(0.2)  # what is on its way
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
        await client.aclose()

    async def _read(self, monitor: redis.asyncio.client.Monitor) -> None:
        async for command in monitor.listen():
            words = command["command"].split(" ", 4)
            if words[0].upper() in ("EVALSHA", "EVAL") and (name := self._name(words)):
                self._seen.append((command["time"], name))

    def _name(self, words: list[str]) -> str | None:
        if any(_LIMITS in word for word in words[3:4]):
            return "reserve"
        return self._names.get(words[1])

    def phases(self, answers: list[Timing]) -> dict[str, float]:
        """Median milliseconds of each phase of requests that came one after the other."""
        rows = [row for answer in answers if (row := self._phases_of(answer)) is not None]
        assert rows, "Redis has seen none of the requests"
        return {name: median(row[number] for row in rows) * 1000 for number, name in enumerate(PHASES)}

    def _phases_of(self, answer: Timing) -> list[float] | None:
        seen: dict[str, float] = {}
        for at, name in self._seen:
            if answer.sent <= at <= answer.first:
                seen.setdefault(name, at)
        if "admit" not in seen:
            return None
        block = seen.get("commit", seen.get("finish"))
        if block is None:
            return None
        reserved = seen.get("reserve", seen["admit"])
        moments = [answer.sent, reserved, seen["admit"], block, answer.first]
        return [after - before for before, after in pairwise(moments)]


def _names() -> dict[str, str]:
    """SHA-1 of a script -> its name, if the services have their usual settings."""
    scripts = Scripts(Connections(RedisSettings()), "", QueueSettings(), RouterSettings())
    return {hashlib.sha1(scripts.text(name).encode()).hexdigest(): name for name in _SCRIPTS}
