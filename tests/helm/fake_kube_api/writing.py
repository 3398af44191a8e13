"""Objects are created, changed and deleted."""

from __future__ import annotations

import base64
import json
from typing import Any, cast

from aiohttp import web

from tests.helm.fake_kube_api import immutable, patches, refusals
from tests.helm.fake_kube_api.asked import Asked
from tests.helm.fake_kube_api.fields import take_over_changes
from tests.helm.fake_kube_api.kinds import OWN, Object
from tests.helm.fake_kube_api.reading import Reader
from tests.helm.fake_kube_api.schema import schemas
from tests.helm.fake_kube_api.store import Store
from tests.helm.fake_kube_api.validation import Strictness, checked

_NAMESPACE = next(kind for kind in OWN if kind.name == "Namespace")


class Writer:
    def __init__(self, store: Store, reader: Reader, version: str) -> None:
        """`version`: of Kubernetes, whose schemas count."""
        self._store = store
        self._reader = reader
        self._version = version
        self._schemas = schemas(version)

    async def write(self, asked: Asked) -> web.Response:
        kind, namespace, verb = asked.kind, asked.namespace, asked.verb
        sent = await asked.body()
        name = asked.name or self._name(sent)
        if name is None:
            raise refusals.bad_request(f"{kind.name} has no name")
        old = self._store.find(kind, namespace, name)
        if verb == "create" and old is not None:
            raise refusals.exists(kind, name)
        if old is None and kind.namespaced:
            self._store.read(_NAMESPACE, None, namespace or "")
        content = self._next(asked, sent, old, name)
        metadata = content.setdefault("metadata", {})
        metadata["name"] = name
        if kind.namespaced:
            metadata["namespace"] = namespace
        if old is not None and metadata.get("resourceVersion") not in (
            *(None, ""),
            old["metadata"]["resourceVersion"],
        ):
            raise refusals.outdated(kind, name)
        content.setdefault("apiVersion", kind.api_version)
        content.setdefault("kind", kind.name)
        content, warnings = checked(kind, content, self._version, _strictness(asked, "Warn"))
        if old is not None:
            immutable.check(kind, old, content)
        if not asked.applies:
            manager = asked.request.query.get("fieldManager", "unknown")
            take_over_changes(old, content, self._schemas.of(kind), manager)
        content = _with_data(content)
        if asked.is_tried:
            content = self._store.stamp(content, old)
        else:
            self._store.put(kind, content)
            # The controllers may have gone on with it.
            content = self._store.read(kind, namespace, name)
        response = self._reader.show(asked, [content], content)
        for warning in warnings:
            response.headers.add("Warning", f"299 - {json.dumps(warning)}")
        response.set_status(201 if old is None else 200)
        return response

    def delete(self, asked: Asked) -> web.Response:
        kind, namespace = asked.kind, asked.namespace
        if asked.name is None:
            selects = asked.selects
            found = [item for item in self._store.all(kind, namespace) if selects(item)]
        else:
            found = [self._store.read(kind, namespace, asked.name)]
        for item in found if not asked.is_tried else []:
            self._store.delete(kind, item["metadata"].get("namespace"), item["metadata"]["name"])
        details = {"name": asked.name, "group": kind.group, "kind": kind.plural}
        if asked.name is not None:
            details["uid"] = found[0]["metadata"]["uid"]
        return web.json_response(
            {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        )

    def _name(self, sent: Object) -> str | None:
        metadata = sent["metadata"]
        if prefix := metadata.get("generateName"):
            return metadata.get("name") or f"{prefix}{self._store.version:05d}"
        name: str | None = metadata.get("name")
        return name

    def _next(self, asked: Asked, sent: Any, old: Object | None, name: str) -> Object:
        """The object as the request wants it."""
        kind = asked.kind
        if asked.verb == "create":
            return cast(Object, sent)
        if asked.applies:
            return self._apply(asked, sent, old)
        if old is None:
            raise refusals.not_found(kind, name)
        if asked.verb == "update":
            # A status is another path's.
            kept = {"status": old["status"]} if "status" in old and asked.subresource is None else {}
            updated: Object = {**sent, **kept}
            updated["metadata"].setdefault("managedFields", old["metadata"].get("managedFields", []))
            return updated
        match asked.request.content_type:
            case "application/strategic-merge-patch+json":
                return cast(Object, patches.strategic(old, sent, self._schemas.of(kind)))
            case "application/merge-patch+json":
                return cast(Object, patches.merge(old, sent))
            case "application/json-patch+json":
                return patches.json_patch(old, sent)
            case other:
                raise refusals.unsupported(other)

    def _apply(self, asked: Asked, sent: Object, old: Object | None) -> Object:
        # Unlike other writes, this one needs every field's schema.
        strictness = _strictness(asked, "Strict")
        checked(asked.kind, sent, self._version, "Strict" if strictness == "Warn" else strictness)
        manager = asked.request.query.get("fieldManager")
        if not manager:
            raise refusals.bad_request("fieldManager is required for apply patch")
        force = asked.request.query.get("force") == "true"
        return patches.apply(old, sent, self._schemas.of(asked.kind), manager, force=force)


def _strictness(asked: Asked, default: Strictness) -> Strictness:
    return cast(Strictness, asked.request.query.get("fieldValidation") or default)


def _with_data(content: Object) -> Object:
    """A Secret's `stringData` is another way to write its `data`."""
    if content["kind"] != "Secret" or "stringData" not in content:
        return content
    data = dict(content.get("data") or {})
    for name, text in content["stringData"].items():
        data[name] = base64.b64encode(text.encode()).decode()
    return {**{key: value for key, value in content.items() if key != "stringData"}, "data": data}
