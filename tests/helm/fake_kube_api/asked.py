"""A request about objects: which, and what is to be done with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import yaml
from aiohttp import web

from tests.helm.fake_kube_api import protobuf, refusals
from tests.helm.fake_kube_api.kinds import Kind
from tests.helm.fake_kube_api.selectors import Selects, selector

_WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class Asked(NamedTuple):
    """
    Attributes:
        namespace: None: all of them, or none.
        name: None: all of them.
    """

    request: web.Request
    kind: Kind
    namespace: str | None
    name: str | None
    subresource: str | None

    @property
    def verb(self) -> str:
        method = self.request.method
        if method == "GET":
            if self.name is not None:
                return "get"
            return "watch" if self.request.query.get("watch") in ("true", "1") else "list"
        if method == "DELETE":
            return "delete" if self.name is not None else "deletecollection"
        return _WRITES[method]

    @property
    def applies(self) -> bool:
        """Server-side."""
        return self.request.content_type.startswith("application/apply-patch")

    @property
    def is_tried(self) -> bool:
        return "dryRun" in self.request.query

    @property
    def wants_table(self) -> bool:
        return "as=Table" in self.request.headers.get("accept", "")

    @property
    def selects(self) -> Selects:
        query = self.request.query
        return selector(query.get("labelSelector", ""), query.get("fieldSelector", ""))

    async def body(self) -> Any:
        """
        Raises:
            Refusal
        """
        body = await self.request.read()
        if protobuf.is_protobuf(body):
            return protobuf.read(body)
        try:
            return yaml.safe_load(body) if self.applies else json.loads(body)
        except (yaml.YAMLError, ValueError) as error:
            raise refusals.bad_request(f"the body cannot be read: {error}") from None


def asked(request: web.Request, kinds: Sequence[Kind]) -> Asked:
    """
    Raises:
        Refusal: nothing is served at this path.
    """
    steps = request.path.strip("/").split("/")
    depth = 3 if steps[0] == "apis" else 2
    root, rest = "/" + "/".join(steps[:depth]), steps[depth:]
    namespace = None
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    for kind in kinds:
        if rest and kind.root == root and kind.plural == rest[0] and len(rest) <= 3:
            name, subresource = [*rest[1:], None, None][:2]
            if subresource in (None, *kind.subresources):
                return Asked(request, kind, namespace, name, subresource)
    raise refusals.no_path(request.path)
