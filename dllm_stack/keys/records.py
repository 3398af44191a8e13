"""New keys and changed tenants, whatever they are kept in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from dllm_stack.keys import secret as secrets
from dllm_stack.tenants import Key, Tenant

_T = TypeVar("_T")


class StoreError(Exception):
    """What was asked for cannot be done; the message is one line."""


class Created(NamedTuple):
    secret: str  # nobody can tell it again
    key: Key


class Deleted(NamedTuple):
    key_ids: list[str]
    change: str  # for `KeyStore.behind`


def new_key(tenant: str, *, label: str = "", expires: int | None = None, admin: bool = False) -> Created:
    """
    Args:
        expires: Unix seconds.

    Raises:
        StoreError: a value is none of its kind.
    """
    key_id, secret = secrets.new()
    key = Key(
        id=key_id,
        digest=secrets.digest(secret),
        tenant=tenant,
        created=int(time.time()),
        expires=expires,
        admin=admin,
        label=label,
    )
    return Created(secret, checked(key))


def successor(old: Key) -> Created:
    """A new key for what this one was for.

    Raises:
        StoreError: it has expired.
    """
    if old.expires is not None and old.expires <= time.time():
        raise StoreError(f"Key {old.id} has expired.")
    return new_key(old.tenant, label=old.label, expires=old.expires, admin=old.admin)


def changed(tenant: Tenant, changes: Mapping[str, Any]) -> Tenant:
    """
    Args:
        changes: fields of the tenant, and of its limits, and their values; what is not among them stays.

    Raises:
        StoreError: a value is none of its kind.
    """
    limits = {name: value for name, value in changes.items() if name in tenant.limits.__struct_fields__}
    fields = {name: value for name, value in changes.items() if name not in limits}
    return checked(replace(tenant, limits=replace(tenant.limits, **limits), **fields))


def checked(value: _T) -> _T:
    """The value, if it is one of its kind; msgspec looks only at what is decoded.

    Raises:
        StoreError: it is not.
    """
    try:
        return msgspec.convert(msgspec.to_builtins(value), type(value))
    except msgspec.ValidationError as error:
        raise StoreError(plainly(error)) from None


def plainly(error: msgspec.ValidationError) -> str:
    """What is wrong, behind the name of the field."""
    what, _, where = str(error).partition(" - at `")
    return f"{where.strip('$.`')}: {what[:1].lower()}{what[1:]}" if where else what
