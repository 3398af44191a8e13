"""A whole run of a plan: warm-up, load, figures."""

from __future__ import annotations

import asyncio
import platform
import signal
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import psutil
from rich.console import Console

from dllm_stack.bench import load, plan, result, server
from dllm_stack.bench.bar import bar
from dllm_stack.bench.endpoints import Endpoint, Manner
from dllm_stack.bench.load import Run, Target
from dllm_stack.bench.metrics import figures
from dllm_stack.bench.plan import Options, Plan
from dllm_stack.bench.problem import Problem
from dllm_stack.bench.result import Load, Result

_WARM_UP_TOKENS = 32  # of each answer at most, as in bench_serving


@dataclass(frozen=True)
class Setup:
    """What is not about the requests themselves.

    Attributes:
        stats: ask what blocks have cost; None: if the server is a dllm-stack and the model a diffusion model.
    """

    base_url: str
    endpoint: Endpoint
    model: str | None
    stream: bool
    ignore_eos: bool
    stats: bool | None
    extra: dict[str, Any]
    concurrency: int | None
    warm_up: int
    timeout_s: float
    progress: bool


async def run(options: Options, planned: Plan, setup: Setup, console: Console) -> Result:
    """
    Args:
        planned: what `plan.make` makes of the options.
        console: for the progress: stderr.

    Raises:
        Problem
    """
    target = await _target(setup, planned)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        """The first Ctrl-C ends the run with what was measured, a second one the process."""
        stop.set()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        await _warm_up(target, setup, planned, stop)
        began = datetime.now(UTC)
        with bar(console, "requests", len(planned.asks), shown=setup.progress) as advance:
            done = await load.run(
                target, planned.asks, setup.concurrency, stop, lambda record: advance(record.answered)
            )
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    headers = planned.asks[0].tenant.headers
    accept_length = await server.accept_length(setup.base_url, headers)
    return _result(options, setup, planned, target, done, began, accept_length)


async def _target(setup: Setup, planned: Plan) -> Target:
    found = await server.models(setup.base_url, planned.asks[0].tenant.headers)
    model = server.choose(found, setup.model)
    stats = model.decoding is not None if setup.stats is None else setup.stats
    manner = Manner(setup.model or model.id, setup.stream, setup.ignore_eos, stats, setup.extra)
    return Target(setup.base_url, setup.endpoint, manner, setup.timeout_s)


async def _warm_up(target: Target, setup: Setup, planned: Plan, stop: asyncio.Event) -> None:
    """
    Raises:
        Problem: none of it was answered.
    """
    if not setup.warm_up:
        return
    first = planned.asks[0]
    tokens = min(first.prompt.output_tokens, _WARM_UP_TOKENS)
    ask = replace(first, prompt=replace(first.prompt, output_tokens=tokens), due_s=None)
    done = await load.run(target, [ask] * setup.warm_up, setup.concurrency, stop)
    if done.records and not stop.is_set() and not any(record.answered for record in done.records):
        last = done.records[-1]
        raise Problem("", f"No warm-up request was answered: {last.error}: {last.detail}")


def _result(
    options: Options,
    setup: Setup,
    planned: Plan,
    target: Target,
    done: Run,
    began: datetime,
    accept_length: float | None,
) -> Result:
    answered = [record for record in done.records if record.answered]
    for record, tokens in zip(
        answered, planned.tokenizer.count([record.text for record in answered]), strict=True
    ):
        record.retokenized = tokens
    groups = result.grouped(done.records, done.duration_s)
    described = plan.described(options) | {
        "backend": setup.endpoint.backend,
        "model": target.manner.model,
        "max_concurrency": setup.concurrency,
        "stream": setup.stream,
        "ignore_eos": setup.ignore_eos,
        "warmup_requests": setup.warm_up,
        "extra_request_body": setup.extra,
    }
    return Result(
        began=began.isoformat(timespec="seconds"),
        version=version("dllm-stack"),
        machine=f"{psutil.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}",
        load=Load(
            backend=setup.endpoint.backend,
            url=setup.base_url,
            model=target.manner.model,
            dataset=planned.dataset,
            requests=len(planned.asks),
            rate=planned.rate,
            concurrency=setup.concurrency,
            seed=options.seed,
            arrivals=planned.arrivals,
            options=described,
        ),
        figures=figures(done.records, done.duration_s),
        groups=groups if len(groups) > 1 else {},
        cost=done.cost,
        accept_length=accept_length,
        interrupted=done.interrupted,
        records=done.records,
    )
