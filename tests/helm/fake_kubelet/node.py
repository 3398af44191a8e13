"""The node: a network with a bridge, to which pods are connected, apart from this machine's own."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

INSIDE = Path(__file__).with_name("inside.py")
PODS, SERVICES, GATEWAY = "10.77.0", "10.96.0", "10.77.0.1"
PRIVILEGED = os.geteuid() == 0
_PYTHON = [sys.executable, "-I", "-S", str(INSIDE)]


class NodeError(Exception):
    """What the kernel or `ip` refused."""


def missing() -> str | None:
    """Why there can be no node here."""
    if not sys.platform.startswith("linux") or shutil.which("ip") is None:
        return "pods need Linux and iproute2"
    probe = ["unshare", "--net", "--mount", "--pid", "--fork"]
    probe += [] if PRIVILEGED else ["--user", "--map-root-user"]
    what = [
        "ip link add pod0 type veth peer name eth0",
        "ip link add pods type bridge",
        "mount -t proc proc /proc",
    ]
    tried = subprocess.run([*probe, "sh", "-c", " && ".join(what)], capture_output=True, text=True)
    return (
        None if tried.returncode == 0 else f"this machine does not let pods be made: {tried.stderr.strip()}"
    )


@dataclass
class Child:
    """A process of `inside.py`, and the line to it."""

    process: asyncio.subprocess.Process
    orders: socket.socket

    @classmethod
    async def start(
        cls, *arguments: str, output: Any = None, kind: socket.SocketKind = socket.SOCK_SEQPACKET
    ) -> Self:
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        with theirs:
            argv = [*_PYTHON, *arguments, str(theirs.fileno())]
            process = await asyncio.create_subprocess_exec(
                *argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        ours.settimeout(20)
        return cls(process, ours)

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        self.orders.send(json.dumps(order).encode())
        return self.told()

    def told(self) -> dict[str, Any]:
        answer = self.orders.recv(1 << 16)
        if not answer:
            raise NodeError(f"inside.py has ended; see what it printed, {self.process}")
        told: dict[str, Any] = json.loads(answer)
        return told

    async def stop(self) -> None:
        self.orders.close()
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@dataclass
class Node:
    """Use as an async context manager. Whatever runs on it dies with it, or with this process."""

    _child: Child = field(init=False)
    _addresses: itertools.count[int] = field(default_factory=lambda: itertools.count(10))
    _cables: itertools.count[int] = field(default_factory=itertools.count)

    async def __aenter__(self) -> Self:
        self._child = await Child.start("node", "privileged" if PRIVILEGED else "unprivileged")
        self._child.told()
        self._ip("link", "add", "pods", "type", "bridge")
        self._ip("addr", "add", f"{GATEWAY}/24", "dev", "pods")
        self._ip("link", "set", "pods", "up")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._child.stop()

    @property
    def pid(self) -> int:
        return self._child.process.pid

    def new_socket(self) -> socket.socket:
        """A TCP socket that is in the node's network wherever it is used."""
        self._child.orders.send(b'{"socket": 1}')
        _, handles, _, _ = socket.recv_fds(self._child.orders, 1 << 10, 1)
        made = socket.socket(fileno=handles[0])
        made.setblocking(False)
        return made

    def listen(self, address: str, port: int) -> socket.socket:
        """At an address that is the node's from now on."""
        listener = self.new_socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(512)
        return listener

    async def connect(self, address: str, port: int) -> socket.socket:
        """Raises OSError."""
        connection = self.new_socket()
        try:
            await asyncio.get_running_loop().sock_connect(connection, (address, port))
        except BaseException:
            connection.close()
            raise
        return connection

    def new_address(self) -> str:
        return f"{PODS}.{next(self._addresses)}"

    def own(self, address: str) -> None:
        self._ip("addr", "add", f"{address}/32", "dev", "lo")

    async def pod(self, name: str, address: str) -> Child:
        """The holder of a pod's namespaces, at this address of the network."""
        holder = await Child.start("pod")
        holder.ask({"node": self.pid, "name": name[:63], "unprivileged": not PRIVILEGED} | _route(address))
        cable = f"pod{next(self._cables)}"
        peer = ("peer", "name", "eth0", "netns", str(holder.process.pid))
        self._ip("link", "add", cable, "type", "veth", *peer)
        self._ip("link", "set", cable, "master", "pods")
        self._ip("link", "set", cable, "up")
        holder.orders.send(b"-")
        holder.told()
        return holder

    def _ip(self, *arguments: str) -> None:
        if failed := self._child.ask({"ip": arguments})["failed"]:
            raise NodeError(f"ip {' '.join(arguments)}: {failed}")


def _route(address: str) -> dict[str, str]:
    return {"address": f"{address}/24", "gateway": GATEWAY}
