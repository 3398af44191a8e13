"""What the server says of itself: versions, groups, kinds, and as much OpenAPI as clients need."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tests.helm.fake_kube_api.kinds import Kind, Object

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def version(of: str) -> Object:
    major, minor = of.split(".")
    git = f"v{of}.0"
    return {"major": major, "minor": minor, "gitVersion": git, "platform": "fake/fake"}


def core_versions() -> Object:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(kinds: Sequence[Kind]) -> Object:
    items = []
    for name, members in _by_group(kinds).items():
        versions = [
            {"groupVersion": f"{name}/{version}", "version": version}
            for version in dict.fromkeys(kind.version for kind in members)
        ]
        if name:
            items.append({"name": name, "versions": versions, "preferredVersion": versions[0]})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": items}


def resources(kinds: Sequence[Kind], root: str) -> Object | None:
    """Of a group's version, by its path."""
    members = [kind for kind in kinds if kind.root == root]
    if not members:
        return None
    listed = [
        {
            "name": f"{kind.plural}{'/' + subresource if subresource else ''}",
            "singularName": kind.name.lower(),
            "namespaced": kind.namespaced,
            "kind": kind.name,
            "shortNames": list(kind.short),
            "categories": kind.categories,
            "verbs": ["get"] if subresource else list(kind.verbs),
        }
        for kind in members
        for subresource in ("", *kind.subresources)
    ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": members[0].api_version,
        "resources": listed,
    }


def aggregated(kinds: Sequence[Kind], *, core: bool) -> Object:
    """All groups, or the core, in one answer, as clients like it."""
    items = []
    for name, members in _by_group(kinds).items():
        if (name == "") == core:
            versions = {
                version: [kind for kind in members if kind.version == version]
                for version in dict.fromkeys(kind.version for kind in members)
            }
            items.append(
                {
                    "metadata": {"name": name, "creationTimestamp": None},
                    "versions": [
                        {
                            "version": version,
                            "freshness": "Current",
                            "resources": [_aggregated(kind) for kind in of_version],
                        }
                        for version, of_version in versions.items()
                    ],
                }
            )
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}


def openapi_index(kinds: Sequence[Kind]) -> Object:
    roots = dict.fromkeys(kind.root for kind in kinds)
    return {"paths": {root[1:]: {"serverRelativeURL": f"/openapi/v3{root}"} for root in roots}}


def openapi(kinds: Sequence[Kind], root: str) -> Object | None:
    """Of one group's version, no more than clients look for before they write: that a patch may be tried, and
    is checked by the server. The schemas themselves are large, and helm would read them for every command.
    """
    members = [kind for kind in kinds if kind.root == root]
    if not members:
        return None
    query = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation", "force")
    ]
    paths = {}
    for kind in members:
        place = "/namespaces/{namespace}" if kind.namespaced else ""
        paths[f"{root}{place}/{kind.plural}/{{name}}"] = {
            "patch": {
                "parameters": query,
                "responses": {},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": {
                    "group": kind.group,
                    "version": kind.version,
                    "kind": kind.name,
                },
            }
        }
    info = {"title": "a fake of Kubernetes", "version": "fake"}
    return {"openapi": "3.0.0", "info": info, "paths": paths}


def _aggregated(kind: Kind) -> Object:
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.name}
    return {
        "resource": kind.plural,
        "responseKind": gvk,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.name.lower(),
        "verbs": list(kind.verbs),
        "shortNames": list(kind.short),
        "categories": kind.categories,
        "subresources": [
            {"subresource": name, "responseKind": gvk, "verbs": ["get"]} for name in kind.subresources
        ],
    }


def _by_group(kinds: Sequence[Kind]) -> dict[str, list[Kind]]:
    ordered = sorted(kinds, key=lambda kind: kind.group)
    return {group: list(members) for group, members in groupby(ordered, lambda kind: kind.group)}
