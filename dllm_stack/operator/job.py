"""`show`: what is known of one job."""

from __future__ import annotations

import json

import msgspec
from rich.table import Table
from rich.text import Text

from dllm_stack.messages import ChatPrompt, Job, TextPrompt
from dllm_stack.operator.dead import UNREADABLE_JOB, dead_job
from dllm_stack.operator.session import OperatorError, Session, short
from dllm_stack.operator.words import duration, harmless, size
from dllm_stack.queue import DeadLetter, JobStatus, WorkerStatus

Rows = list[tuple[str, str]]


async def show_job(session: Session, job_id: str, *, with_prompt: bool) -> None:
    """
    Raises:
        OperatorError: there is no such job.
    """
    job, rows = await _find(session, job_id)
    if isinstance(job, str):
        rows += [("request", job)]
    else:
        rows += [*_request(job), ("prompt", _prompt(job) if with_prompt else _kind(job))]
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(harmless(value)))
    session.console.print(table)


async def _find(session: Session, job_id: str) -> tuple[Job | str, Rows]:
    """The request, or why it is not there."""
    queues = await session.queues()
    for queue in queues:
        if (found := await queue.show(job_id)) is not None:
            status, job = found
            return job or UNREADABLE_JOB, _open(status, await queue.workers(), await queue.now())
    for queue in queues:
        for letter in await queue.dead():
            if letter.job_id == job_id:
                rows = _dead(letter, queue.pool, await queue.now())
                return await dead_job(queue, letter), rows
    raise OperatorError(f"There is no open or dead job {job_id!r}.")


def _open(status: JobStatus, workers: list[WorkerStatus], now: float) -> Rows:
    rows = [
        ("job", status.id),
        ("state", "stopping: nobody waits for it any more" if status.cancelled else status.state),
        ("attempts", str(status.attempt)),
        ("age", duration(status.age_s)),
        ("committed", f"{status.committed} tokens"),
        ("estimate", f"{status.estimate} tokens, prompt and answer"),
        ("body", size(status.bytes)),
        ("gateway", status.gateway),
    ]
    if status.worker is not None:
        rows.insert(2, ("worker", f"{short(status.worker, workers)} ({status.worker})"))
    if status.deadline is not None:
        rows.insert(-1, ("time left", duration(status.deadline - now)))
    return rows


def _dead(letter: DeadLetter, pool: str, now: float) -> Rows:
    return [
        ("job", letter.job_id),
        ("state", f"dead: {letter.reason}"),
        ("attempts", str(letter.attempts)),
        ("died", f"{duration(now - letter.at)} ago"),
        ("pool", pool),
    ]


def _request(job: Job) -> Rows:
    rows = [
        ("pool", job.pool),
        ("tier", str(job.tier)),
        ("tenant", job.tenant),
        ("decoding", json.dumps(msgspec.to_builtins(job.decoding), ensure_ascii=False)),
    ]
    if job.session is not None:
        rows.insert(3, ("session", job.session))
    return rows


def _kind(job: Job) -> str:
    match job.prompt:
        case ChatPrompt(messages, tools):
            return f"chat of {len(messages)} messages" + (f", {len(tools)} tools" if tools else "")
        case TextPrompt(text):
            return f"text of {len(text)} characters"
        case prompt:
            return f"{len(prompt.ids)} token ids"


def _prompt(job: Job) -> str:
    match job.prompt:
        case ChatPrompt(messages, tools):
            parts = [*messages, *(tools or [])]
            return "\n".join(json.dumps(part, ensure_ascii=False) for part in parts)
        case TextPrompt(text):
            return text
        case prompt:
            return " ".join(map(str, prompt.ids))
