"""A fake of kube-proxy: TCP from a Service's address to one of its ready pods."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from tests.helm.fake_kubelet.environment import Object
from tests.helm.fake_kubelet.node import Node
from tests.helm.fake_kubelet.pod import Pod

# What a real cluster takes until every node has heard that a pod is ready, or leaves: for as long a pod that
# leaves still gets new connections.
PROPAGATION_S = 1.0
_CHUNK = 1 << 16


class Service:
    """
    Attributes:
        connections: pod -> how many it was given.
        refused: connections that there was no pod for.
    """

    def __init__(self, manifest: Object, node: Node, address: str) -> None:
        self.name: str = manifest["metadata"]["name"]
        self.address = address
        self.selector: dict[str, str] = manifest["spec"].get("selector", {})
        self.connections: dict[str, int] = {}
        self.refused = 0
        self.is_headless = manifest["spec"].get("clusterIP") == "None"
        self._ports = manifest["spec"]["ports"]
        self._publishes_unready: bool = manifest["spec"].get("publishNotReadyAddresses", False)
        self._node = node
        self._endpoints: dict[str, Pod] = {}
        self._dice = random.Random(self.name)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._node.own(self.address)
        for port in self._ports:
            listener = self._node.listen(self.address, port["port"])
            self._servers.append(await serve(listener, partial(self._connect, port), self._tasks))

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in tuple(self._tasks):
            task.cancel()

    def selects(self, pod: Pod) -> bool:
        return bool(self.selector) and self.selector.items() <= pod.labels.items()

    def see(self, pod: Pod) -> None:
        """Something about a pod has changed; known here a while later."""
        if self.selects(pod):
            wanted = not pod.leaving and (pod.ready or self._publishes_unready)
            asyncio.get_running_loop().call_later(PROPAGATION_S, self._note, pod, wanted)

    def _note(self, pod: Pod, wanted: bool) -> None:
        if wanted:
            self._endpoints[pod.name] = pod
        else:
            self._endpoints.pop(pod.name, None)

    @property
    def endpoints(self) -> list[str]:
        return sorted(self._endpoints)

    async def _connect(self, port: Object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not self._endpoints:
            self.refused += 1
            raise ConnectionRefusedError(f"Service {self.name} has no endpoints")
        pod = self._dice.choice(list(self._endpoints.values()))
        self.connections[pod.name] = self.connections.get(pod.name, 0) + 1
        return await connect(self._node, pod.address, target_port(pod, port))


def target_port(pod: Pod, port: Object) -> int:
    wanted = port["targetPort"] if "targetPort" in port else port["port"]
    for container in pod.manifest["spec"]["containers"]:
        for own in container.get("ports", []):
            if own.get("name") == wanted:
                return int(own["containerPort"])
    return int(wanted)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(node: Node, address: str, port: int) -> Streams:
    return await asyncio.open_connection(sock=await node.connect(address, port))


async def serve(
    listener: socket.socket, target: Callable[[], Awaitable[Streams]], tasks: set[asyncio.Task[None]]
) -> asyncio.Server:
    """Carries each connection to what `target` connects it to; a reset at one end is one at the other."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await target()
        except OSError:
            writer.transport.abort()
            return
        try:
            await asyncio.gather(_pump(reader, other_writer), _pump(other_reader, writer))
        except OSError:
            for end in (writer, other_writer):
                end.transport.abort()
        finally:
            for end in (writer, other_writer):
                end.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(carry(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return await asyncio.start_server(accept, sock=listener)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()
