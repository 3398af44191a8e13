"""The option `--config` of every command, and the settings it leads to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dllm_stack import settings
from dllm_stack.settings import Settings

Config = Annotated[
    Path | None, typer.Option("--config", help="A YAML settings file; environment variables win over it.")
]


def load(config: Path | None) -> Settings:
    """Ends the command with status 2, and each wrong setting on stderr, when some are wrong."""
    try:
        return settings.load(config)
    except settings.SettingsError as error:
        typer.echo(f"These settings are wrong:\n{error}", err=True)
        raise typer.Exit(2) from None
