"""What the commands do, and how they tell it: results on stdout, all else on stderr."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dllm_stack.keys.directory import Directory
from dllm_stack.keys.file import KeyFile, entry
from dllm_stack.keys.records import Created, StoreError, new_key
from dllm_stack.keys.secret import id_of
from dllm_stack.keys.store import LEASE_S, KeyStore
from dllm_stack.operator.words import NOTHING, duration, harmless
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from dllm_stack.tenants import Key, Tenant

_POLL_S = 0.05
_KEYS = ("key", "tenant", "opens", "state", "age", "label")
_TENANTS = ("tenant", "weight", "tiers", "models", "requests/min", "tokens/min", "concurrency", "keys")
_FIGURES = {"age", "weight", "requests/min", "tokens/min", "concurrency", "keys"}


def store_of(settings: Settings, connections: Connections, file: Path | None) -> KeyStore | KeyFile:
    """
    Args:
        file: takes the place of what the settings say.
    """
    path = file or settings.access.file
    return KeyStore(connections) if path is None else KeyFile(path)


class Desk:
    """Every method raises StoreError when what was asked for cannot be done, and RedisError."""

    def __init__(self, store: KeyStore | KeyFile, console: Console, *, as_json: bool) -> None:
        self._store = store
        self._console = console
        self._as_json = as_json

    async def create(
        self, tenant: str, *, label: str, expires_s: int | None, admin: bool, entry: bool
    ) -> None:
        expires = None if expires_s is None else int(time.time()) + expires_s
        if entry:
            self._tell_new(new_key(tenant, label=label, expires=expires, admin=admin), with_entry=True)
            return
        created = await self._store.create(tenant, label=label, expires=expires, admin=admin)
        self._tell_new(created)

    async def rotate(self, given: str, grace_s: int) -> None:
        old = _one(given, await self._store.read())
        created = await self._store.rotate(old, grace_s)
        ends = f"opens for another {duration(grace_s)}" if grace_s else "has ended"
        self._tell_new(created, replaces=f"{old} {ends}.")

    async def revoke(self, given: Sequence[str]) -> None:
        directory = await self._store.read()
        key_ids = [_one(each, directory, may_be_lost=isinstance(self._store, KeyStore)) for each in given]
        began = time.monotonic()
        change = await self._store.revoke(key_ids)
        await self._closed(key_ids, change, began)
        if strangers := [key_id for key_id in key_ids if key_id not in directory.keys]:
            raise StoreError(
                f"Redis does not know {', '.join(strangers)}. A gateway that still does refuses it now."
            )

    async def list_keys(self, tenant: str | None, *, ended: bool) -> None:
        directory, now = await self._store.read(), time.time()
        keys = [
            key
            for key in sorted(directory.keys.values(), key=lambda key: (key.tenant, key.created, key.id))
            if tenant in (None, key.tenant) and (ended or directory.state(key, now) is None)
        ]
        if self._as_json:
            self._json([_described(key, directory, now) for key in keys])
        elif keys:
            self._table(_KEYS, [_row(key, directory, now) for key in keys])
        else:
            typer.echo("There are no keys.", err=True)

    async def set_tenant(self, name: str, changes: Mapping[str, Any]) -> None:
        tenant = await self._store.change_tenant(name, changes)
        self._tell_tenants([tenant], await self._store.read())

    async def list_tenants(self) -> None:
        directory = await self._store.read()
        self._tell_tenants(sorted(directory.tenants.values(), key=lambda each: each.name), directory)

    async def delete_tenant(self, name: str) -> None:
        known, began = name in (await self._store.read()).tenants, time.monotonic()
        deleted = await self._store.delete_tenant(name)
        if known and not self._as_json:
            typer.echo(f"{name} is deleted, with {len(deleted.key_ids)} keys.", err=True)
        await self._closed(deleted.key_ids, deleted.change, began)
        if not known:
            raise StoreError(f"There was no tenant {name!r}.")

    async def _closed(self, key_ids: list[str], change: str, began: float) -> None:
        """Waits until no gateway lets these keys in, and says so.

        Raises:
            StoreError: one does not say that it has heard of it.
        """
        told = False
        while silent := await self._store.behind(change):
            waited = time.monotonic() - began
            if waited > LEASE_S + 1:
                raise StoreError(
                    f"Revoked, but {len(silent)} gateways do not say that they have heard of it."
                )
            if waited > 1 and not told:
                told = True
                words = f"{len(silent)} gateways are silent; within {LEASE_S:g} s they refuse every key."
                if silent == ["?"]:
                    words = (
                        "Redis was empty a moment ago, and may have forgotten gateways: waiting for those."
                    )
                typer.echo(words, err=True)
            await asyncio.sleep(_POLL_S)
        if self._as_json:
            self._json({"revoked": key_ids, "seconds": round(time.monotonic() - began, 3)})
        elif isinstance(self._store, KeyFile):
            typer.echo("A gateway refuses it within a second of seeing the file so.", err=True)
        else:
            for key_id in key_ids:
                self._console.print(f"{key_id} is revoked: every gateway refuses it.")

    def _tell_new(self, created: Created, *, replaces: str = "", with_entry: bool = False) -> None:
        key = created.key
        if self._as_json:
            described = {"secret": created.secret, **msgspec.to_builtins(key)}
            self._json(described | ({"entry": entry(key)} if with_entry else {}))
            return
        opens = "the admin API" if key.admin else f"the API as {key.tenant}"
        typer.echo(f"{key.id} opens {opens}. Its secret is shown this once. {replaces}".rstrip(), err=True)
        typer.echo(created.secret)
        if with_entry:
            typer.echo(f"\n{entry(key)}", nl=False)

    def _tell_tenants(self, tenants: list[Tenant], directory: Directory) -> None:
        if self._as_json:
            self._json(tenants)
        elif tenants:
            now = time.time()
            opening = [key.tenant for key in directory.keys.values() if directory.state(key, now) is None]
            self._table(_TENANTS, [_tenant(tenant, opening.count(tenant.name)) for tenant in tenants])
        else:
            typer.echo("There are no tenants.", err=True)

    def _json(self, what: Any) -> None:
        typer.echo(msgspec.json.format(msgspec.json.encode(what), indent=2).decode())

    def _table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
        for name in header:
            table.add_column(name, justify="right" if name in _FIGURES else "left", no_wrap=name != "label")
        for row in rows:
            table.add_row(*(Text(harmless(cell)) for cell in row))
        self._console.print(table)


def _one(given: str, directory: Directory, *, may_be_lost: bool = False) -> str:
    """
    Args:
        may_be_lost: a whole id will do, though nobody knows it.

    Raises:
        StoreError: this is no key's id, or how several begin.
    """
    if (whole := id_of(given)) is not None:
        if whole in directory.keys or may_be_lost:
            return whole
    elif found := [key_id for key_id in directory.keys if given and key_id.startswith(given)]:
        if len(found) > 1:
            raise StoreError(f"{given!r} is how {len(found)} keys begin.")
        return found[0]
    # What is no id may be a secret: it is not repeated.
    raise StoreError(f"There is no key {whole or repr(given if len(given) < 8 else given[:6] + '...')}.")


def _row(key: Key, directory: Directory, now: float) -> list[str]:
    opens = "admin API" if key.admin else "API"
    age = duration(now - key.created)
    return [key.id, key.tenant, opens, _state(key, directory, now), age, key.label or NOTHING]


def _state(key: Key, directory: Directory, now: float) -> str:
    if (refusal := directory.state(key, now)) is not None:
        return str(refusal)
    end = directory.end(key)
    return "open" if end is None else f"open for {duration(end - now)}"


def _described(key: Key, directory: Directory, now: float) -> dict[str, Any]:
    described: dict[str, Any] = msgspec.to_builtins(key)
    del described["digest"]
    state = directory.state(key, now)
    return described | {"state": str(state or "open"), "ends": directory.end(key)}


def _tenant(tenant: Tenant, keys: int) -> list[str]:
    limits = tenant.limits
    figures = limits.requests_per_minute, limits.tokens_per_minute, limits.concurrency
    return [
        tenant.name,
        NOTHING if tenant.weight is None else f"{tenant.weight:g}",
        "all" if tenant.tiers is None else ", ".join(tenant.tiers),
        "all" if tenant.models is None else ", ".join(tenant.models),
        *(NOTHING if figure is None else str(figure) for figure in figures),
        str(keys),
    ]
