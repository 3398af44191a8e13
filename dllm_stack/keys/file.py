"""Keys and tenants in a YAML file, as a Kubernetes Secret is mounted.

    tenants:
    - name: acme
      limits: {requests_per_minute: 600}
    keys:
    - {id: dk-0123456789abcdef, digest: 9f86..., tenant: acme, created: 1796030717}

The file says all there is: who takes a key out of it revokes that key.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from dllm_stack.keys.directory import Directory
from dllm_stack.keys.records import Created, Deleted, StoreError, changed, new_key, plainly, successor
from dllm_stack.tenants import Key, Tenant

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class KeyFileError(StoreError):
    """The file cannot be read, or is no key file; the message says why."""


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tenants: list[Tenant] = []
    keys: list[Key] = []


def parse(text: bytes) -> Directory:
    """Raises KeyFileError, which never quotes the file."""
    try:
        found = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise KeyFileError(f"is no YAML{line}: {error.problem}") from None
    except Exception:  # of a 31st of February, say, PyYAML raises what Python's dates do
        raise KeyFileError("is no YAML") from None
    try:
        content = msgspec.convert(found, _Content)
    except msgspec.ValidationError as error:
        raise KeyFileError(f"is no key file: {plainly(error)}") from None
    tenants = {tenant.name: tenant for tenant in content.tenants}
    keys = {key.id: key for key in content.keys}
    if len(tenants) < len(content.tenants) or len(keys) < len(content.keys):
        raise KeyFileError("has a tenant or a key twice")
    if strangers := sorted({key.tenant for key in content.keys} - tenants.keys()):
        raise KeyFileError(f"has keys of tenants that are not in it: {', '.join(strangers)}")
    return Directory(keys, {}, tenants)


def entry(key: Key) -> str:
    """A key, as it stands in the file."""
    return _dump([msgspec.to_builtins(key)])


class KeyFile:
    """The methods of `KeyStore`, on a file; for the command line, and one who writes at a time.

    Every one raises `KeyFileError` when the file cannot be read or written. What adds a key or a tenant makes
    the file when it is not there. Its comments are not kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Directory:
        """A file that must be there."""
        try:
            return parse(self.path.read_bytes())
        except OSError as error:
            raise KeyFileError(f"{self.path}: {error.strerror}") from None
        except KeyFileError as error:
            raise KeyFileError(f"{self.path} {error}") from None

    async def read(self) -> Directory:
        return self.load()

    async def create(
        self, tenant: str, *, label: str = "", expires: int | None = None, admin: bool = False
    ) -> Created:
        created = new_key(tenant, label=label, expires=expires, admin=admin)
        self._add(created.key, self._load_or_begin())
        return created

    async def rotate(self, key_id: str, grace_s: float) -> Created:
        directory = await self.read()
        old = directory.keys.get(key_id)
        if old is None:
            raise StoreError(f"There is no key {key_id}.")
        created, ends = successor(old), int(time.time() + grace_s)
        ended = replace(old, expires=min(ends, old.expires or ends))
        self._add(created.key, Directory(directory.keys | {key_id: ended}, {}, directory.tenants))
        return created

    async def revoke(self, key_ids: Iterable[str]) -> str:
        directory, gone = await self.read(), set(key_ids)
        keys = {key_id: key for key_id, key in directory.keys.items() if key_id not in gone}
        self._write(Directory(keys, {}, directory.tenants))
        return ""

    async def change_tenant(self, name: str, changes: Mapping[str, Any]) -> Tenant:
        directory = self._load_or_begin()
        tenant = changed(directory.tenants.get(name) or Tenant(name=name), changes)
        self._write(Directory(directory.keys, {}, directory.tenants | {name: tenant}))
        return tenant

    async def delete_tenant(self, name: str) -> Deleted:
        directory = await self.read()
        gone = [key.id for key in directory.keys.values() if key.tenant == name]
        keys = {key_id: key for key_id, key in directory.keys.items() if key_id not in gone}
        tenants = {other: tenant for other, tenant in directory.tenants.items() if other != name}
        self._write(Directory(keys, {}, tenants))
        return Deleted(gone, "")

    async def behind(self, change: str) -> list[str]:
        """None that this could know of."""
        return []

    def _load_or_begin(self) -> Directory:
        return self.load() if self.path.exists() else Directory()

    def _add(self, key: Key, directory: Directory) -> None:
        tenants = {key.tenant: Tenant(name=key.tenant)} | directory.tenants
        self._write(Directory(directory.keys | {key.id: key}, {}, tenants))

    def _write(self, directory: Directory) -> None:
        """All or nothing, for its owner alone."""
        content = _Content(list(directory.tenants.values()), list(directory.keys.values()))
        text = _dump(msgspec.to_builtins(content))
        target = self.path.resolve()
        try:
            number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            try:
                with os.fdopen(number, "w") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(name, target)
            except BaseException:
                os.unlink(name)
                raise
        except OSError as error:
            raise KeyFileError(f"{self.path}: {error.strerror}") from None


def _dump(content: Any) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
