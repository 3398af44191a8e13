"""`dllm-stack bench`, and `dllm-stack bench compare`."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from dllm_stack.bench.choices import Arrivals, Backend, Dataset
from dllm_stack.bench.problem import Problem
from dllm_stack.bench.url import server_url

app = typer.Typer()

_NEEDED = ("numpy", "psutil", "tokenizers")  # an image of a service may lack them
_INTERRUPTED = 130  # exit status of shells for Ctrl-C
_LOAD, _PROMPTS, _WHO, _OUTPUT = "Load", "Prompts", "Whose", "Output"


@app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    base_url: Annotated[str, typer.Option(help="Of the server.")] = "http://127.0.0.1:8000",
    backend: Annotated[
        Backend, typer.Option("--backend", "--endpoint", help="What is asked; bench_serving's names too.")
    ] = Backend.CHAT,
    model: Annotated[
        str | None,
        typer.Option(help="With a mode, if you like: llada2.1-mini:speed. Else the server's first one."),
    ] = None,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", "--disable-stream", help="Ask for whole answers.")
    ] = False,
    disable_ignore_eos: Annotated[
        bool, typer.Option("--disable-ignore-eos", help="Answers may end before they have all tokens.")
    ] = False,
    extra_request_body: Annotated[
        str, typer.Option(metavar="JSON", help="Fields of each body, over all others.")
    ] = "{}",
    block_stats: Annotated[
        bool | None,
        typer.Option(
            "--block-stats/--no-block-stats",
            help="Ask what blocks have cost (forwards, edits). Else only where dllm-stack serves a dLLM.",
        ),
    ] = None,
    num_prompts: Annotated[
        int | None, typer.Option(min=1, help="Requests; 1000, or all of a trace.", rich_help_panel=_LOAD)
    ] = None,
    max_concurrency: Annotated[
        int | None, typer.Option(min=1, help="Closed loop: so many at once, at most.", rich_help_panel=_LOAD)
    ] = None,
    request_rate: Annotated[
        float, typer.Option(help="Open loop: so many a second, on average.", rich_help_panel=_LOAD)
    ] = math.inf,
    arrivals: Annotated[
        Arrivals, typer.Option(help="When, in an open loop.", rich_help_panel=_LOAD)
    ] = Arrivals.POISSON,
    burstiness: Annotated[
        float,
        typer.Option(help="Of gamma: 1 is Poisson, less is burstier.", rich_help_panel=_LOAD),
    ] = 1.0,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Replay: JSON lines with timestamp (ms), input_length, output_length; as Mooncake's, "
            "with hash_ids; or with prompt, tenant.",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    trace_speed: Annotated[float, typer.Option(help="So many times as fast.", rich_help_panel=_LOAD)] = 1.0,
    warmup_requests: Annotated[
        int, typer.Option(min=0, help="Before, not counted.", rich_help_panel=_LOAD)
    ] = 1,
    timeout: Annotated[
        float, typer.Option(min=0.001, help="Seconds for each request.", rich_help_panel=_LOAD)
    ] = 6 * 3600.0,
    seed: Annotated[
        int, typer.Option(min=0, help="All that is by chance follows from it.", rich_help_panel=_LOAD)
    ] = 1,
    dataset_name: Annotated[
        Dataset, typer.Option(help="Random words, or conversations.", rich_help_panel=_PROMPTS)
    ] = Dataset.RANDOM,
    dataset_path: Annotated[
        Path | None, typer.Option(help="Of conversations: JSON as ShareGPT has it.", rich_help_panel=_PROMPTS)
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="Folder with the model's tokenizer.json.", rich_help_panel=_PROMPTS),
    ] = None,
    random_input_len: Annotated[
        int,
        typer.Option("--random-input-len", "--random-input", min=1, help="Tokens.", rich_help_panel=_PROMPTS),
    ] = 1024,
    random_output_len: Annotated[
        int,
        typer.Option(
            "--random-output-len", "--random-output", min=1, help="Tokens.", rich_help_panel=_PROMPTS
        ),
    ] = 1024,
    random_range_ratio: Annotated[
        float,
        typer.Option(
            help="Lengths are from so much of these, evenly; 1: all are the same.", rich_help_panel=_PROMPTS
        ),
    ] = 0.0,
    tokenize_prompt: Annotated[
        bool, typer.Option("--tokenize-prompt", help="Send token ids, not text.", rich_help_panel=_PROMPTS)
    ] = False,
    sharegpt_output_len: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens; else as many as in the file.", rich_help_panel=_PROMPTS),
    ] = None,
    sharegpt_context_len: Annotated[
        int | None, typer.Option(min=1, help="Leave out longer ones.", rich_help_panel=_PROMPTS)
    ] = None,
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=WEIGHT",
            help="Its share of the load, by X-Tenant-ID; repeat it.",
            rich_help_panel=_WHO,
        ),
    ] = None,
    tenants: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="YAML list: name, weight, model, key_env (the variable with its key), extra (of the body).",
            rich_help_panel=_WHO,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Write PATH.json, .csv, .png and .html.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    progress: Annotated[
        bool | None,
        typer.Option(
            "--progress/--no-progress",
            help="A bar on stderr; else if that is a terminal.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
) -> None:
    """Load a server that speaks OpenAI's API or SGLang's, and print what became of it: the table of
    sglang.bench_serving, with its names and definitions, and figures of blocks. Options of the same name mean
    the same.

    Without --request-rate or --trace all is sent at once, or as --max-concurrency lets it. Ctrl-C ends the
    run with what was measured. OPENAI_API_KEY is sent, if it is set.
    """
    if context.invoked_subcommand is not None:
        return
    import asyncio

    from rich.console import Console

    _need_packages()
    from dllm_stack.bench import files, plan, session, table
    from dllm_stack.bench.endpoints import ENDPOINTS
    from dllm_stack.bench.plan import Options
    from dllm_stack.bench.session import Setup

    console = Console(stderr=True)
    options = Options(
        dataset=dataset_name,
        dataset_path=dataset_path,
        trace=trace,
        trace_speed=trace_speed,
        tokenizer=tokenizer,
        num_prompts=num_prompts,
        random_input_len=random_input_len,
        random_output_len=random_output_len,
        random_range_ratio=random_range_ratio,
        sharegpt_output_len=sharegpt_output_len,
        sharegpt_context_len=sharegpt_context_len,
        tokenize_prompt=tokenize_prompt,
        request_rate=request_rate,
        arrivals=arrivals,
        burstiness=burstiness,
        tenant=tenant or [],
        tenants=tenants,
        seed=seed,
    )
    try:
        setup = Setup(
            base_url=server_url(base_url),
            endpoint=ENDPOINTS[backend],
            model=model,
            stream=not no_stream,
            ignore_eos=not disable_ignore_eos,
            stats=block_stats,
            extra=_object(extra_request_body),
            concurrency=max_concurrency,
            warm_up=warmup_requests,
            timeout_s=timeout,
            progress=console.is_terminal if progress is None else progress,
        )
        writer = files.Writer.at(output)
        with console.status("making the prompts") if setup.progress else nullcontext():
            planned = plan.make(options)  # outside of asyncio.run, which would be deaf to Ctrl-C meanwhile
        result = asyncio.run(session.run(options, planned, setup, console))
    except Problem as problem:
        typer.echo(f"Error: {problem}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    typer.echo("\n".join(table.lines(result)))
    for line in writer.write(result):
        typer.echo(line, err=True)
    if result.interrupted:
        raise typer.Exit(_INTERRUPTED)
    if not result.figures.completed:
        raise typer.Exit(1)


def _need_packages() -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        typer.echo(f"Error: this needs {', '.join(missing)}: pip install 'dllm-stack[bench]'", err=True)
        raise typer.Exit(2)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Problem("--extra-request-body", f"is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Problem("--extra-request-body", "is no JSON object")
    return found


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run's .json, or a folder of several rounds'.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The same of what is compared with it.")],
    confidence: Annotated[
        float, typer.Option(min=0.5, max=0.999, help="That the interval has the true ratio.")
    ] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Of the samples drawn.")] = 1,
) -> None:
    """Two runs side by side, each figure's ratio with a confidence interval: what is more than chance."""
    _need_packages()
    from dllm_stack.bench import compare

    try:
        for line in compare.lines(compare.rounds(a, "A"), compare.rounds(b, "B"), confidence, seed):
            typer.echo(line)
    except Problem as problem:
        typer.echo(f"Error: {problem}", err=True)
        raise typer.Exit(2) from None
