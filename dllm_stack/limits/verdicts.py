"""Why a tenant's limits refuse a request."""

from __future__ import annotations

from collections.abc import Mapping

from dllm_stack.limits.headers import duration, retry_headers, seconds
from dllm_stack.outcomes import ErrorCode, Problem, RequestError
from dllm_stack.tenants import Tenant


class LimitError(RequestError):
    """
    Attributes:
        headers: of the answer.
    """

    def __init__(self, problem: Problem, headers: Mapping[str, str]) -> None:
        super().__init__(problem)
        self.headers = headers


def refusal(
    tenant: Tenant, verdict: str, wait_ms: int, tokens: int, standing: Mapping[str, str]
) -> LimitError:
    """
    Args:
        verdict: unknown | too_large | requests | tokens | concurrency
        tokens: that the request would need.
        standing: headers that say how much of the limits is left.
    """
    message = _message(tenant, verdict, tokens)
    if verdict == "too_large":
        # It would be too large at any time. OpenAI has the same status for it; with this header OpenAI's SDKs
        # do not send it again.
        problem = Problem(ErrorCode.RATE_LIMIT_EXCEEDED, message, param="max_tokens")
        return LimitError(problem, {**standing, "x-should-retry": "false"})
    message = f"{message} Try again in {duration(wait_ms)}."
    problem = Problem(ErrorCode.RATE_LIMIT_EXCEEDED, message, retry_after_s=seconds(wait_ms))
    return LimitError(problem, {**standing, **retry_headers(wait_ms)})


def _message(tenant: Tenant, verdict: str, tokens: int) -> str:
    limits, whose = tenant.limits, f"Tenant {tenant.name!r}"
    match verdict:
        case "too_large":
            return (
                f"{whose} may use {limits.tokens_per_minute} tokens a minute; this request asks for {tokens}."
            )
        case "requests":
            return f"{whose} has sent its {limits.requests_per_minute} requests of this minute."
        case "tokens":
            return (
                f"{whose} may use {limits.tokens_per_minute} tokens a minute, and has too few of them left"
                f" for the {tokens} that this request may need."
            )
        case "concurrency":
            return f"{whose} has its {limits.concurrency} requests open already."
        case _:
            return f"What tenant {tenant.name!r} has used in the last minute was lost with Redis' data."
