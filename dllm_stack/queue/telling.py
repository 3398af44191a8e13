"""What log and trace are told of a dispatch, by whoever made it."""

from __future__ import annotations

import time

import structlog

from dllm_stack.queue.figures import Dispatched
from dllm_stack.tracing import Tracer

log = structlog.get_logger()


def tell(pool: str, dispatched: Dispatched, tracer: Tracer, admitted: float | None = None) -> None:
    """
    Args:
        admitted: when it was sent to be admitted, in monotonic seconds, if it was dispatched with that. Else
            how long it has waited is Redis' word; when that was, this clock's.
    """
    trace = dispatched.trace
    if trace is not None:
        tracer.start(
            "queue",
            trace,
            attributes={"dllm.tier": dispatched.tier.value, "dllm.attempt": dispatched.attempt},
            began=time.monotonic() - dispatched.waited_s if admitted is None else admitted,
        ).end()
    log.debug(
        "dispatched",
        request=dispatched.request_id,
        trace=trace and trace.id,
        pool=pool,
        job=dispatched.job_id,
        tier=dispatched.tier,
        worker=dispatched.worker,
        attempt=dispatched.attempt,
        waited_s=dispatched.waited_s,
        committed=dispatched.committed,
    )
