"""A fake of a Kubernetes cluster: its API server over HTTP on 127.0.0.1, for the real helm, kubectl and
client libraries, and nothing behind it.

As the real one: discovery, validation against the published schemas, creation, update, deletion,
watches, dry runs, tables, merge and strategic merge patches, server-side apply with its owners of fields,
access reviews. Not there: admission, defaults, quotas, finalizers, logs, exec, and any controller, scheduler
or kubelet. `fabricated.py` makes up what those would report. So what goes well here has shown how a client
and a chart behave; it has deployed nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from aiohttp import web

from tests.helm.fake_kube_api.kinds import OWN, Kind, Object
from tests.helm.fake_kube_api.server import Allows, Server
from tests.helm.fake_kube_api.store import Store

VERSION = "1.35"


class FakeCluster:
    """Serves in a thread of its own, from `with` on.

    Attributes:
        allows: what the client may do; may be replaced at any time.
        requests: of each that was answered or not: method, path with query, and status (0: none yet).
    """

    def __init__(
        self,
        version: str = VERSION,
        operators: Iterable[Kind] = (),
        objects: Iterable[Object] = (),
        token: str | None = None,
    ) -> None:
        """
        Args:
            version: of Kubernetes, such as 1.35.
            operators: kinds beside a cluster's own.
            objects: that are there from the beginning, beside the namespaces `default` and `kube-system`.
            token: without which nobody is answered; None: everybody is.
        """
        self.kinds = (*OWN, *operators)
        self.allows: Allows = lambda verb, kind, namespace: True
        self.requests: list[tuple[str, str, int]] = []
        self.store = Store()
        self._user = {"token": token} if token else {}
        self._server = Server(self.store, version, self.kinds, token, lambda *asked: self.allows(*asked))
        self._server.app.on_response_prepare.append(self._record)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = threading.Event()
        self._stopped = asyncio.Event()
        self._port = 0
        for name in ("default", "kube-system"):
            self.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for content in objects:
            self.add(content)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def kind(self, name: str) -> Kind:
        return next(kind for kind in self.kinds if kind.name == name)

    def add(self, content: Object) -> None:
        """An object that is there without a client's doing."""
        self.store.put(self.kind(content["kind"]), content)

    def all(self, kind: str, namespace: str | None = None) -> list[Object]:
        return self.store.all(self.kind(kind), namespace)

    def get(self, kind: str, namespace: str | None, name: str) -> Object:
        return self.store.read(self.kind(kind), namespace, name)

    def write_kubeconfig(self, folder: Path, namespace: str = "default") -> Path:
        file = folder / "kubeconfig"
        context = {"cluster": "fake", "user": "fake", "namespace": namespace}
        content: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": self._user}],
            "contexts": [{"name": "fake", "context": context}],
            "current-context": "fake",
        }
        file.write_text(yaml.safe_dump(content), encoding="utf-8")
        return file

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        runner = web.AppRunner(
            self._server.app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._port = runner.addresses[0][1]
        self._started.set()
        await self._stopped.wait()
        await runner.cleanup()

    async def _record(self, request: web.Request, response: web.StreamResponse) -> None:
        self.requests.append((request.method, request.path_qs, response.status))
