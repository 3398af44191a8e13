"""Why the queue refuses a job or ends one itself."""

from __future__ import annotations

import math

from dllm_stack.outcomes import ErrorCode, Problem

RETRY_AFTER_CAP_S = 30


def verdict(pool: str, fields: dict[bytes, bytes]) -> Problem:
    """Why the queue itself ended a job."""
    match fields[b"reason"]:
        case b"expired":
            return Problem(
                ErrorCode.DEADLINE_EXCEEDED, "The request's deadline passed before its answer was complete."
            )
        case b"shed":
            return Problem(
                ErrorCode.QUEUE_FULL,
                f"The queue of {pool!r} is full: this request made room for another.",
                retry_after_s=retry_after_s(int(fields[b"waiting"]), int(fields[b"interval"])),
            )
        case b"no_worker":
            return no_worker(pool)
        case b"revoked":
            return Problem(ErrorCode.CANCELLED, "An operator cancelled this request.")
        case _:
            return Problem(ErrorCode.WORKER_LOST, "Every worker that ran this request was lost.")


def no_worker(pool: str) -> Problem:
    return Problem(
        ErrorCode.NO_WORKER,
        f"No worker serves {pool!r} at present.",
        param="model",
        retry_after_s=RETRY_AFTER_CAP_S,
    )


def draining(pool: str) -> Problem:
    return Problem(
        ErrorCode.POOL_DRAINING,
        f"{pool!r} takes no new requests at present.",
        param="model",
        retry_after_s=RETRY_AFTER_CAP_S,
    )


def queue_full(
    pool: str, tenant: str, tier: str, where: str, of: str, waiting: int, interval_ms: int
) -> Problem:
    """
    Args:
        where: the bound that is reached: of the pool | tier | tenant.
        of: jobs | bytes
        waiting: jobs under that bound.
        interval_ms: time between two ends, as measured.
    """
    whose = _whose(tenant, tier, where)
    what = f"{waiting} requests wait already" if of == "jobs" else "the waiting requests hold all its bytes"
    return Problem(
        ErrorCode.QUEUE_FULL,
        f"The queue of {pool!r} is full{whose}: {what}.",
        param="service_tier" if where == "tier" else None,
        retry_after_s=retry_after_s(waiting, interval_ms),
    )


def too_large(pool: str, tenant: str, tier: str, where: str, most_bytes: int) -> Problem:
    """Of a request that an empty queue would refuse as well. For the arguments see `queue_full`."""
    whose = _whose(tenant, tier, where)
    return Problem(
        ErrorCode.BODY_TOO_LARGE,
        f"The request is larger than the queue of {pool!r}{whose}, which holds {most_bytes} bytes.",
        param="service_tier" if where == "tier" else None,
    )


def _whose(tenant: str, tier: str, where: str) -> str:
    return {"pool": "", "tier": f" for service_tier {tier!r}", "tenant": f" for tenant {tenant!r}"}[where]


def retry_after_s(waiting: int, interval_ms: int) -> int:
    """The time in which the jobs now waiting will have ended, at the pace measured."""
    seconds = math.ceil((waiting + 1) * interval_ms / 1000)
    return min(max(seconds, 1), RETRY_AFTER_CAP_S)
