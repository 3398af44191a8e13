"""The subcommands of `dllm-stack queue`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dllm_stack.config_option import Config, load

if TYPE_CHECKING:
    from dllm_stack.operator.session import Session

app = typer.Typer(no_args_is_help=True, help="Look into the queue, and act on it.")

_INTERRUPTED = 130  # exit status of shells for Ctrl-C

JobId = Annotated[str, typer.Argument(metavar="JOB", help="As in `ls POOL`, logs, and x-request-id.")]
PoolOrWorker = Annotated[
    str,
    typer.Argument(
        metavar="POOL|WORKER", help="A pool; or else a worker: its pod, its id, or how that begins."
    ),
]


@app.command()
def ls(
    pool: Annotated[str | None, typer.Argument(help="Only this pool, and its jobs too.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows in a table.")] = 20,
    watch: Annotated[bool, typer.Option("--watch", help="Anew every second, until Ctrl-C.")] = False,
    config: Config = None,
) -> None:
    """Pools, workers and tenants; of one pool also its jobs."""

    async def act(session: Session) -> None:
        from dllm_stack.operator import overview

        await (overview.watch if watch else overview.show)(session, pool, limit)

    _run(config, act, interrupted=0 if watch else _INTERRUPTED)


@app.command()
def show(
    job: JobId,
    prompt: Annotated[bool, typer.Option("--prompt", help="Its prompt too.")] = False,
    config: Config = None,
) -> None:
    """What is known of one job that is open or dead."""

    async def act(session: Session) -> None:
        from dllm_stack.operator.job import show_job

        await show_job(session, job, with_prompt=prompt)

    _run(config, act)


@app.command()
def cancel(job: JobId, config: Config = None) -> None:
    """End an open job. Its client gets the error `cancelled`, status 499."""

    async def act(session: Session) -> None:
        from dllm_stack.operator.acts import cancel_job

        await cancel_job(session, job)

    _run(config, act)


@app.command()
def pause(name: PoolOrWorker, config: Config = None) -> None:
    """Start no more jobs in a pool, or on a worker, until `resume`. New ones are taken and wait."""

    async def act(session: Session) -> None:
        from dllm_stack.operator import acts

        await acts.pause(session, name)

    _run(config, act)


@app.command()
def resume(name: PoolOrWorker, config: Config = None) -> None:
    """Take back `pause`, and of a pool `drain`."""

    async def act(session: Session) -> None:
        from dllm_stack.operator import acts

        await acts.resume(session, name)

    _run(config, act)


@app.command()
def drain(name: PoolOrWorker, config: Config = None) -> None:
    """Take no new jobs in a pool, and serve those that wait, until `resume`. Or give a worker no more jobs,
    until it leaves. Those that run go on."""

    async def act(session: Session) -> None:
        from dllm_stack.operator import acts

        await acts.drain(session, name)

    _run(config, act)


@app.command("requeue-dead")
def requeue_dead(
    jobs: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB]...", help="All dead jobs, unless some are named.")
    ] = None,
    config: Config = None,
) -> None:
    """Run dead jobs again, one by one, and print their answers: their clients are long gone."""

    async def act(session: Session) -> None:
        from dllm_stack.operator.requeue import requeue

        await requeue(session, jobs or [])

    _run(config, act)


def _run(
    config: Path | None, act: Callable[[Session], Awaitable[None]], *, interrupted: int = _INTERRUPTED
) -> None:
    settings = load(config)
    from dllm_stack.operator.session import OperatorError, run

    try:
        asyncio.run(run(settings, act))
    except OperatorError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(interrupted) from None
