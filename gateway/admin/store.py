"""Where the admin API reads and writes keys and tenants."""

from __future__ import annotations

from dllm_stack.keys import Directory, KeyStore
from dllm_stack.outcomes import ErrorCode, Problem, RequestError
from gateway.gateway import Gateway


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
