"""What the server says of itself."""

from __future__ import annotations

from typing import Any

import aiohttp
import msgspec

from dllm_stack.bench.problem import Problem

_TIMEOUT_S = 10.0


class Model(msgspec.Struct):
    """Attributes: decoding: a dllm-stack's gateway has it; None elsewhere, and of an autoregressive model."""

    id: str
    decoding: dict[str, Any] | None = None


class _Models(msgspec.Struct):
    data: list[Model]


class _State(msgspec.Struct):
    avg_spec_accept_length: float | None = None


class _Info(msgspec.Struct):
    internal_states: list[_State] = []


async def models(url: str, headers: dict[str, str]) -> list[Model]:
    """
    Raises:
        Problem: it does not answer, or has none.
    """
    try:
        status, body = await _get(f"{url}/v1/models", headers)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise Problem("--base-url", f"{url} does not answer: {error or type(error).__name__}") from None
    if status != 200:
        text = body[:200].decode(errors="replace")
        raise Problem("--base-url", f"{url}/v1/models answers {status}: {text}")
    try:
        found = msgspec.json.decode(body, type=_Models).data
    except msgspec.MsgspecError as error:
        raise Problem("--base-url", f"{url}/v1/models is no list of models: {error}") from None
    if not found:
        raise Problem("--base-url", f"{url} has no model yet")
    return found


def choose(found: list[Model], name: str | None) -> Model:
    """The one of this name, a mode behind it aside; the first one without a name.

    Raises:
        Problem
    """
    if name is None:
        return found[0]
    for model in found:
        if name == model.id or name.rpartition(":")[0] == model.id:
            return model
    raise Problem("--model", f"the server has no {name}; it has {', '.join(model.id for model in found)}")


async def accept_length(url: str, headers: dict[str, str]) -> float | None:
    """Of speculative decoding, where the server is an SGLang and tells it."""
    try:
        status, body = await _get(f"{url}/server_info", headers)
        info = msgspec.json.decode(body, type=_Info) if status == 200 else _Info()
    except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError):
        return None
    return info.internal_states[0].avg_spec_accept_length if info.internal_states else None


async def _get(url: str, headers: dict[str, str]) -> tuple[int, bytes]:
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    async with (
        aiohttp.ClientSession(timeout=timeout) as http,
        http.get(url, headers=headers) as response,
    ):
        return response.status, await response.read()
