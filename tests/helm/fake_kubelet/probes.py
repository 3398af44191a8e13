"""Probes and hooks, called as a kubelet calls them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp

from tests.helm.fake_kubelet.container import Container
from tests.helm.fake_kubelet.environment import ManifestError, Object
from tests.helm.fake_kubelet.node import Node

_USER_AGENT = "kube-probe/1.35"


class Handler:
    """Does what a probe or a hook says: httpGet, tcpSocket, exec or sleep."""

    def __init__(self, node: Node, address: str, container: Object) -> None:
        self._node = node
        self._address = address
        self._ports = {
            port["name"]: port["containerPort"] for port in container.get("ports", []) if "name" in port
        }

    async def call(self, action: Object, within_s: float, container: Container) -> str | None:
        """What was wrong; None: nothing."""
        try:
            async with asyncio.timeout(within_s):
                if "exec" in action:
                    status = await container.execute(action["exec"]["command"], within_s)
                    return None if status == 0 else f"exec ended with {status}"
                if "httpGet" in action:
                    return await self._get(action["httpGet"])
                if "tcpSocket" in action:
                    (await self._node.connect(self._address, self._port(action["tcpSocket"]["port"]))).close()
                    return None
                if "sleep" in action:
                    await asyncio.sleep(action["sleep"]["seconds"])
                    return None
        except TimeoutError:
            return f"no answer within {within_s:g} s"
        except (OSError, aiohttp.ClientError) as error:
            return repr(error)
        raise ManifestError(f"the fake kubelet does not know {sorted(action)}")

    def _port(self, port: int | str) -> int:
        if isinstance(port, int):
            return port
        if port not in self._ports:
            raise ManifestError(f"there is no port named {port}")
        return int(self._ports[port])

    async def _get(self, action: Object) -> str | None:
        host = f"{action.get('host', self._address)}:{self._port(action['port'])}"
        url = f"http://{host}{action.get('path', '/')}"
        headers = {header["name"]: header["value"] for header in action.get("httpHeaders", [])}
        connector = aiohttp.TCPConnector(socket_factory=lambda _: self._node.new_socket(), force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as http,
            http.get(url, headers={"User-Agent": _USER_AGENT, **headers}, allow_redirects=False) as response,
        ):
            return (
                None if 200 <= response.status < 400 else f"{response.status} {(await response.text())[:200]}"
            )


@dataclass
class Probe:
    """Counts like a kubelet.

    Attributes:
        passing: None until it has once passed or failed often enough.
        said: what the last failed call found.
    """

    manifest: Object
    passing: bool | None = None
    said: str | None = None
    calls: int = 0
    _in_a_row: int = field(default=0)
    _last: bool | None = field(default=None)

    @property
    def period_s(self) -> float:
        return float(self.manifest.get("periodSeconds", 10))

    async def watch(self, handler: Handler, container: Container, changed: Callable[[], None]) -> None:
        """Calls it for ever."""
        await asyncio.sleep(self.manifest.get("initialDelaySeconds", 0))
        while True:
            began = asyncio.get_running_loop().time()
            failure = await handler.call(self.manifest, self.manifest.get("timeoutSeconds", 1), container)
            self.note(failure)
            changed()
            await asyncio.sleep(max(0, began + self.period_s - asyncio.get_running_loop().time()))

    def note(self, failure: str | None) -> None:
        good = failure is None
        self.calls += 1
        self.said = failure or self.said
        self._in_a_row = self._in_a_row + 1 if good is self._last else 1
        self._last = good
        needed = (
            self.manifest.get("successThreshold", 1) if good else self.manifest.get("failureThreshold", 3)
        )
        if self._in_a_row >= needed:
            self.passing = good
