"""The variables of a container, as Kubernetes makes them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][\w.-]*)\)")


class ManifestError(Exception):
    """With these manifests a container could not be started."""


@dataclass(frozen=True)
class Store:
    """The objects of one namespace that pods refer to: (kind, name) -> object."""

    objects: Mapping[tuple[str, str], Object]

    def data(self, kind: str, name: str, optional: bool = False) -> dict[str, bytes]:
        found = self.objects.get((kind, name))
        if found is None:
            if optional:
                return {}
            raise ManifestError(f"there is no {kind} {name}")
        content = {key: text.encode() for key, text in found.get("data", {}).items()}
        if kind == "Secret":
            content = {key: base64.b64decode(text) for key, text in content.items()}
            content |= {key: text.encode() for key, text in found.get("stringData", {}).items()}
        else:
            content |= {key: base64.b64decode(text) for key, text in found.get("binaryData", {}).items()}
        return content

    def of_kind(self, kind: str) -> list[Object]:
        return [each for (other, _), each in self.objects.items() if other == kind]


def field_of(pod: Object, path: str) -> str:
    """A field of a pod, by the downward API."""
    keyed = re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path)
    if keyed:
        return str(pod["metadata"].get(keyed[1], {}).get(keyed[2], ""))
    value: Any = pod
    for part in path.split("."):
        if part not in value:
            raise ManifestError(f"fieldRef {path}: the fake kubelet does not know this")
        value = value[part]
    return str(value)


def service_links(store: Store, addresses: Mapping[str, str]) -> dict[str, str]:
    """What a pod is told of every Service of its namespace, unless enableServiceLinks is false."""
    told: dict[str, str] = {}
    for service in store.of_kind("Service"):
        name = service["metadata"]["name"]
        if name not in addresses or service["spec"].get("clusterIP") == "None":
            continue
        prefix, address = name.upper().replace("-", "_"), addresses[name]
        first = service["spec"]["ports"][0]["port"]
        told |= {
            f"{prefix}_SERVICE_HOST": address,
            f"{prefix}_SERVICE_PORT": str(first),
            f"{prefix}_PORT": f"tcp://{address}:{first}",
        }
        for port in service["spec"]["ports"]:
            if "name" in port:
                told[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
            url = f"{prefix}_PORT_{port['port']}_TCP"
            told[url] = f"tcp://{address}:{port['port']}"
            told |= {f"{url}_PROTO": "tcp", f"{url}_PORT": str(port["port"]), f"{url}_ADDR": address}
    return told


def variables(container: Object, pod: Object, store: Store) -> dict[str, str]:
    """Those that the manifest sets, in its order."""
    made: dict[str, str] = {}
    for source in container.get("envFrom", []):
        kind, ref = _reference(source, "configMapRef", "secretRef")
        content = store.data(kind, ref["name"], ref.get("optional", False))
        made |= {source.get("prefix", "") + key: value.decode() for key, value in content.items()}
    for entry in container.get("env", []):
        name = entry["name"]
        if "valueFrom" not in entry:
            made[name] = expand(str(entry.get("value", "")), made)
            continue
        origin = entry["valueFrom"]
        if "fieldRef" in origin:
            made[name] = field_of(pod, origin["fieldRef"]["fieldPath"])
            continue
        kind, ref = _reference(origin, "configMapKeyRef", "secretKeyRef")
        content = store.data(kind, ref["name"], ref.get("optional", False))
        if ref["key"] in content:
            made[name] = content[ref["key"]].decode()
        elif not ref.get("optional", False):
            raise ManifestError(f"{name}: {kind} {ref['name']} has no key {ref['key']}")
    return made


def expand(text: str, made: Mapping[str, str]) -> str:
    """Replaces $(NAME) where there is such a variable, and $$ by $."""
    return _REFERENCE.sub(lambda found: "$" if found[0] == "$$" else made.get(found[1], found[0]), text)


def _reference(source: Object, config_map: str, secret: str) -> tuple[str, Object]:
    if config_map in source:
        return "ConfigMap", source[config_map]
    if secret in source:
        return "Secret", source[secret]
    raise ManifestError(f"the fake kubelet does not know {sorted(source)}")
