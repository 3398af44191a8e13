"""What several resources of the admin API have in common."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from dllm_stack.outcomes import ErrorCode, Problem, RequestError
from dllm_stack.queue import PoolQueue, Registry
from gateway.fields.validation import Honoured
from gateway.gateway import Gateway, gateway_of

TheGateway = Annotated[Gateway, Depends(gateway_of)]


class Nothing(Honoured):
    """The body of an act that takes no more than its path."""


async def queues_of(gateway: Gateway) -> list[PoolQueue]:
    """Of all pools there are, by name."""
    pools = sorted(await Registry(gateway.connections).pools())
    return [PoolQueue(gateway.connections, pool, gateway.settings.queue) for pool in pools]


def none_such(what: str, name: str) -> RequestError:
    return RequestError(Problem(ErrorCode.NOT_FOUND, f"There is no {what} {name[:100]!r}."))
