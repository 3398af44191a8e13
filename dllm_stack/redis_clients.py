"""redis-py's clients for each kind of Redis, and what they need so that a lost node is soon gone round."""

from __future__ import annotations

import asyncio
from typing import Any

from redis._parsers.commands import AsyncCommandsParser
from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.connection import HiredisRespSerializer
from redis.exceptions import ConnectionError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dllm_stack.redis_url import Cluster, Sentinels, Server

_NO_BOUND = 2**31  # redis-py's own would be 100


def client(where: Server | Sentinels | Cluster, timeout_s: float) -> Any:
    """A client that gives up no call by itself, other than to connect: its caller does.

    Args:
        timeout_s: the time of one call, of which one attempt to connect may use but a part when there
            are other nodes to try.
    """
    options = where.options | {
        "max_connections": _NO_BOUND,
        "socket_timeout": None,
        "socket_connect_timeout": timeout_s if isinstance(where, Server) else timeout_s / 2,
        "protocol": 2,
        # After a restart of Redis every pooled connection is dead, so a command that failed in transit
        # is sent once more. That is why every script of the queue is safe to repeat.
        "retry": Retry(NoBackoff(), retries=1, supported_errors=(ConnectionError,)),
    }
    if "path" not in where.options:  # a file's socket has none
        options["socket_keepalive"] = True
    match where:
        case Server():
            return _with_packing(ConnectionPool(**options))
        case Sentinels():
            pool = _MasterPool(where.service, _Watch(where, timeout_s), **options)  # type: ignore[no-untyped-call]
            return _with_packing(pool)
        case Cluster():
            return ClusterClient(where.hosts, timeout_s, options)


async def close(redis: Any) -> None:
    if isinstance(redis, ClusterClient):
        redis.settle()
    await redis.aclose()


class Packing:
    """Has commands packed by hiredis. redis-py does so only in its client without asyncio; what it does here
    takes four times as long, of each command that we send about as long as Redis takes for it."""

    _serializer = HiredisRespSerializer()

    def pack_command(self, *args: Any) -> list[bytes]:
        packed: list[bytes] = self._serializer.pack(*args)
        return packed

    def transport(self) -> asyncio.Transport:
        """Of a connection that is there. Whoever takes it reads it from then on."""
        transport: asyncio.Transport = self._writer.transport  # type: ignore[attr-defined]
        return transport


def _with_packing(pool: ConnectionPool) -> Redis:
    kind = pool.connection_class
    pool.connection_class = type(kind.__name__, (Packing, kind), {})
    return Redis.from_pool(pool)


class _Watch(Sentinel):
    """The Sentinels, asked one after the other: one that is silent leaves time for the others, and for
    the connection to the master."""

    def __init__(self, where: Sentinels, timeout_s: float) -> None:
        super().__init__([])  # type: ignore[no-untyped-call]
        each_s = timeout_s / (len(where.hosts) + 1)
        options = {"protocol": 2, "retry": Retry(NoBackoff(), retries=0)} | where.own_options
        self.sentinels = [_Sentinel(each_s, host=host, port=port, **options) for host, port in where.hosts]


class _Sentinel(Redis):
    def __init__(self, within_s: float, **options: Any) -> None:
        super().__init__(**options)
        self._within_s = within_s

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            async with asyncio.timeout(self._within_s):
                return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except TimeoutError:
            raise RedisTimeoutError(f"no answer within {self._within_s:g} s") from None


class _MasterPool(SentinelConnectionPool):
    async def aclose(self) -> None:
        await super().aclose()
        await self.sentinel_manager.aclose()


class ClusterClient(RedisCluster):
    """A pool of workers is one slot, so one node; which one it is may change."""

    def __init__(self, hosts: list[tuple[str, int]], timeout_s: float, options: dict[str, Any]) -> None:
        nodes = [ClusterNode(*host) for host in hosts]
        # Otherwise every few redirections redis-py would close all connections, those in use too.
        super().__init__(startup_nodes=nodes, reinitialize_steps=0, **options)
        self._hosts = hosts
        self._look_s = timeout_s / 4
        self.commands_parser = _Keys()

    def mistrust(self) -> None:
        """A node kept silent: another may have taken its place, so the next call looks anew. redis-py
        does it only when it sees a connection fail."""
        self._initialize = True

    def settle(self) -> None:
        """While it is to look anew, redis-py would leave its connections open at the end."""
        self._initialize = False

    async def initialize(self, *args: Any, **options: Any) -> ClusterClient:
        failed = options.get("last_failed_node_name")
        while self._initialize:
            try:
                async with asyncio.timeout(self._look_s):
                    # The nodes once found may all be gone, and others be there under the names given to us.
                    await super().initialize(self._hosts, failed)
            except TimeoutError:  # the node asked is silent; the next is taken by chance
                continue
        return self

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        await self.initialize()  # if it is not, redis-py takes any node for any key
        return await super().execute_command(*args, **options)

    def get_node(self, *args: Any, **options: Any) -> ClusterNode | None:
        if "node_name" in options:
            # redis-py goes after a slot that is moved key by key. A script would find some of its keys here,
            # some there, so it has to wait until all have moved.
            raise ResponseError("the slot is being moved to another node")
        return super().get_node(*args, **options)


class _Keys(AsyncCommandsParser):
    """redis-py would ask a node for the place of each command's keys, and for every XREAD once more. In
    what the queue sends, the first key comes first."""

    async def initialize(self, node: ClusterNode | None = None) -> None: ...

    async def get_keys(self, *args: Any) -> Any:
        first = args.index(b"STREAMS") + 1 if args[0] == "XREAD" else 1
        return args[first : first + 1]
