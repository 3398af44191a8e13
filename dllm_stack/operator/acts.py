"""`cancel` and `drain`."""

from __future__ import annotations

from dllm_stack.operator.session import OperatorError, Session
from dllm_stack.queue import PoolQueue, WorkerStatus


async def cancel_job(session: Session, job_id: str) -> None:
    """
    Raises:
        OperatorError: nobody waits for such a job.
    """
    for queue in await session.queues():
        if await queue.revoke(job_id):
            session.console.print(f"{job_id} is cancelled; its client has been told.")
            return
    raise OperatorError(f"Nobody waits for a job {job_id!r}.")


async def drain_worker(session: Session, name: str) -> None:
    """
    Args:
        name: a pod, a worker's id, or how it begins.

    Raises:
        OperatorError: no live worker has that name, or several have.
    """
    queue, worker = await _find(session, name)
    await queue.drain_worker(worker.card.id)
    pod = f" in pod {worker.card.pod}" if worker.card.pod else ""
    session.console.print(f"Worker {worker.card.id}{pod} gets no more jobs; it still runs {worker.running}.")


async def _find(session: Session, name: str) -> tuple[PoolQueue, WorkerStatus]:
    found = [
        (queue, worker)
        for queue in await session.queues()
        for worker in await queue.workers()
        if name and (name == worker.card.pod or worker.card.id.startswith(name))  # an id begins with ''
    ]
    if not found:
        raise OperatorError(f"There is no live worker {name!r}.")
    if len(found) > 1:
        ids = ", ".join(worker.card.id for _, worker in found)
        raise OperatorError(f"{name!r} is more than one worker: {ids}.")
    return found[0]
