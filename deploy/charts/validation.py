"""Manifests against the schemas of every Kubernetes that the charts are for; unknown fields are refused."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from kubernetes_validate import utils

from deploy.charts.helm import Manifest
from deploy.charts.matrix import Case

VERSIONS = tuple(f"1.{minor}" for minor in range(29, 38))

# It reads its files, 2 MB each, anew for every manifest.
utils.schema_contents = cache(utils.schema_contents)


def errors(manifest: Manifest, version: str) -> list[str]:
    """What is wrong with it, by field.

    Args:
        version: of Kubernetes. Custom resources have schemas of ours instead, the same for all versions.
    """
    name = f"{manifest['kind']}/{manifest['metadata']['name']}"
    if own := custom_resources().get(_kind(manifest)):
        found = jsonschema.Draft202012Validator(own).iter_errors(manifest)
        return [f"{name}: {_path(error)}: {error.message}" for error in found]
    try:
        utils.validate(manifest, version, strict=True)
    except utils.ValidationError as error:
        return [f"{name} on {version}: {_path(error)}: {error.message}"]
    except utils.SchemaNotFoundError as error:
        return [f"{name}: {error.message}"]
    return []


def all_errors(cases: Iterable[Case], versions: Iterable[str] = VERSIONS) -> list[str]:
    """What is wrong with what they render, each manifest looked at once a version."""
    found = []
    rendered = [(case, case.manifests()) for case in cases]
    for version in versions:
        manifests = [m for case, ms in rendered if _takes(version, case.since) for m in ms]
        distinct = {json.dumps(manifest, sort_keys=True): manifest for manifest in manifests}
        found += [error for manifest in distinct.values() for error in errors(manifest, version)]
    return found


def _takes(version: str, since: str | None) -> bool:
    return since is None or VERSIONS.index(version) >= VERSIONS.index(since)


@cache
def custom_resources() -> dict[str, dict[str, Any]]:
    """Schemas of what the charts use of other people's resources, by kind."""
    file = Path(__file__).with_name("custom_resources.yaml")
    written: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {kind: _strict(schema) for kind, schema in written.items()}


def _strict(schema: Any) -> Any:
    """No field that it does not name."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items()}
    if "properties" in schema and "type" not in schema:
        strict = {"type": "object", "additionalProperties": False} | strict
    return strict


def _kind(manifest: Manifest) -> str:
    return f"{manifest['apiVersion']}/{manifest['kind']}"


def _path(error: jsonschema.ValidationError) -> str:
    return ".".join(str(part) for part in error.absolute_path) or "the manifest"
