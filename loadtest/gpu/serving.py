"""The whole stack on several GPUs: two engines of one GPU behind a gateway against one engine of two."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from dllm_stack.bench import plan, session
from dllm_stack.bench.endpoints import GENERATE
from dllm_stack.bench.plan import Options
from dllm_stack.bench.session import Setup
from loadtest.gpu import architecture
from loadtest.gpu.engine import Machine, with_plugins
from loadtest.gpu.hooks import noise
from loadtest.local_stack import LocalStack

_PLUGINS = {
    "dllm_stack": "worker.dllm.plugin:register",
    "noise": f"{noise.__name__}:{noise.register.__name__}",
}
_TIMEOUT_S = 600.0
GPUS = 2


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
class Served:
    """One round of the load.

    Attributes:
        ttft_ms, ttft_99_ms: the median, and the 99th percentile.
    """

    workers: int
    gpus: int
    tokens_per_s: float
    ttft_ms: float
    ttft_99_ms: float
    completed: int
    requests: int


def compare(machine: Machine, load: Load) -> list[Served]:
    """Starts the stack with two workers, and then with one; each has as many slots as the load's requests."""
    folder = machine.folder / "served"
    found: list[Served] = []
    for gpus in (1, GPUS):
        workers = GPUS // gpus
        with LocalStack(**_settings(machine, folder, gpus, load.concurrency // workers)) as stack:
            started = len(stack.worker_urls)
            if started != workers:
                raise RuntimeError(f"{started} workers of {gpus} GPUs were started, not {workers}")
            print(f"{workers} workers of {gpus} GPUs are up after {stack.start_s:.0f} s", flush=True)
            for number in range(load.rounds):
                found.append(asyncio.run(_round(stack, load, number, workers, gpus)))
                print(found[-1], flush=True)
    return found


def _settings(machine: Machine, folder: Path, gpus: int, slots: int) -> dict[str, str]:
    engine_args = ["--tp-size", str(gpus), "--max-running-requests", str(slots)]
    if machine.device == "cpu":
        # Without GPUs there is a worker for each model that is named.
        models = json.dumps(["tiny-llada2"] * (GPUS // gpus))
        return {"DLLM_UP__MODELS": models, "DLLM_WORKER__ENGINE_ARGS": json.dumps(engine_args)}
    return {
        **with_plugins(folder / f"site-{gpus}", _PLUGINS),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(GPUS))),
        "DLLM_WORKER__PROFILE": "h200-8x",
        "DLLM_WORKER__MODEL": "llada2.1-mini",
        "DLLM_WORKER__CHECKPOINT": str(architecture.write_with_tokenizer(folder / "mini")),
        "DLLM_WORKER__ENGINE_ARGS": json.dumps([*engine_args, "--load-format", "dummy"]),
    }


async def _round(stack: LocalStack, load: Load, number: int, workers: int, gpus: int) -> Served:
    options = Options(
        tokenizer=Path(stack.checkpoint),
        num_prompts=load.requests,
        random_input_len=load.prompt,
        random_output_len=load.output,
        random_range_ratio=1.0,
        tokenize_prompt=True,
        seed=number,
    )
    setup = Setup(
        base_url=stack.gateway_url,
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
    figures = (await session.run(options, plan.make(options), setup, Console(stderr=True))).figures
    assert figures.ttft_ms is not None
    return Served(
        workers,
        gpus,
        figures.output_rate,
        figures.ttft_ms.median,
        figures.ttft_ms.p99,
        figures.completed,
        figures.sent,
    )
