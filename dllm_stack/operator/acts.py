"""`cancel`, `pause`, `resume` and `drain`."""

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


async def pause(session: Session, name: str) -> None:
    """For `name` see `_find`."""
    queue, worker = await _find(session, name)
    if worker is None:
        await queue.pause()
        session.console.print(f"Pool {queue.pool} starts no more jobs; {await _jobs(queue)}.")
    else:
        await queue.pause_worker(worker.card.id)
        what = f"gets no more jobs until it is resumed; it still runs {worker.running}"
        session.console.print(f"{_words(worker)} {what}.")


async def drain(session: Session, name: str) -> None:
    """For `name` see `_find`."""
    queue, worker = await _find(session, name)
    if worker is None:
        await queue.drain()
        session.console.print(f"Pool {queue.pool} takes no new jobs; {await _jobs(queue)}.")
    else:
        await queue.drain_worker(worker.card.id)
        session.console.print(f"{_words(worker)} gets no more jobs; it still runs {worker.running}.")


async def resume(session: Session, name: str) -> None:
    """For `name` see `_find`.

    Raises:
        OperatorError: also, a worker drains, which nothing takes back.
    """
    queue, worker = await _find(session, name)
    if worker is None:
        await queue.resume()
        session.console.print(f"Pool {queue.pool} takes jobs and runs them.")
    elif await queue.resume_worker(worker.card.id):
        session.console.print(f"{_words(worker)} gets jobs again.")
    else:
        raise OperatorError(f"{_words(worker)} was told to drain: only starting it again undoes that.")


async def _find(session: Session, name: str) -> tuple[PoolQueue, WorkerStatus | None]:
    """
    Args:
        name: a pool; or else a worker's pod, its id, or how that begins.

    Returns:
        The pool, or the pool of the worker and the worker.

    Raises:
        OperatorError: no pool or live worker has that name, or several workers have.
    """
    queues = await session.queues()
    for queue in queues:
        if queue.pool == name:
            return queue, None
    found = [
        (queue, worker)
        for queue in queues
        for worker in await queue.workers()
        if name and (name == worker.card.pod or worker.card.id.startswith(name))  # an id begins with ''
    ]
    if not found:
        raise OperatorError(f"There is no pool and no live worker {name!r}.")
    if len(found) > 1:
        ids = ", ".join(worker.card.id for _, worker in found)
        raise OperatorError(f"{name!r} is more than one worker: {ids}.")
    return found[0]


async def _jobs(queue: PoolQueue) -> str:
    depth = await queue.depth()
    return f"running: {depth.running}, waiting: {depth.waiting}"


def _words(worker: WorkerStatus) -> str:
    pod = f" in pod {worker.card.pod}" if worker.card.pod else ""
    return f"Worker {worker.card.id}{pod}"
