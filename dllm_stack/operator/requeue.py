"""`requeue-dead`: runs jobs again that lost all their workers."""

from __future__ import annotations

import asyncio
import sys
from uuid import uuid4

import typer
from msgspec.structs import replace

from dllm_stack.messages import End
from dllm_stack.operator.dead import dead_job
from dllm_stack.operator.session import OperatorError, Session
from dllm_stack.operator.words import harmless
from dllm_stack.outcomes import Outcome, RequestError
from dllm_stack.queue import DeadLetter, PoolQueue
from gateway.ledger import Ledger
from gateway.ticket import Ticket


async def requeue(session: Session, job_ids: list[str]) -> None:
    """Answers go to stdout, what became of each job to stderr. One at a time: such a job may well be what
    its workers died of.

    Raises:
        OperatorError: a job is not among the dead, or did not complete. Its letter is then kept.
    """
    letters = await _letters(session, job_ids)
    ledger = Ledger(session.connections, session.settings)
    failed = 0
    try:
        for queue, letter in letters:
            failed += not await _run_again(ledger, queue, letter)
    finally:
        await ledger.aclose()
    if not letters:
        typer.echo("There are no dead jobs.", err=True)
    if failed:
        raise OperatorError(f"{failed} of {len(letters)} did not complete; they are kept.")


async def _letters(session: Session, job_ids: list[str]) -> list[tuple[PoolQueue, DeadLetter]]:
    dead = {
        letter.job_id: (queue, letter) for queue in await session.queues() for letter in await queue.dead()
    }
    if unknown := [job_id for job_id in job_ids if job_id not in dead]:
        raise OperatorError(f"No dead job has this id: {', '.join(unknown)}.")
    return [dead[job_id] for job_id in job_ids or dead]


async def _run_again(ledger: Ledger, queue: PoolQueue, letter: DeadLetter) -> bool:
    job = await dead_job(queue, letter)
    if isinstance(job, str):
        typer.echo(f"{letter.job_id}: {job}", err=True)
        return False
    woken = asyncio.Event()
    ticket = Ticket(replace(job, id=uuid4().hex, gateway=ledger.id), woken.set)
    end = await _end_of(ledger, ticket, woken)
    completed = end.outcome is Outcome.COMPLETED
    # A job that dies again leaves a letter of its own.
    await queue.forget_dead(letter.job_id if completed else ticket.job.id)
    if completed:
        text = "".join(arrival.block.text for arrival in ticket.take())
        typer.echo(f"{letter.job_id}: completed, {end.completion_tokens} tokens", err=True)
        typer.echo(harmless(text) if sys.stdout.isatty() else text)
    else:
        why = f": {end.problem.message}" if end.problem else ""
        typer.echo(f"{letter.job_id}: {end.outcome}{why}", err=True)
    return completed


async def _end_of(ledger: Ledger, ticket: Ticket, woken: asyncio.Event) -> End:
    feed = ledger.feed(ticket.job.pool)
    try:
        await feed.admit(ticket)
        while ticket.end is None:
            await woken.wait()
            woken.clear()
        return ticket.end
    except RequestError as error:
        return End(outcome=error.problem.outcome, problem=error.problem)
    finally:
        feed.release(ticket)
