"""Who sends which part of the load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dllm_stack.bench.asks import Tenant
from dllm_stack.bench.http import key_of
from dllm_stack.bench.problem import Problem

_FILE, _SHARE = "--tenants", "--tenant"


class _Written(msgspec.Struct, forbid_unknown_fields=True):
    """One tenant of the file.

    Attributes:
        key_env: the environment variable that has its key; without one it is named by X-Tenant-ID.
        extra: fields of the body, such as `service_tier`.
    """

    name: str
    weight: float = 1.0
    model: str | None = None
    key_env: str | None = None
    extra: dict[str, Any] = {}


def shares(texts: list[str]) -> list[Tenant]:
    """Of NAME=WEIGHT each.

    Raises:
        Problem
    """
    found = []
    for text in texts:
        name, equals, weight = text.rpartition("=")
        try:
            found.append(_tenant(_Written(name, float(weight)), _SHARE))
        except ValueError:
            equals = ""
        if not (equals and name):
            raise Problem(_SHARE, f"{text!r} is not NAME=WEIGHT, as in light=1")
    return _distinct(found, _SHARE)


def read(file: Path) -> list[Tenant]:
    """
    Args:
        file: YAML, a list of tenants.

    Raises:
        Problem
    """
    try:
        written = msgspec.yaml.decode(file.read_bytes(), type=list[_Written])
    except OSError as error:
        raise Problem(_FILE, f"{file}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise Problem(_FILE, f"{file}: {error}") from None
    if not written:
        raise Problem(_FILE, f"{file} has no tenant")
    return _distinct([_tenant(each, _FILE) for each in written], _FILE)


def draw(tenants: list[Tenant], count: int, random: np.random.Generator) -> list[Tenant]:
    """Whose each request is."""
    weights = np.array([tenant.weight for tenant in tenants])
    return [tenants[int(place)] for place in random.choice(len(tenants), count, p=weights / weights.sum())]


def _tenant(written: _Written, option: str) -> Tenant:
    if not 0 < written.weight < float("inf"):
        raise Problem(option, f"the weight of {written.name} is {written.weight:g}, and must be above 0")
    headers: dict[str, str] | None = {"X-Tenant-ID": written.name}
    if written.key_env is not None:
        headers = key_of(written.key_env, option)
    if headers is None:
        raise Problem(option, f"{written.name}: the environment has no {written.key_env}")
    return Tenant(written.name, written.weight, written.model, headers, written.extra)


def _distinct(tenants: list[Tenant], option: str) -> list[Tenant]:
    names = [tenant.name for tenant in tenants]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Problem(option, f"{twice} is named twice")
    return tenants
