"""What a subcommand works with: the pools there are, and a place to print."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rich.console import Console

from dllm_stack import log
from dllm_stack.queue import PoolQueue, Registry, WorkerStatus
from dllm_stack.redis import Connections, RedisError, shown
from dllm_stack.settings import Settings

_UNBOUNDED = 1000  # columns of what is no terminal


class OperatorError(Exception):
    """The command cannot do what it was asked; the message is one line."""


@dataclass(frozen=True)
class Session:
    settings: Settings
    connections: Connections
    console: Console

    async def queues(self, pool: str | None = None) -> list[PoolQueue]:
        """Those of all pools, or of one.

        Raises:
            OperatorError: there is no such pool.
        """
        pools = sorted(await Registry(self.connections).pools())
        if pool is not None:
            if pool not in pools:
                there_are = f"there are: {', '.join(pools)}" if pools else "there is none yet"
                raise OperatorError(f"There is no pool {pool!r}; {there_are}.")
            pools = [pool]
        return [PoolQueue(self.connections, name, self.settings.queue) for name in pools]


async def run(
    settings: Settings, act: Callable[[Session], Awaitable[None]], *, service: str = "queue"
) -> None:
    """
    Args:
        service: as log lines name it.

    Raises:
        OperatorError
    """
    log.configure(settings, service)
    connections = Connections(settings.redis)
    console = Console(width=None if sys.stdout.isatty() else _UNBOUNDED, highlight=False, markup=False)
    try:
        await act(Session(settings, connections, console))
    except RedisError as error:
        raise OperatorError(unreachable(settings, error)) from error
    finally:
        await connections.aclose()


def unreachable(settings: Settings, error: RedisError) -> str:
    said = " ".join(str(error).split())
    where = shown(settings.redis.url)
    return f"Redis at {where}: {said} (DLLM_REDIS__URL says where it is; `up` prints its own)"


def short(worker: str, workers: list[WorkerStatus]) -> str:
    """A worker as people know it: its pod, or how its id begins."""
    pods = {status.card.id: status.card.pod for status in workers}
    return pods.get(worker) or worker[:8]
