"""The command `dllm-stack`: one subcommand a service, and `up` for all of them on one machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from dllm_stack import settings as settings_module
from dllm_stack.settings import Settings

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Config = Annotated[
    Path | None, typer.Option("--config", help="A YAML settings file; environment variables win over it.")
]


def _load(config: Path | None) -> Settings:
    try:
        return settings_module.load(config)
    except settings_module.SettingsError as error:
        typer.echo(f"These settings are wrong:\n{error}", err=True)
        raise typer.Exit(2) from None


# Each service is imported only when it runs: a gateway has no torch, a router no FastAPI.


@app.command()
def gateway(config: Config = None) -> None:
    """Serve the OpenAI-compatible API."""
    settings = _load(config)
    from gateway.main import run

    run(settings)


@app.command()
def router(config: Config = None) -> None:
    """Dispatch waiting jobs to free slots; reclaim those of dead workers."""
    settings = _load(config)
    from router.main import run

    run(settings)


@app.command()
def worker(config: Config = None) -> None:
    """Run one SGLang engine and the jobs it is given."""
    settings = _load(config)
    from worker.main import run

    run(settings)


@app.command()
def up(
    config: Config = None,
    redis_url: Annotated[
        str | None, typer.Option(help="Use this Redis instead of an embedded Valkey.")
    ] = None,
) -> None:
    """Run the whole stack on this machine until Ctrl-C."""
    if redis_url is not None:
        os.environ["DLLM_REDIS__URL"] = redis_url
    settings = _load(config)
    from dllm_stack.local.stack import run

    raise typer.Exit(run(settings))


if __name__ == "__main__":
    app()
