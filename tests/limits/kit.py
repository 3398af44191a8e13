"""What the tests of the limits share: a clock and a server that are what the test says."""

from __future__ import annotations

from typing import Any

from dllm_stack.limits import Limiter
from dllm_stack.limits.script import Scripts, _text, prefix
from dllm_stack.redis import Connections
from dllm_stack.settings import LimitSettings
from dllm_stack.tenants import Limits, Tenant

NAME = "acme"
LEASE_S = 5.0

_CLOCK = """
do
  local clock = redis.call('HMGET', P .. 'clock', 'now', 'server', 'started')
  NOW = tonumber(clock[1])
  TIME = {digits(math.floor(NOW / 1000)), digits(NOW % 1000 * 1000)}
  server = function()
    return clock[2], tonumber(clock[3])
  end
end
"""


def tenant(requests: int | None = None, tokens: int | None = None, concurrency: int | None = None) -> Tenant:
    limits = Limits(requests_per_minute=requests, tokens_per_minute=tokens, concurrency=concurrency)
    return Tenant(name=NAME, limits=limits)


class Clock:
    """Redis' time and identity, and the gateways' time, of one tenant."""

    def __init__(self, connections: Connections) -> None:
        self.ms = 1_800_000_000_000
        self._redis: Any = connections.commands
        self._server, self._started = "first", 0

    async def set(self) -> None:
        values = {"now": self.ms, "server": self._server, "started": self._started}
        await self._redis.hset(prefix(NAME) + "clock", mapping=values)

    async def advance(self, ms: int) -> None:
        self.ms += ms
        await self.set()

    async def restart(self) -> None:
        """Another server answers from now on, with what is there."""
        await self.become(f"started at {self.ms}", self.ms)

    async def become(self, server: str, started: int) -> None:
        self._server, self._started = server, started
        await self.set()


class TimedScripts(Scripts):
    """`twice`: each is sent once more, as after a connection lost before the answer came."""

    twice = False

    async def run(self, name: str, tenant: str, *args: str | int) -> Any:
        answer = await super().run(name, tenant, *args)
        if self.twice:
            again = await super().run(name, tenant, *args)
            assert again == answer or (name == "reserve" and again[0] == answer[0])
        return answer

    def text(self, name: str) -> str:
        library = _text("tenant")
        whole = super().text(name)
        assert library in whole
        return whole.replace(library, library + _CLOCK)


class TimedLimiter(Limiter):
    """A gateway, by the clock of the test."""

    def __init__(self, connections: Connections, clock: Clock, *, blind_s: float = 60.0) -> None:
        super().__init__(connections, LimitSettings(blind_s=blind_s), heartbeat_s=0, lease_s=LEASE_S)
        self._clock = clock
        self._scripts = TimedScripts(connections)

    def _now(self) -> float:
        return self._clock.ms / 1000

    async def beat(self) -> None:
        await self._renew_leases()
