"""Where the admin API reads and writes keys and tenants."""

from __future__ import annotations

import asyncio

from dllm_stack.keys import Directory, KeyStore, StoreError
from dllm_stack.outcomes import ErrorCode, Problem, RequestError, unavailable
from gateway.gateway import Gateway

HEARD_WITHIN_S = 2.0
_POLL_S = 0.05


async def directory_of(gateway: Gateway) -> Directory:
    """What there is now; of a file, what this gateway has last read of it."""
    if gateway.settings.access.file is None:
        return await KeyStore(gateway.connections).read()
    assert gateway.access.ring is not None
    return gateway.access.ring.directory


def store_of(gateway: Gateway) -> KeyStore:
    """
    Raises:
        RequestError: keys are kept in a file.
    """
    if gateway.settings.access.file is None:
        return KeyStore(gateway.connections)
    message = "Keys and tenants are kept in a file here: they change where that is written."
    raise RequestError(Problem(ErrorCode.METHOD_NOT_ALLOWED, message))


async def silent_gateways(store: KeyStore, change: str) -> int:
    """Waits until every gateway goes by a change, for HEARD_WITHIN_S at most, and says how many may not yet:
    some are dead or cut off, and those cut off let nobody in before long.

    Raises:
        RequestError: Redis has lost it.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + HEARD_WITHIN_S
    try:
        while silent := await store.behind(change):
            if loop.time() > give_up_at:
                break
            await asyncio.sleep(_POLL_S)
        return len(silent)
    except StoreError as error:
        raise RequestError(unavailable(str(error))) from None
