"""Connections to the server, and the keys that they carry."""

from __future__ import annotations

import os

import aiohttp

from dllm_stack.bench.problem import Problem

# How long a connection is kept. Shorter than the 5 s of SGLang and uvicorn: none is taken that the server is
# just closing.
_KEPT_S = 3.0


def connect(timeout_s: float) -> aiohttp.ClientSession:
    """As many connections at once as there are requests.

    Args:
        timeout_s: for each request, to the end of its answer.
    """
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_S)
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_s), connector=connector)


def own_key() -> dict[str, str]:
    """Headers with the key of OPENAI_API_KEY, if that is set.

    Raises:
        Problem
    """
    return key_of("OPENAI_API_KEY", "") or {}


def key_of(variable: str, option: str) -> dict[str, str] | None:
    """Headers with the key that an environment variable holds; None: it holds none.

    Raises:
        Problem: no header can carry it. A line's end is the most frequent cause.
    """
    key = os.environ.get(variable)
    if not key:
        return None
    if not (key.isascii() and key.isprintable()):
        raise Problem(option, f"the key in {variable} has a character that no header can carry")
    return {"Authorization": f"Bearer {key}"}
