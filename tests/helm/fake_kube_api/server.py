"""The HTTP side of the fake: paths, verbs, content types."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import yaml
from aiohttp import web

from tests.helm.fake_kube_api import discovery, immutable, patches, protobuf, refusals, tables
from tests.helm.fake_kube_api.fabricated import Fabrication
from tests.helm.fake_kube_api.fields import take_over_changes
from tests.helm.fake_kube_api.kinds import VERBS, Kind, Object
from tests.helm.fake_kube_api.refusals import Refusal
from tests.helm.fake_kube_api.schema import schemas
from tests.helm.fake_kube_api.selectors import Selects, selector
from tests.helm.fake_kube_api.store import Event, Store
from tests.helm.fake_kube_api.validation import Strictness, checked

Allows = Callable[[str, Kind, str | None], bool]
"""Whether the client may do this verb to this kind in this namespace, None for all of them."""


class _Target(NamedTuple):
    kind: Kind
    namespace: str | None
    name: str | None
    subresource: str | None


class Server:
    def __init__(
        self, store: Store, version: str, kinds: Sequence[Kind], token: str | None, allows: Allows
    ) -> None:
        self._store = store
        self._token = token
        self._version = version
        self._kinds = kinds
        self._allows = allows
        self._schemas = schemas(version)
        self._watches: set[asyncio.Queue[Event]] = set()
        # First what happened is told, then what the fabricated controllers make of it.
        store.on_event.append(self._tell)
        Fabrication(store)
        self.app = web.Application(client_max_size=1 << 24, middlewares=[self._answer_refusals])
        self.app.router.add_route("*", "/{path:.*}", self._answer)

    def _tell(self, event: Event) -> None:
        for queue in self._watches:
            queue.put_nowait(event)

    @web.middleware
    async def _answer_refusals(self, request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            return cast(web.StreamResponse, await handler(request))
        except Refusal as refusal:
            return web.json_response(refusal.status, status=refusal.code)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self._token and request.headers.get("authorization") != f"Bearer {self._token}":
            raise refusals.unauthorized()
        if (said := self._said_of_itself(request)) is not None:
            return said
        target = self._target(request.path)
        verb = _verb(request, target)
        kind = target.kind
        if kind.name == "SelfSubjectAccessReview":
            return web.json_response(self._review(await _body(request)), status=201)
        if not self._allows(verb, kind, target.namespace):
            raise refusals.forbidden(verb, kind, target.namespace)
        if target.subresource == "log":
            self._store.read(kind, target.namespace, target.name or "")
            return web.Response(text="a fake: no container has run\n")
        match verb:
            case "get":
                content = self._store.read(kind, target.namespace, target.name or "")
                return self._show(request, kind, [content], content)
            case "list":
                return self._list(request, target)
            case "watch":
                return await self._watch(request, target)
            case "delete" | "deletecollection":
                return self._delete(request, target)
            case _:
                return await self._write(request, target, verb)

    def _said_of_itself(self, request: web.Request) -> web.Response | None:
        path = request.path.rstrip("/")
        wants_all = "as=APIGroupDiscoveryList" in request.headers.get("accept", "")
        if path in ("/healthz", "/readyz", "/livez"):
            return web.Response(text="ok")
        if path == "/version":
            return web.json_response(discovery.version(self._version))
        if path in ("/api", "/apis") and wants_all:
            found = discovery.aggregated(self._kinds, core=path == "/api")
            return web.Response(body=json.dumps(found), headers={"content-type": discovery.AGGREGATED})
        if path == "/api":
            return web.json_response(discovery.core_versions())
        if path == "/apis":
            return web.json_response(discovery.groups(self._kinds))
        if path == "/openapi/v3":
            return web.json_response(discovery.openapi_index(self._kinds))
        if path.startswith("/openapi/v3/"):
            root = path.removeprefix("/openapi/v3")
            document = discovery.openapi(self._kinds, root)
            return None if document is None else web.json_response(document)
        listed = discovery.resources(self._kinds, path)
        return None if listed is None else web.json_response(listed)

    def _target(self, path: str) -> _Target:
        steps = path.strip("/").split("/")
        root, rest = steps[:2], steps[2:]
        if steps[0] == "apis":
            root, rest = steps[:3], steps[3:]
        namespace = None
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        for kind in self._kinds:
            if rest and kind.root == "/" + "/".join(root) and kind.plural == rest[0]:
                name, subresource, *more = [*rest[1:], None, None]
                if subresource not in (None, *kind.subresources) or len(more) > 2:
                    break
                return _Target(kind, namespace, name, subresource)
        raise refusals.no_path(path)

    def _review(self, asked: Object) -> Object:
        attributes = asked["spec"]["resourceAttributes"]
        asks = {name: attributes.get(name, "") for name in ("group", "resource", "verb")}
        found = [
            kind
            for kind in self._kinds
            if asks["group"] in (kind.group, "*") and asks["resource"] in (kind.plural, "*")
        ]
        verbs = VERBS if asks["verb"] == "*" else (asks["verb"],)
        namespace = attributes.get("namespace") or None
        allowed = bool(found) and all(self._allows(verb, kind, namespace) for kind in found for verb in verbs)
        return {**asked, "metadata": {}, "status": {"allowed": allowed}}

    def _list(self, request: web.Request, target: _Target) -> web.Response:
        selects = _selects(request)
        items = [item for item in self._store.all(target.kind, target.namespace) if selects(item)]
        begun = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or 0) or len(items)
        page = items[begun : begun + limit]
        metadata = {"resourceVersion": str(self._store.version)}
        if begun + limit < len(items):
            metadata["continue"] = str(begun + limit)
        content = {
            "kind": f"{target.kind.name}List",
            "apiVersion": target.kind.api_version,
            "metadata": metadata,
            "items": page,
        }
        return self._show(request, target.kind, page, content)

    def _show(self, request: web.Request, kind: Kind, items: list[Object], content: Object) -> web.Response:
        if "as=Table" in request.headers.get("accept", ""):
            shown = tables.table(kind, items, str(self._store.version))
            shown["metadata"]["continue"] = content["metadata"].get("continue", "")
            return web.json_response(shown)
        return web.json_response(content)

    async def _watch(self, request: web.Request, target: _Target) -> web.StreamResponse:
        kind, selects = target.kind, _selects(request)
        queue: asyncio.Queue[Event] = asyncio.Queue()
        since = request.query.get("resourceVersion", "0")
        wants_all = request.query.get("sendInitialEvents") == "true"
        if since in ("", "0") or wants_all:
            begun = self._store.version
            for item in self._store.all(kind, target.namespace):
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
            async with asyncio.timeout(float(request.query.get("timeoutSeconds", 3600))):
                await response.prepare(request)
                while True:
                    event = await queue.get()
                    if self._concerns(event, target, selects):
                        await response.write(self._line(request, event))
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

    def _concerns(self, event: Event, target: _Target, selects: Selects) -> bool:
        if event.kind != target.kind:
            return False
        if event.type == "BOOKMARK":
            return True
        metadata = event.content["metadata"]
        if target.namespace not in (None, metadata.get("namespace")):
            return False
        return selects(event.content)

    def _line(self, request: web.Request, event: Event) -> bytes:
        content = event.content
        if "as=Table" in request.headers.get("accept", "") and event.type != "BOOKMARK":
            content = tables.table(event.kind, [content], str(event.version))
        return json.dumps({"type": event.type, "object": content}).encode() + b"\n"

    def _delete(self, request: web.Request, target: _Target) -> web.Response:
        kind, namespace = target.kind, target.namespace
        names = [target.name]
        if target.name is None:
            selects = _selects(request)
            items = [item for item in self._store.all(kind, namespace) if selects(item)]
            names = [item["metadata"]["name"] for item in items]
        found = [self._store.read(kind, namespace, name or "") for name in names]
        if "dryRun" not in request.query:
            for item in found:
                self._store.delete(kind, namespace, item["metadata"]["name"])
        details = {"name": target.name, "group": kind.group, "kind": kind.plural}
        if target.name is not None:
            details["uid"] = found[0]["metadata"]["uid"]
        return web.json_response(
            {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        )

    async def _write(self, request: web.Request, target: _Target, verb: str) -> web.Response:
        kind, namespace = target.kind, target.namespace
        sent = await _body(request)
        name = target.name or (sent["metadata"].get("name") if isinstance(sent, dict) else None)
        if name is None and (prefix := sent["metadata"].get("generateName")):
            name = f"{prefix}{self._store.version:05d}"
        if name is None:
            raise refusals.bad_request(f"{kind.name} has no name")
        old = self._store.find(kind, namespace, name)
        if verb == "create" and old is not None:
            raise refusals.exists(kind, name)
        content = self._next(request, target, verb, sent, old, name)
        metadata = content.setdefault("metadata", {})
        metadata["name"] = name
        if kind.namespaced:
            metadata["namespace"] = namespace
            if verb == "create" or old is None:
                self._require_namespace(namespace or "")
        if old is not None and metadata.get("resourceVersion", "") not in (
            "",
            old["metadata"]["resourceVersion"],
        ):
            raise refusals.outdated(kind, name)
        content.setdefault("apiVersion", kind.api_version)
        content.setdefault("kind", kind.name)
        strictness = cast(Strictness, request.query.get("fieldValidation", "Warn"))
        content, warnings = checked(kind, content, self._version, strictness)
        if old is not None:
            immutable.check(kind, old, content)
        if not _is_apply(request):
            schema = self._schemas.of(kind)
            take_over_changes(old, content, schema, request.query.get("fieldManager", "unknown"))
        content = _with_data(content)
        if "dryRun" in request.query:
            content = self._store.stamp(content, old)
        else:
            content = self._store.put(kind, content)
            # The controllers may have gone on with it.
            content = self._store.find(kind, namespace, name) or content
        response = self._show(request, kind, [content], content)
        for warning in warnings:
            response.headers.add("Warning", f"299 - {json.dumps(warning)}")
        response.set_status(201 if old is None else 200)
        return response

    def _next(
        self, request: web.Request, target: _Target, verb: str, sent: Any, old: Object | None, name: str
    ) -> Object:
        """The object as the request wants it."""
        kind = target.kind
        if verb == "create":
            return cast(Object, sent)
        if _is_apply(request):
            return self._apply(request, kind, sent, old)
        if old is None:
            raise refusals.not_found(kind, name)
        if verb == "update":
            # A status is another path's.
            kept = {"status": old["status"]} if "status" in old and target.subresource is None else {}
            updated = {**sent, **kept}
            updated["metadata"].setdefault("managedFields", old["metadata"].get("managedFields", []))
            return cast(Object, updated)
        match request.content_type:
            case "application/strategic-merge-patch+json":
                return cast(Object, patches.strategic(old, sent, self._schemas.of(kind)))
            case "application/merge-patch+json":
                return cast(Object, patches.merge(old, sent))
            case "application/json-patch+json":
                return patches.json_patch(old, sent)
            case other:
                raise refusals.unsupported(other)

    def _apply(self, request: web.Request, kind: Kind, sent: Object, old: Object | None) -> Object:
        strictness = cast(Strictness, request.query.get("fieldValidation", "Strict"))
        # Unlike other writes, this one needs every field's schema.
        named = copy.deepcopy(sent)
        checked(kind, named, self._version, "Strict" if strictness == "Warn" else strictness)
        manager = request.query.get("fieldManager")
        if not manager:
            raise refusals.bad_request("fieldManager is required for apply patch")
        force = request.query.get("force") == "true"
        return patches.apply(old, sent, self._schemas.of(kind), manager, force=force)

    def _require_namespace(self, namespace: str) -> None:
        kind = next(kind for kind in self._kinds if kind.name == "Namespace")
        self._store.read(kind, None, namespace)


def _verb(request: web.Request, target: _Target) -> str:
    if request.method == "GET":
        if target.name is not None:
            return "get"
        return "watch" if request.query.get("watch") in ("true", "1") else "list"
    if request.method == "DELETE":
        return "delete" if target.name is not None else "deletecollection"
    return {"POST": "create", "PUT": "update", "PATCH": "patch"}[request.method]


def _is_apply(request: web.Request) -> bool:
    return request.content_type.startswith("application/apply-patch")


async def _body(request: web.Request) -> Any:
    body = await request.read()
    if protobuf.is_protobuf(body):
        return protobuf.read(body)
    try:
        return yaml.safe_load(body) if _is_apply(request) else json.loads(body)
    except (yaml.YAMLError, ValueError) as error:
        raise refusals.bad_request(f"the body cannot be read: {error}") from None


def _with_data(content: Object) -> Object:
    """A Secret's `stringData` is another way to write its `data`."""
    if content["kind"] != "Secret" or "stringData" not in content:
        return content
    data = dict(content.get("data") or {})
    for name, text in content["stringData"].items():
        data[name] = base64.b64encode(text.encode()).decode()
    return {**{key: value for key, value in content.items() if key != "stringData"}, "data": data}


def _selects(request: web.Request) -> Selects:
    return selector(request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
