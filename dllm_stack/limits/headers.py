"""The headers in which OpenAI tells limits, and in which its SDKs look for when to come back."""

from __future__ import annotations

import math

import msgspec

from dllm_stack.tenants import Limits

# OpenAI's SDKs wait as long as they are told up to a minute, and by a rule of their own when told more.
LONGEST_WAIT_MS = 60_000

RATES = ("limit", "remaining", "reset")
EXPOSED_HEADERS = (
    *(f"x-ratelimit-{what}-{of}" for of in ("requests", "tokens") for what in RATES),
    "retry-after",
    "retry-after-ms",
)


class Standing(msgspec.Struct, frozen=True):
    """What is charged to a tenant at present, and in how many milliseconds nothing of it will be."""

    requests: int
    tokens: int
    requests_reset_ms: int
    tokens_reset_ms: int


def standing_headers(limits: Limits, standing: Standing) -> dict[str, str]:
    """Three headers for each of the two limits that the tenant has."""
    found: dict[str, str] = {}
    for of, limit, charged, reset_ms in (
        ("requests", limits.requests_per_minute, standing.requests, standing.requests_reset_ms),
        ("tokens", limits.tokens_per_minute, standing.tokens, standing.tokens_reset_ms),
    ):
        if limit is not None:
            values = str(limit), str(max(0, limit - charged)), duration(reset_ms)
            found |= {f"x-ratelimit-{what}-{of}": value for what, value in zip(RATES, values, strict=True)}
    return found


def retry_headers(wait_ms: int) -> dict[str, str]:
    wait_ms = min(max(wait_ms, 1), LONGEST_WAIT_MS)
    return {"retry-after": str(seconds(wait_ms)), "retry-after-ms": str(wait_ms)}


def seconds(wait_ms: int) -> int:
    return math.ceil(min(max(wait_ms, 1), LONGEST_WAIT_MS) / 1000)


def duration(ms: int) -> str:
    """As Go and OpenAI write it: 12ms, 1s, 8.64s, 6m0s, 1h0m0s."""
    if ms < 1000:
        return f"{ms}ms" if ms else "0s"
    minutes, rest_ms = divmod(ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest_ms / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text
