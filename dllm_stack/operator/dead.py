"""The request of a dead job."""

from __future__ import annotations

from dllm_stack.messages import Job
from dllm_stack.queue import DeadLetter, PoolQueue

UNREADABLE_JOB = "cannot be read: it is from a gateway of another version"
_NOT_KEPT = "was not kept: it is too large"


async def dead_job(queue: PoolQueue, letter: DeadLetter) -> Job | str:
    """The request, or why it is not there."""
    if not letter.kept:
        return _NOT_KEPT
    return await queue.dead_job(letter.job_id) or UNREADABLE_JOB
