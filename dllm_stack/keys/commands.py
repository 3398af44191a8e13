"""`dllm-stack keys` and `dllm-stack tenants`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dllm_stack.config_option import Config, load
from dllm_stack.messages import Tier

if TYPE_CHECKING:
    from dllm_stack.keys.acts import Desk

keys = typer.Typer(no_args_is_help=True, help="API keys: create, list, revoke and rotate them.")
tenants = typer.Typer(no_args_is_help=True, help="Tenants: what the holders of keys may do.")

_INTERRUPTED = 130  # exit status of shells for Ctrl-C
_DAY = "1d"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_NO_LIMIT = "none"


def _seconds(text: str, option: str, *, least: int) -> int:
    match = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if match is None or int(match[1]) < least:
        raise typer.BadParameter(
            f"must be a number{' above 0' * least} and a unit, as in 90d, 12h, 30m or 45s", param_hint=option
        )
    return int(match[1]) * _UNITS[match[2]]


def _limit(text: str) -> str:
    if text != _NO_LIMIT and not text.isdecimal():
        raise typer.BadParameter(f"must be a whole number, or {_NO_LIMIT}")
    return text


File = Annotated[
    Path | None,
    typer.Option("--file", help="In this YAML file, instead of where access.keys says.", dir_okay=False),
]
Json = Annotated[bool, typer.Option("--json", help="As JSON, for programs.")]
KeyIds = Annotated[list[str], typer.Argument(metavar="KEY...", help="Its id, or how that begins.")]
KeyId = Annotated[str, typer.Argument(metavar="KEY", help="Its id, or how that begins.")]
Name = Annotated[str, typer.Argument(metavar="TENANT", help="1 to 64 letters, digits, dots, _ and -.")]
Limit = Annotated[str | None, typer.Option(callback=lambda value: value and _limit(value))]


@keys.command()
def create(
    tenant: Name,
    label: Annotated[str, typer.Option(help="A note for lists.")] = "",
    expires: Annotated[
        str | None, typer.Option(help="After this time it opens nothing: 90d, 12h. Else never.")
    ] = None,
    admin: Annotated[bool, typer.Option("--admin", help="It opens the admin API, and nothing else.")] = False,
    entry: Annotated[
        bool, typer.Option("--entry", help="Keep it nowhere; print its entry for a key file too.")
    ] = False,
    file: File = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Make a key. Its secret goes to stdout, and is shown this once."""
    expires_s = None if expires is None else _seconds(expires, "--expires", least=1)

    async def act(desk: Desk) -> None:
        await desk.create(tenant, label=label, expires_s=expires_s, admin=admin, entry=entry)

    _run(config, file, as_json, act)


@keys.command("list")
def list_keys(
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant.")] = None,
    ended: Annotated[bool, typer.Option("--all", help="Those too that have ended.")] = False,
    file: File = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Keys, without their secrets, which nobody knows."""

    async def act(desk: Desk) -> None:
        await desk.list_keys(tenant, ended=ended)

    _run(config, file, as_json, act)


@keys.command()
def revoke(key: KeyIds, file: File = None, as_json: Json = False, config: Config = None) -> None:
    """End keys for good, and wait until every gateway refuses them."""

    async def act(desk: Desk) -> None:
        await desk.revoke(key)

    _run(config, file, as_json, act)


@keys.command()
def rotate(
    key: KeyId,
    grace: Annotated[str, typer.Option(help="How long the old one still opens: 12h, 0s.")] = _DAY,
    file: File = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Make a new key like this one, which ends after a while. The new secret goes to stdout."""
    grace_s = _seconds(grace, "--grace", least=0)

    async def act(desk: Desk) -> None:
        await desk.rotate(key, grace_s)

    _run(config, file, as_json, act)


@tenants.command("set")
def set_tenant(
    tenant: Name,
    weight: Annotated[
        str | None, typer.Option(help="Its share of the tokens beside others'; none: as queue.tenants says.")
    ] = None,
    tiers: Annotated[
        str | None, typer.Option(help="Priority classes it may ask for: default,flex; or all.")
    ] = None,
    models: Annotated[str | None, typer.Option(help="Models it may use: one,another; or all.")] = None,
    requests_per_minute: Limit = None,
    tokens_per_minute: Limit = None,
    concurrency: Limit = None,
    file: File = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Make a tenant, or change it. What is not named stays; `none` takes a limit away."""
    changes: dict[str, Any] = {}
    if weight is not None:
        changes["weight"] = None if weight == _NO_LIMIT else _number(weight)
    if tiers is not None:
        changes["tiers"] = None if tiers == "all" else [_tier(each) for each in tiers.split(",")]
    if models is not None:
        changes["models"] = None if models == "all" else _models(models)
    limits = {
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "concurrency": concurrency,
    }
    for name, limit in limits.items():
        if limit is not None:
            changes[name] = None if limit == _NO_LIMIT else int(limit)

    async def act(desk: Desk) -> None:
        await desk.set_tenant(tenant, changes)

    _run(config, file, as_json, act)


@tenants.command("list")
def list_tenants(file: File = None, as_json: Json = False, config: Config = None) -> None:
    """Tenants, and what each may do."""

    async def act(desk: Desk) -> None:
        await desk.list_tenants()

    _run(config, file, as_json, act)


@tenants.command("delete")
def delete_tenant(tenant: Name, file: File = None, as_json: Json = False, config: Config = None) -> None:
    """Delete a tenant, and revoke all of its keys."""

    async def act(desk: Desk) -> None:
        await desk.delete_tenant(tenant)

    _run(config, file, as_json, act)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"must be a number, or {_NO_LIMIT}", param_hint="--weight") from None


def _models(text: str) -> list[str]:
    names = text.split(",")
    if not all(names):
        raise typer.BadParameter(f"{text!r} has an empty name", param_hint="--models")
    return names


def _tier(text: str) -> Tier:
    try:
        return Tier(text)
    except ValueError:
        may = ", ".join(Tier)
        raise typer.BadParameter(f"{text!r} is none of {may}", param_hint="--tiers") from None


def _run(
    config: Path | None, file: Path | None, as_json: bool, act: Callable[[Desk], Awaitable[None]]
) -> None:
    settings = load(config)
    from dllm_stack.keys.acts import Desk, store_of
    from dllm_stack.keys.records import StoreError
    from dllm_stack.operator.session import OperatorError, Session, run

    async def at_desk(session: Session) -> None:
        await act(Desk(store_of(settings, session.connections, file), session.console, as_json=as_json))

    try:
        asyncio.run(run(settings, at_desk, service="keys"))
    except (OperatorError, StoreError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
