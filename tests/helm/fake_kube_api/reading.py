"""What objects there are, at once or as they change."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from tests.helm.fake_kube_api import tables
from tests.helm.fake_kube_api.asked import Asked
from tests.helm.fake_kube_api.kinds import Kind, Object
from tests.helm.fake_kube_api.selectors import Selects
from tests.helm.fake_kube_api.store import Event, Store


class Reader:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._watches: set[asyncio.Queue[Event]] = set()
        store.on_event.append(self._tell)

    def _tell(self, event: Event) -> None:
        for queue in self._watches:
            queue.put_nowait(event)

    def get(self, asked: Asked) -> web.Response:
        content = self._store.read(asked.kind, asked.namespace, asked.name or "")
        return self.show(asked, [content], content)

    def page(self, asked: Asked) -> web.Response:
        selects = asked.selects
        items = [item for item in self._store.all(asked.kind, asked.namespace) if selects(item)]
        begun = int(asked.request.query.get("continue") or 0)
        limit = int(asked.request.query.get("limit") or 0) or len(items)
        page = items[begun : begun + limit]
        metadata = {"resourceVersion": str(self._store.version)}
        if begun + limit < len(items):
            metadata["continue"] = str(begun + limit)
        content = {
            "kind": f"{asked.kind.name}List",
            "apiVersion": asked.kind.api_version,
            "metadata": metadata,
            "items": page,
        }
        return self.show(asked, page, content)

    def show(self, asked: Asked, items: list[Object], content: Object) -> web.Response:
        if asked.wants_table:
            shown = tables.table(asked.kind, items, str(self._store.version))
            shown["metadata"]["continue"] = content["metadata"].get("continue", "")
            return web.json_response(shown)
        return web.json_response(content)

    async def watch(self, asked: Asked) -> web.StreamResponse:
        kind, selects = asked.kind, asked.selects
        queue: asyncio.Queue[Event] = asyncio.Queue()
        since = asked.request.query.get("resourceVersion", "0")
        wants_all = asked.request.query.get("sendInitialEvents") == "true"
        if since in ("", "0") or wants_all:
            begun = self._store.version
            for item in self._store.all(kind, asked.namespace):
                queue.put_nowait(Event(begun, "ADDED", kind, item))
        else:
            for event in self._store.events:
                if event.version > int(since):
                    queue.put_nowait(event)
        if wants_all:
            queue.put_nowait(Event(self._store.version, "BOOKMARK", kind, self._bookmark(kind)))
        self._watches.add(queue)
        response = web.StreamResponse(headers={"content-type": "application/json"})
        try:
            async with asyncio.timeout(float(asked.request.query.get("timeoutSeconds", 3600))):
                await response.prepare(asked.request)
                while True:
                    event = await queue.get()
                    if _concerns(event, asked, selects):
                        await response.write(_line(asked, event))
        except (TimeoutError, ConnectionError):
            return response
        finally:
            self._watches.discard(queue)

    def _bookmark(self, kind: Kind) -> Object:
        return {
            "kind": kind.name,
            "apiVersion": kind.api_version,
            "metadata": {
                "resourceVersion": str(self._store.version),
                "annotations": {"k8s.io/initial-events-end": "true"},
            },
        }


def _concerns(event: Event, asked: Asked, selects: Selects) -> bool:
    if event.kind != asked.kind:
        return False
    if event.type == "BOOKMARK":
        return True
    metadata = event.content["metadata"]
    if asked.namespace not in (None, metadata.get("namespace")):
        return False
    return selects(event.content)


def _line(asked: Asked, event: Event) -> bytes:
    content = event.content
    if asked.wants_table and event.type != "BOOKMARK":
        content = tables.table(event.kind, [content], str(event.version))
    return json.dumps({"type": event.type, "object": content}).encode() + b"\n"
