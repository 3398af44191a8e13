"""One container: a process with the root, the user and the variables that its manifest says."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helm.fake_kubelet.environment import ManifestError, Object
from tests.helm.fake_kubelet.image import Image
from tests.helm.fake_kubelet.node import PRIVILEGED, Child

_KILLED = 137


@dataclass(frozen=True)
class Command:
    """What is the same for every start of a container."""

    argv: list[str]
    env: dict[str, str]
    user: int
    group: int
    groups: list[int]
    folder: str

    @classmethod
    def of(
        cls, container: Object, pod: Object, image: Image, argv: list[str], env: dict[str, str]
    ) -> Command:
        """Raises ManifestError."""
        of_pod, own = pod["spec"].get("securityContext", {}), container.get("securityContext", {})
        context = {**of_pod, **own}
        user = context.get("runAsUser", image.user)
        if user == 0 and context.get("runAsNonRoot", False):
            raise ManifestError(
                f"container {container['name']} must not run as root, and nothing says who it is"
            )
        group = context.get("runAsGroup", 0)
        groups = [
            *of_pod.get("supplementalGroups", []),
            *([of_pod["fsGroup"]] if "fsGroup" in of_pod else []),
        ]
        return cls(argv, env, user, group, groups, container.get("workingDir", image.folder))

    def spec(self) -> dict[str, Any]:
        return {
            "argv": self.argv,
            "env": self.env,
            "user": self.user,
            "group": self.group,
            "groups": self.groups,
            "folder": self.folder,
            "unprivileged": not PRIVILEGED,
        }


class Container:
    """A running one.

    Attributes:
        ended_at: of `time.monotonic`; None while it runs.
    """

    def __init__(self, child: Child, pid: int, node: int, command: Command, log: Path) -> None:
        self.pid = pid
        self.log = log
        self.started_at = time.monotonic()
        self.ended_at: float | None = None
        self._child = child
        self._node = node
        self._command = command
        self._end = asyncio.create_task(self._wait())

    @classmethod
    async def start(cls, pod: int, node: int, command: Command, root: dict[str, Any], log: Path) -> Container:
        """
        Args:
            pod, node: the processes that hold their namespaces.
            root: of the specification, what concerns the container's file system.
        """
        spec = command.spec() | root | {"pod": pod}
        with log.open("ab") as output:
            child = await _start("run", spec, output)
        told = await asyncio.get_running_loop().sock_recv(child.orders, 64)
        child.orders.close()
        if not told:
            raise ManifestError(f"the container could not be made; why is in {log}")
        return cls(child, int(told), node, command, log)

    @property
    def running(self) -> bool:
        return self.ended_at is None

    async def wait(self) -> int:
        """The exit status, 128 + N for signal N."""
        return await asyncio.shield(self._end)

    def signal(self, number: signal.Signals) -> None:
        if self.running:
            os.kill(self.pid, number)

    async def execute(self, argv: list[str], within_s: float) -> int | None:
        """Runs a command in the container. None: it took longer, and was killed."""
        spec = self._command.spec() | {"argv": argv, "container": self.pid, "node": self._node}
        with self.log.open("ab") as output:
            child = await _start("exec", spec, output)
        child.orders.close()
        try:
            async with asyncio.timeout(within_s):
                return await child.process.wait()
        except TimeoutError:
            child.process.kill()
            await child.process.wait()
            return None

    async def _wait(self) -> int:
        status = await self._child.process.wait()
        self.ended_at = time.monotonic()
        return _KILLED if status == -signal.SIGKILL else status


async def _start(what: str, spec: dict[str, Any], output: Any) -> Child:
    child = await Child.start(what, output=output, kind=socket.SOCK_STREAM)
    child.orders.setblocking(False)
    await asyncio.get_running_loop().sock_sendall(child.orders, json.dumps(spec).encode() + b"\n")
    return child
