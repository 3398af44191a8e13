"""The command `dllm-stack`: one subcommand a service, `up` for all on one machine; for operators `top`,
`queue`, `keys`, `tenants` and `preflight`; to measure a server `bench` and `eval`."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Annotated

import typer

import dllm_stack.process_one  # noqa: F401
from dllm_stack.bench.commands import app as bench
from dllm_stack.config_option import Config, load
from dllm_stack.eval.command import evaluate
from dllm_stack.keys.commands import keys, tenants
from dllm_stack.operator.commands import app as queue

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

app.add_typer(bench, name="bench")
app.add_typer(queue, name="queue")
app.add_typer(keys, name="keys")
app.add_typer(tenants, name="tenants")

app.command("eval")(evaluate)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"dllm-stack {version('dllm-stack')}")
        raise typer.Exit()


@app.callback()
def main(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it and exit.")
    ] = False,
) -> None:
    """Serve diffusion language models."""


# Each service is imported only when it runs: a gateway has no torch, a router no FastAPI.


@app.command()
def gateway(config: Config = None) -> None:
    """Serve the OpenAI-compatible API."""
    settings = load(config)
    from gateway.main import run

    run(settings)


@app.command()
def router(config: Config = None) -> None:
    """Dispatch waiting jobs to free slots; reclaim those of dead workers."""
    settings = load(config)
    from router.main import run

    run(settings)


@app.command()
def worker(config: Config = None) -> None:
    """Run one SGLang engine and the jobs it is given."""
    settings = load(config)
    from worker.main import run

    run(settings)


@app.command()
def fetch(config: Config = None) -> None:
    """Download the worker's checkpoint into the Hugging Face cache, if it is not there."""
    settings = load(config)
    from worker.fetch.main import run

    run(settings)


@app.command()
def top(
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL", help="/metrics of a service, in place of the settings' addresses; may be repeated."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows in a table.")] = 20,
    config: Config = None,
) -> None:
    """Pools, workers, queue and the pace of answers, anew every second; once, if the output is no
    terminal."""
    settings = load(config)
    import asyncio

    from dllm_stack.operator.session import OperatorError, Session, run
    from dllm_stack.operator.top import top

    async def act(session: Session) -> None:
        await top(session, metrics or [], limit)

    try:
        asyncio.run(run(settings, act))
    except OperatorError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


@app.command()
def preflight(
    profile: Annotated[
        str | None, typer.Argument(help="A file of configs/profiles, as its chart installs it by default.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A pool of this model, on machines of its own; may be repeated. Else the chart's."),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Machines of each pool.")] = 1,
    manifests: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="In place of a profile: what `helm template` prints; - is stdin."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Where to install; else the kubeconfig's.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Of the kubeconfig; else the current one.")] = None,
) -> None:
    """What a Kubernetes cluster lacks for an installation. It only reads; status 1: something is missing."""
    from dllm_stack.preflight.command import run

    raise typer.Exit(run(profile, model or [], nodes, manifests, namespace, context))


@app.command()
def up(
    config: Config = None,
    redis_url: Annotated[
        str | None, typer.Option(help="Use this Redis instead of an embedded Valkey.")
    ] = None,
    with_monitoring: Annotated[
        bool, typer.Option("--with-monitoring", help="Prometheus with the rules and alerts, too.")
    ] = False,
) -> None:
    """Run the whole stack on this machine until Ctrl-C."""
    if with_monitoring:
        os.environ["DLLM_UP__MONITORING"] = "true"
    if redis_url is not None:
        os.environ["DLLM_REDIS__URL"] = redis_url
    settings = load(config)
    from dllm_stack.local.stack import run

    raise typer.Exit(run(settings))


if __name__ == "__main__":
    app()
