"""A fake of the Kubernetes API server: pods of one namespace, to be listed, watched, read and patched.

It answers over HTTP on 127.0.0.1 as the real one does, versions and error bodies included, and does to its
clients what a real one may: forget old versions, cut connections, hang, restart, refuse.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from dllm_stack.local.service import free_port

NAMESPACE = "serving"
TOKEN = "a-token"
_COST = "controller.kubernetes.io/pod-deletion-cost"

Object = dict[str, Any]


class FakeKubeApi:
    """
    Attributes:
        requests: of every request, what it was: list | watch | read | patch.
        costs: of every patch, the pod and the cost it was given.
        answers: cleared, requests wait until it is set again.
        refused: what is answered with 403.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[str] = []
        self.costs: list[tuple[str, str]] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.refused: set[str] = set()
        self.port = free_port()
        self._tls = tls
        self._pods: dict[str, Object] = {}
        self._version = 100
        self._oldest = 100  # the oldest version that a watch may begin from
        self._events: list[tuple[int, Object]] = []
        self._happened = asyncio.Condition()
        self._watches: set[asyncio.Transport] = set()
        self._runner: web.AppRunner | None = None

    # The cluster's side

    async def add(self, name: str, **labels: str) -> None:
        metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": []}}
        await self._record("ADDED", pod)

    async def mark_for_deletion(self, name: str) -> None:
        pod = self._pods[name]
        marked = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        await self._record("MODIFIED", {**pod, "metadata": marked})

    async def remove(self, name: str) -> None:
        await self._record("DELETED", self._pods[name])

    def replace_unseen(self, name: str) -> None:
        """The next pod of a StatefulSet has taken the name, and no watch has heard of it yet."""
        pod = self._pods[name]
        fresh = {key: value for key, value in pod["metadata"].items() if key != "deletionTimestamp"}
        self._pods[name] = {**pod, "metadata": fresh}

    async def forget_versions(self) -> None:
        """No watch may go on, or begin, from any version that clients know."""
        self._version += 1
        self._oldest = self._version
        async with self._happened:
            self._happened.notify_all()

    async def bookmark(self) -> None:
        """Tells the watches the newest version."""
        self._version += 1
        metadata = {"resourceVersion": str(self._version)}
        await self._tell({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": metadata}})

    def cut_watches(self) -> None:
        for transport in self._watches:
            transport.abort()

    def annotations(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self._pods[name]["metadata"].get("annotations", {})
        return found

    @property
    def watches(self) -> int:
        return len(self._watches)

    # The server

    async def start(self) -> None:
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        app = web.Application(middlewares=[self._guard])
        app.add_routes(
            [
                web.get(pods, self._list),
                web.get(f"{pods}/{{name}}", self._read),
                web.patch(f"{pods}/{{name}}", self._patch),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._tls).start()

    async def stop(self) -> None:
        assert self._runner is not None
        self.cut_watches()
        await self._runner.cleanup()

    def write_kubeconfig(self, folder: Path) -> Path:
        file = folder / "kubeconfig"
        content = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
            "current-context": "x",
        }
        file.write_text(yaml.safe_dump(content))
        return file

    async def _record(self, kind: str, pod: Object) -> None:
        self._version += 1
        pod = {**pod, "metadata": {**pod["metadata"], "resourceVersion": str(self._version)}}
        name = pod["metadata"]["name"]
        if kind == "DELETED":
            del self._pods[name]
        else:
            self._pods[name] = pod
        await self._tell({"type": kind, "object": pod})

    async def _tell(self, event: Object) -> None:
        async with self._happened:
            self._events.append((self._version, event))
            self._happened.notify_all()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.method == "PATCH":
            what = "patch"
        elif "name" in request.match_info:
            what = "read"
        else:
            what = "watch" if request.query.get("watch") == "true" else "list"
        self.requests.append(what)
        await self.answers.wait()
        if request.headers.get("Authorization", "").lower() != f"bearer {TOKEN}":
            return _failure(401, "Unauthorized")
        if what in self.refused:
            return _failure(403, f"pods is forbidden: the service account cannot {what} pods")
        response: web.StreamResponse = await handler(request)
        return response

    async def _list(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") == "true":
            return await self._watch(request)
        items = [pod for pod in self._pods.values() if _selected(request, pod)]
        metadata = {"resourceVersion": str(self._version)}
        return web.json_response(
            {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
        )

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        version = int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        transport = request.transport
        assert transport is not None
        self._watches.add(transport)
        try:
            async with asyncio.timeout(float(request.query["timeoutSeconds"])):
                while True:
                    if version < self._oldest:
                        gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                        await _send(response, {"type": "ERROR", "object": gone})
                        return response
                    for at, event in [each for each in self._events if each[0] > version]:
                        if event["type"] == "BOOKMARK" or _selected(request, event["object"]):
                            await _send(response, event)
                        version = at
                    async with self._happened:
                        newest = self._events[-1][0] if self._events else 0
                        if version >= max(newest, self._oldest):
                            await self._happened.wait()
        except TimeoutError:
            return response
        finally:
            self._watches.discard(transport)

    async def _read(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._pods:
            return _failure(404, f'pods "{name}" not found')
        return web.json_response(self._pods[name])

    async def _patch(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._pods:
            return _failure(404, f'pods "{name}" not found')
        if request.content_type != "application/merge-patch+json":
            return _failure(415, f"this fake knows merge patches only, not {request.content_type}")
        annotations = (await request.json())["metadata"]["annotations"]
        self.costs.append((name, annotations[_COST]))
        pod = self._pods[name]
        merged = {**pod["metadata"].get("annotations", {}), **annotations}
        await self._record("MODIFIED", {**pod, "metadata": {**pod["metadata"], "annotations": merged}})
        return web.json_response(self._pods[name])


@asynccontextmanager
async def running(tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeKubeApi]:
    api = FakeKubeApi(tls)
    await api.start()
    try:
        yield api
    finally:
        await api.stop()


def _selected(request: web.Request, pod: Object) -> bool:
    wanted = dict(term.split("=", 1) for term in request.query.get("labelSelector", "").split(",") if term)
    labels: dict[str, str] = pod["metadata"]["labels"]
    return wanted.items() <= labels.items()


def _failure(code: int, message: str) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}
    return web.json_response(status, status=code)


async def _send(response: web.StreamResponse, event: Object) -> None:
    await response.write(json.dumps(event).encode() + b"\n")
