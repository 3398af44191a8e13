"""The Lua scripts of the queue, put together from `scripts/` and sent.

What a script sees before its own text, in this order: the settings as constants, `lib/keys`, the other
libraries that its first line says it needs, and with `lib/dispatch` the policies that settings choose, each
of which adds itself to POLICIES. Nothing more, as each function costs every call of the script its making.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

from dllm_stack.lua import WHEN_MEMORY_IS_FULL, Sender
from dllm_stack.queue.estimate import FIRST_PREFIX_TOKENS
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RouterSettings

DISPATCH_AT_MOST = 64  # jobs in one script call, so that one call stays short
FEW_WORKERS = 64  # with free slots, among which a job's is chosen as it is admitted
AT_ONCE = 1000  # jobs that one call ends, for the same reason
SHED_AT_MOST = 64  # waiting jobs looked at to be dropped for one newcomer
HOLDERS_AT_MOST = 8  # tenants looked at, those that hold most first
BLOCK_TOKENS = 32  # of a usual block: what an attempt costs beyond what it has committed
DEAD_LETTER_BYTES = 64 << 10  # the largest request that a dead letter keeps
AGED_SHARE = 8  # every eighth turn is for a tier that has waited too long
BREAKER_CAP_S = 300.0

_SCRIPTS = files("dllm_stack.queue.scripts")
_NEEDS = re.compile(r"-- needs: (.+)\n")


class Scripts:
    """Runs scripts on the keys that begin with `prefix`."""

    def __init__(
        self, connections: Connections, prefix: str, settings: QueueSettings, router: RouterSettings
    ) -> None:
        self._sender = Sender(connections, self.text)
        self._prefix = prefix
        self._head = _constants(settings, router) + _text("lib/keys")
        self._policies = "".join(_text(f"policies/{name}") for name in router.policies)

    async def run(self, name: str, *args: str | bytes | int | float) -> Any:
        """Raises `RedisError` when Redis does not answer in time; the script may have run all the same."""
        return await self._sender.run(name, self._prefix, *args)

    def text(self, name: str) -> str:
        """A script, whole."""
        libraries = _libraries(name)
        policies = self._policies if "lib/dispatch" in libraries else ""
        # Redis beyond its `maxmemory` takes no new job. All else goes on: what it writes is bounded by what
        # was admitted, and nothing but it makes room again.
        flags = "" if name == "admit" else WHEN_MEMORY_IS_FULL
        return flags + self._head + "".join(libraries.values()) + policies + _text(name)


def _libraries(name: str) -> dict[str, str]:
    """The texts of those that a file needs, in an order in which each comes after what it needs itself."""
    found: dict[str, str] = {}
    if needs := _NEEDS.match(_text(name)):
        for library in needs[1].split(", "):
            found |= _libraries(f"lib/{library}")
            found[f"lib/{library}"] = _text(f"lib/{library}")
    return found


def _text(name: str) -> str:
    return _SCRIPTS.joinpath(f"{name}.lua").read_text()


def _constants(settings: QueueSettings, router: RouterSettings) -> str:
    values = {
        "DISPATCH_AT_MOST": DISPATCH_AT_MOST,
        "FEW_WORKERS": FEW_WORKERS,
        "AT_ONCE": AT_ONCE,
        "SHED_AT_MOST": SHED_AT_MOST,
        "HOLDERS_AT_MOST": HOLDERS_AT_MOST,
        "BLOCK_TOKENS": BLOCK_TOKENS,
        "FIRST_PREFIX_TOKENS": FIRST_PREFIX_TOKENS,
        "DEAD_LETTER_BYTES": DEAD_LETTER_BYTES,
        "AGED_SHARE": AGED_SHARE,
        "MAX_WAITING_JOBS": settings.max_waiting_jobs,
        "MAX_WAITING_BYTES": settings.max_waiting_bytes,
        "MAX_ATTEMPTS": settings.max_attempts,
        "DEAD_LETTERS": settings.dead_letters,
        "BREAKER_FAILURES": settings.breaker_failures,
        "BREAKER_MS": _ms(settings.breaker_s),
        "BREAKER_CAP_MS": _ms(BREAKER_CAP_S),
        "AGEING_MS": _ms(settings.ageing_s),
        "COLD_START_MS": _ms(settings.cold_start_s),
        "TTL_MS": _ms(settings.heartbeat_ttl_s),
        "GRACE_MS": _ms(settings.worker_grace_s),
        "AFFINITY_MS": _ms(router.affinity_s),
    }
    lines = [f"local {name} = {value}\n" for name, value in values.items()]
    return "".join(lines) + "local POLICIES = {}\n"


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000)) if seconds else 0
