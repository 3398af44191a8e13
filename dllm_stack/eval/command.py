"""`dllm-stack eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dllm_stack.bench.problem import Problem
from dllm_stack.bench.url import server_url
from dllm_stack.eval.questions import OWN, Form, read

_INTERRUPTED = 130  # exit status of shells for Ctrl-C
_SHOTS = 5  # as in few_shot_gsm8k


def evaluate(
    base_url: Annotated[str, typer.Option(help="Of the server.")] = "http://127.0.0.1:8000",
    model: Annotated[
        str | None, typer.Option(help="With a mode, if you like. Else the server's first one.")
    ] = None,
    data_path: Annotated[
        Path, typer.Option(metavar="FILE", help="JSON lines with question and answer, as GSM8K's test.jsonl.")
    ] = OWN,
    num_questions: Annotated[int, typer.Option(min=1, help="The first so many.")] = 200,
    num_shots: Annotated[
        int | None,
        typer.Option(min=0, help="Examples before each: the file's first ones. 5; of our own set none."),
    ] = None,
    form: Annotated[
        Form | None,
        typer.Option(
            help="completion, the default, asks as few_shot_gsm8k does; chat, which our own set is for, "
            "by the model's template."
        ),
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Of an answer.")] = 512,
    parallel: Annotated[
        int, typer.Option("--parallel", "--concurrency", min=1, help="Questions at once.")
    ] = 128,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds for each question.")] = 600.0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Keep answers there, and go on from them."),
    ] = None,
    progress: Annotated[
        bool | None,
        typer.Option("--progress/--no-progress", help="A bar on stderr; else if that is a terminal."),
    ] = None,
) -> None:
    """How many questions a model answers right, as sglang.test.few_shot_gsm8k counts: the last number of an
    answer against that of the file. Without --data-path, arithmetic that the demo model has learned.

    Killed at any moment, the same command with the same --output goes on. OPENAI_API_KEY is sent, if it is
    set.
    """
    import asyncio

    from rich.console import Console

    from dllm_stack.eval import session
    from dllm_stack.eval.session import Setup

    console = Console(stderr=True)
    try:
        setup = Setup(
            base_url=server_url(base_url),
            model=model,
            num_questions=num_questions,
            parallel=parallel,
            timeout_s=timeout,
            output=output,
            progress=console.is_terminal if progress is None else progress,
        )
        own = data_path == OWN
        exam = read(
            data_path,
            (0 if own else _SHOTS) if num_shots is None else num_shots,
            form or (Form.CHAT if own else Form.COMPLETION),
            max_new_tokens,
        )
        status = asyncio.run(session.run(exam, setup, console))
    except Problem as problem:
        typer.echo(f"Error: {problem}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    raise typer.Exit(status)
