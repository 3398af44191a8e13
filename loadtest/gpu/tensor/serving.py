"""The whole stack on several GPUs: two engines of one GPU behind a gateway against one engine of two."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from dllm_stack.bench import plan, session
from dllm_stack.bench.endpoints import GENERATE
from dllm_stack.bench.plan import Options, Plan
from dllm_stack.bench.session import Setup
from loadtest.gpu import architecture
from loadtest.gpu.engine import KV_TOKENS, UNEVEN_MEMORY, Machine, with_plugins
from loadtest.gpu.hooks import noise
from loadtest.gpu.tensor.report import Report, Served
from loadtest.local_stack import READY, LocalStack

_PLUGINS = {
    "dllm_stack": "worker.dllm.plugin:register",
    "noise": f"{noise.__name__}:{noise.register.__name__}",
}
_TIMEOUT_S = 600.0
_GPUS = 2
_BEGUN = "gateway"  # the first that `up` prints of it


@dataclass(frozen=True)
class Load:
    """
    Attributes:
        prompt, output: tokens of each request.
    """

    requests: int
    concurrency: int
    prompt: int
    output: int
    rounds: int


@dataclass(frozen=True)
class Side:
    """
    Attributes:
        gpus: of each worker.
    """

    stack: LocalStack
    gpus: int

    @property
    def workers(self) -> int:
        return _GPUS // self.gpus


def compare(machine: Machine, load: Load, deadline: float, report: Report) -> None:
    """Both stacks load side by side, and are asked in turns; each has as many slots as the load's requests.

    Adds to the report, round by round, and shows its table at last.

    Args:
        deadline: no round but the first begins after it (time.monotonic).

    Raises:
        Problem, RuntimeError: a stack did not start, or did not answer.
    """
    machine.folder.mkdir(parents=True, exist_ok=True)
    if machine.device == "cuda":
        architecture.write_with_tokenizer(machine.folder / "mini")
    began = time.monotonic()
    with ExitStack() as running:
        sides = [
            Side(running.enter_context(LocalStack(_BEGUN, **settings(machine, gpus, load.concurrency))), gpus)
            for gpus in (1, _GPUS)
        ]
        for side in sides:
            side.stack.wait_for(READY)
            started = len(side.stack.worker_urls)
            if started != side.workers:
                raise RuntimeError(f"{started} workers of {side.gpus} GPUs were started, not {side.workers}")
        print(f"both stacks are up after {time.monotonic() - began:.0f} s", flush=True)
        asyncio.run(_in_turns(sides, load, deadline, report))
    report.show("serving")


def settings(machine: Machine, gpus: int, concurrency: int) -> dict[str, str]:
    """Of `up`, as environment variables.

    Args:
        gpus: of each worker.
        concurrency: of the requests to all workers.
    """
    workers = _GPUS // gpus
    # Room for both stacks on the same GPUs.
    engine_args = [
        *("--tp-size", str(gpus), "--max-running-requests", str(concurrency // workers)),
        *("--max-total-tokens", str(KV_TOKENS[machine.device])),
    ]
    if machine.device == "cpu":
        # Without GPUs there is a worker for each model that is named.
        models = json.dumps(["tiny-llada2"] * workers)
        return {"DLLM_UP__MODELS": models, "DLLM_WORKER__ENGINE_ARGS": json.dumps(engine_args)}
    return {
        **with_plugins(machine.folder / f"site-{gpus}", _PLUGINS),
        **UNEVEN_MEMORY,
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(_GPUS))),
        "DLLM_WORKER__PROFILE": "h200-8x",
        "DLLM_WORKER__MODEL": "llada2.1-mini",
        "DLLM_WORKER__CHECKPOINT": str(machine.folder / "mini"),
        "DLLM_WORKER__ENGINE_ARGS": json.dumps([*engine_args, "--load-format", "dummy", *machine.arguments]),
    }


async def _in_turns(sides: Sequence[Side], load: Load, deadline: float, report: Report) -> None:
    for number in range(load.rounds):
        if number and time.monotonic() > deadline:
            break
        options = _options(sides[0].stack, load, number)
        planned = plan.make(options)
        for side in sides if number % 2 == 0 else reversed(sides):
            report.serving.append(await _round(side, options, planned, load))
            report.write()
            print(f"{number} {report.serving[-1]}", flush=True)


def _options(stack: LocalStack, load: Load, number: int) -> Options:
    return Options(
        tokenizer=Path(stack.checkpoint),
        num_prompts=load.requests,
        random_input_len=load.prompt,
        random_output_len=load.output,
        random_range_ratio=1.0,
        tokenize_prompt=True,
        seed=number,
    )


async def _round(side: Side, options: Options, planned: Plan, load: Load) -> Served:
    setup = Setup(
        base_url=side.stack.gateway_url,
        endpoint=GENERATE,
        model=None,
        stream=True,
        ignore_eos=True,
        stats=False,
        extra={},
        concurrency=load.concurrency,
        warm_up=load.concurrency,
        timeout_s=_TIMEOUT_S,
        progress=False,
    )
    figures = (await session.run(options, planned, setup, Console(stderr=True))).figures
    if figures.ttft_ms is None:
        raise RuntimeError(f"{side.workers} workers of {side.gpus} GPUs answered nothing: {figures.errors}")
    return Served(
        side.workers,
        side.gpus,
        figures.output_rate,
        figures.ttft_ms.median,
        figures.ttft_ms.p99,
        figures.completed,
        figures.sent,
    )
