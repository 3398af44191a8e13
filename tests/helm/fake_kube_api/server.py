"""The HTTP side of the fake: who may ask what, and who answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from aiohttp import web

from tests.helm.fake_kube_api import discovery, refusals
from tests.helm.fake_kube_api.asked import Asked, asked
from tests.helm.fake_kube_api.fabricated import Fabrication
from tests.helm.fake_kube_api.kinds import VERBS, Kind, Object
from tests.helm.fake_kube_api.reading import Reader
from tests.helm.fake_kube_api.refusals import Refusal
from tests.helm.fake_kube_api.store import Store
from tests.helm.fake_kube_api.writing import Writer

Allows = Callable[[str, Kind, str | None], bool]
"""Whether the client may do this verb to this kind in this namespace, None for all of them."""


class Server:
    def __init__(
        self, store: Store, version: str, kinds: Sequence[Kind], token: str | None, allows: Allows
    ) -> None:
        self._store = store
        self._version = version
        self._kinds = kinds
        self._token = token
        self._allows = allows
        # A watch is told first what happened, then what the fabricated controllers make of it.
        self._reader = Reader(store)
        Fabrication(store)
        self._writer = Writer(store, self._reader, version)
        self.app = web.Application(client_max_size=1 << 24, middlewares=[self._answer_refusals])
        self.app.router.add_route("*", "/{path:.*}", self._answer)

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
        about = asked(request, self._kinds)
        if about.kind.name == "SelfSubjectAccessReview":
            return web.json_response(self._review(await about.body()), status=201)
        if not self._allows(about.verb, about.kind, about.namespace):
            raise refusals.forbidden(about.verb, about.kind, about.namespace)
        return await self._act(about)

    async def _act(self, about: Asked) -> web.StreamResponse:
        if about.subresource == "log":
            self._store.read(about.kind, about.namespace, about.name or "")
            return web.Response(text="a fake: no container has run\n")
        match about.verb:
            case "get":
                return self._reader.get(about)
            case "list":
                return self._reader.page(about)
            case "watch":
                return await self._reader.watch(about)
            case "delete" | "deletecollection":
                return self._writer.delete(about)
            case _:
                return await self._writer.write(about)

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
            document = discovery.openapi(self._kinds, path.removeprefix("/openapi/v3"))
            return None if document is None else web.json_response(document)
        listed = discovery.resources(self._kinds, path)
        return None if listed is None else web.json_response(listed)

    def _review(self, content: Object) -> Object:
        """`*` asks for all of them at once."""
        attributes = content["spec"]["resourceAttributes"]
        group, plural, verb = (attributes.get(name, "") for name in ("group", "resource", "verb"))
        found = [kind for kind in self._kinds if group in (kind.group, "*") and plural in (kind.plural, "*")]
        verbs = VERBS if verb == "*" else (verb,)
        namespace = attributes.get("namespace") or None
        allowed = bool(found) and all(self._allows(one, kind, namespace) for kind in found for one in verbs)
        return {**content, "metadata": {}, "status": {"allowed": allowed}}
