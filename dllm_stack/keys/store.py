"""Keys and tenants in Redis.

What a script does is one atomic change. Gateways look for changes several times a
second, and say which one they have in force. Every method raises `RedisError` when Redis does not answer in
time, and is then safe to repeat.
"""

from __future__ import annotations

import secrets as random
import time
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog

from dllm_stack.keys.directory import Directory, Revocation
from dllm_stack.keys.records import Created, Deleted, StoreError, changed, checked, new_key, successor
from dllm_stack.lua import WHEN_MEMORY_IS_FULL, Sender
from dllm_stack.redis import Connections
from dllm_stack.tenants import Key, Tenant

LEASE_S = 30.0  # how long a gateway counts on what it has read, if Redis does not answer or has lost it

_PREFIX = "dllm:access:{access}:"
_SCRIPTS = files("dllm_stack.keys.scripts")
# A Redis beyond its `maxmemory` takes no new key, but can still close doors.
_TAKE_MEMORY = {"create", "set_tenant"}
_encode = msgspec.json.encode
_T = TypeVar("_T")

log = structlog.get_logger()


class Found(NamedTuple):
    change: str
    directory: Directory | None  # None: nothing has changed
    whole: bool  # False: it is only what has changed


class KeyStore:
    def __init__(self, connections: Connections) -> None:
        self._scripts = Sender(connections, _script, "keys_")

    async def create(
        self, tenant: str, *, label: str = "", expires: int | None = None, admin: bool = False
    ) -> Created:
        """A tenant not known yet becomes one without limits.

        Args:
            expires: Unix seconds.

        Raises:
            StoreError: a value is none of its kind.
        """
        created = new_key(tenant, label=label, expires=expires, admin=admin)
        await self._create(created.key)
        return created

    async def rotate(self, key_id: str, grace_s: float) -> Created:
        """A new key like this one, which ends after `grace_s`.

        Raises:
            StoreError: there is no such key, or it has been revoked or rotated.
        """
        old = (await self.read()).keys.get(key_id)
        if old is None:
            raise StoreError(f"There is no key {key_id}.")
        now, created = int(time.time()), successor(old)
        match await self._create(created.key, replaces=(key_id, Revocation(now, now + round(grace_s)))):
            case b"unknown":
                raise StoreError(f"There is no key {key_id}.")
            case b"revoked":
                raise StoreError(f"Key {key_id} has been revoked or rotated already.")
        return created

    async def _create(self, key: Key, replaces: tuple[str, Revocation] | None = None) -> Any:
        forgotten = (await self.read()).forgotten(time.time())
        old, revocation = replaces or ("", None)
        tenant = Tenant(name=key.tenant)
        names = _nonce(), key.id, _encode(key), tenant.name, _encode(tenant), old, _encode(revocation)
        return await self._run("create", *names, *forgotten)

    async def revoke(self, key_ids: Iterable[str]) -> str:
        """From now on these open nothing, even those that this Redis does not know. There is no way back.

        Returns:
            The change, for `behind`.
        """
        revocation = Revocation(at=int(time.time()), ends=0)
        return await self.tell(dict.fromkeys(key_ids, revocation), {})

    async def tell(self, revoked: dict[str, Revocation], departed: dict[str, int]) -> str:
        """As `revoke`, of what was ordered before, and Redis may have lost."""
        args = [part for key_id, each in revoked.items() for part in (key_id, _encode(each))]
        args += [part for name, at in departed.items() for part in (name.encode(), str(at).encode())]
        change: bytes = await self._run("revoke", _nonce(), len(revoked), *args)
        return change.decode()

    async def set_tenant(self, tenant: Tenant) -> None:
        """
        Raises:
            StoreError: a value is none of its kind.
        """
        tenant = checked(tenant)
        await self._run("set_tenant", _nonce(), tenant.name, "*", _encode(tenant))

    async def change_tenant(self, name: str, changes: Mapping[str, Any]) -> Tenant:
        """
        Args:
            changes: as `records.changed` takes them. A tenant not known yet becomes one.

        Raises:
            StoreError: a value is none of its kind.
        """
        while True:
            there = (await self.read()).tenants.get(name)
            tenant = changed(there or Tenant(name=name), changes)
            expected = b"" if there is None else _encode(there)
            if await self._run("set_tenant", _nonce(), name, expected, _encode(tenant)) != b"changed":
                return tenant

    async def delete_tenant(self, name: str) -> Deleted:
        """Revokes its keys, even those that this Redis does not know.

        Raises:
            StoreError: a value is none of its kind.
        """
        checked(Tenant(name=name))
        now = int(time.time())
        revocation = _encode(Revocation(at=now, ends=0))
        change, *key_ids = await self._run("delete_tenant", _nonce(), name, revocation, now)
        return Deleted([key_id.decode() for key_id in key_ids], change.decode())

    async def read(self) -> Directory:
        return (await self._look("", "")).directory or Directory()

    async def behind(self, change: str) -> list[str]:
        """The gateways that may not have this change in force yet. One that is dead or cut off is among them
        until it may not count on what it knows any more; `?` is one that Redis would not know of, as it was
        empty less than LEASE_S ago.

        Raises:
            StoreError: Redis has lost this change, before or after a gateway has heard of it.
        """
        found = await self._run("behind", change, round(LEASE_S * 1000))
        if found == b"lost":
            raise StoreError("Redis has lost this change. Send it again.")
        return [ring.decode() for ring in found]

    # For gateways

    async def look(self, ring: str, change: str) -> Found:
        """
        Args:
            ring: who looks.
            change: what it has in force; empty: nothing.
        """
        return await self._look(ring, change)

    async def leave(self, ring: str) -> None:
        await self._run("leave", ring)

    async def _look(self, ring: str, change: str) -> Found:
        found, *parts = await self._run("look", ring, change, round(LEASE_S * 1000))
        if not parts:
            return Found(change, None, False)
        whole, *entries = parts
        kinds = Key, Revocation, Tenant, int
        directory = Directory(*(_decoded(part, kind) for part, kind in zip(entries, kinds, strict=True)))
        return Found(found.decode(), directory, bool(whole))

    async def _run(self, name: str, *args: str | bytes | int) -> Any:
        return await self._scripts.run(name, _PREFIX, *args)


def _script(name: str) -> str:
    flags = "" if name in _TAKE_MEMORY else WHEN_MEMORY_IS_FULL
    return flags + _text("lib/directory") + _text(name)


def _decoded(entries: list[bytes], kind: type[_T]) -> dict[str, _T]:
    """What cannot be read, as from another version, opens nothing."""
    found = {}
    decode = msgspec.json.Decoder(kind).decode
    for name, entry in zip(entries[::2], entries[1::2], strict=True):
        try:
            found[name.decode(errors="replace")] = decode(entry)
        except msgspec.DecodeError as error:
            log.error(
                "an entry of the key store cannot be read",
                kind=kind.__name__,
                entry=name.decode(errors="replace"),
                error=str(error),
            )
    return found


def _nonce() -> str:
    return random.token_hex(8)


def _text(name: str) -> str:
    return _SCRIPTS.joinpath(f"{name}.lua").read_text()
