"""The whole stack on one GPU: `python -m loadtest.gpu.stack --out stack.json`.

`dllm-stack up` with LLaDA2-mini, its weights noise, as the profile h200-8x runs it, and beside it stock
SGLang with one running request, as the makers of the model run it. Both are sent what
`sglang.bench_serving` would send, random prompts and answers of up to 1000 tokens, one request at a time and
100 at a time: through the gateway, to the stack's own engine, and to the other one. The first two take turns.
Each run's table, as bench_serving prints it, goes into a file beside
`--out`; both are complete after each run.

Weights that are noise are sure of no token. `--threshold 0`, the default, takes a whole block in one step, as
fast as this engine can and so the most that the stack can have to do; with 0.95, as the model is served, each
step commits one token. A trained model is in between. `--demo` also serves the small trained one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import msgspec
import yaml
from rich.console import Console

from dllm_stack.bench import plan, result, session
from dllm_stack.bench import table as tables
from dllm_stack.bench.asks import Ask
from dllm_stack.bench.endpoints import GENERATE, Endpoint, Manner
from dllm_stack.bench.plan import Options, Plan
from dllm_stack.bench.problem import Problem
from dllm_stack.bench.session import Setup
from dllm_stack.settings import CONFIGS
from loadtest.gpu import architecture, table, variants
from loadtest.gpu.engine import Engine, EngineError, Machine, with_plugins
from loadtest.gpu.hooks import noise
from loadtest.local_stack import READY, LocalStack
from worker.tiny_checkpoint import write as write_tiny

MINI, DEMO, TINY = "llada2.0-mini", "dllm-demo", "tiny-llada2"
# Profile and model, by device.
_SERVED = {"cuda": ("h200-8x", MINI), "cpu": ("cpu-dev", TINY)}
STACK, ENGINE, ALONE = "stack", "its engine", "one at a time"
# Of KV cache, which the engines share with each other: the weights of each are 30 GB.
_KV_TOKENS = "131072"
_FLUSH_S = 30


@dataclass(frozen=True)
class Side:
    """
    Attributes:
        engine: whose prefix cache is emptied before each run: all runs of a load send the same prompts.
    """

    name: str
    model: str
    url: str
    engine: str
    endpoint: Endpoint


@dataclass(frozen=True)
class Load:
    concurrency: int
    prompts: int
    input_tokens: int
    output_tokens: int

    def options(self, tokenizer: Path) -> Options:
        return Options(
            tokenizer=tokenizer,
            num_prompts=self.prompts,
            random_input_len=self.input_tokens,
            random_output_len=self.output_tokens,
        )


_WARM_UP = Load(40, 40, 64, 64)


@dataclass
class Found:
    """Of one side, under one load: the figures of each round."""

    model: str
    side: str
    load: Load
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def median(self, name: str) -> float:
        return float(median(each[name] for each in self.rounds))


class Notebook:
    """All runs so far, in a file of JSON and one of tables."""

    def __init__(self, file: Path) -> None:
        self._file, self._tables = file, file.with_suffix(".txt")
        self._tables.unlink(missing_ok=True)
        self.found: list[Found] = []

    def of(self, side: Side, load: Load) -> Found:
        for each in self.found:
            if (each.model, each.side, each.load) == (side.model, side.name, load):
                return each
        self.found.append(Found(side.model, side.name, load))
        return self.found[-1]

    def write(self, side: Side, load: Load, run: result.Result) -> None:
        figures = result.as_bench_serving(run)
        self.of(side, load).rounds.append(figures)
        written = [msgspec.to_builtins(each) for each in self.found]
        self._file.write_text(json.dumps(written, indent=1) + "\n", "utf-8")
        with self._tables.open("a", encoding="utf-8") as file:
            print(f"\n{side.model}, {side.name}, {load}", *tables.lines(run), sep="\n", file=file)
        line = f"{side.model} {side.name}, {load.concurrency} at a time:"
        for name in _SHOWN:
            line += f" {name} {figures[name] or 0:.1f}"
        print(line, f"({figures['completed']} of {load.prompts})", flush=True)


_SHOWN = ("output_throughput", "mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "mean_itl_ms")
RATES = ("request_throughput", "output_throughput", "total_throughput")
TIMES = ("mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "mean_itl_ms", "mean_e2e_latency_ms")


def main() -> None:
    parser = table.parser("stack", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of the stack and its engine, in turns")
    parser.add_argument("--input", type=int, default=1000, help="tokens of a prompt, at most")
    parser.add_argument("--output", type=int, default=1000, help="tokens of an answer, at most")
    parser.add_argument("--one", type=int, default=10, help="requests, one at a time")
    parser.add_argument("--many", type=int, default=500, help="requests, 100 at a time")
    parser.add_argument("--more", type=int, help="so many, too, at last; not with one running request")
    parser.add_argument("--concurrency", type=int, default=100, help="in place of 100")
    parser.add_argument("--threshold", type=float, default=0.0, help="of LowConfidence; see above")
    parser.add_argument("--after", type=Path, help="load, and wait for this file before the first request")
    parser.add_argument("--without-alone", action="store_true", help="no engine with one running request")
    parser.add_argument("--demo", action="store_true", help="the demo model, too")
    arguments = parser.parse_args()
    notebook = Notebook(arguments.out)
    with table.machine(arguments) as machine:
        try:
            with _started(machine, arguments) as sides:
                while arguments.after and not arguments.after.exists():
                    time.sleep(0.2)
                asyncio.run(_measure(sides, arguments, notebook))
        except (EngineError, Problem, RuntimeError) as error:
            sys.exit(str(error))
    show(notebook.found)


@dataclass(frozen=True)
class Sides:
    """
    Attributes:
        turns: of each model the stack and its engine.
        alone: the engine with one running request.
        tokenizers: by model.
        plans: of each model, those made so far.
    """

    turns: list[tuple[Side, Side]]
    alone: Side | None
    tokenizers: dict[str, Path]
    plans: dict[tuple[str, Load], Plan]


@contextmanager
def _started(machine: Machine, arguments: argparse.Namespace) -> Iterator[Sides]:
    """
    Raises:
        EngineError, RuntimeError: one of them did not start.
    """
    began = time.monotonic()
    if machine.device == "cuda" and machine.checkpoint is None:
        architecture.write_with_tokenizer(machine.folder / "mini")
    elif machine.checkpoint is None:
        machine = replace(machine, checkpoint=write_tiny(machine.folder / "tiny"))
    # Both load at the same time.
    other = None if arguments.without_alone else Engine(machine, variants.one_at_a_time(threshold=-1.0))
    try:
        # Meanwhile the prompts are made, so `up` is waited for in two steps.
        with LocalStack(until="gateway", **_settings(machine, demo=arguments.demo)) as stack:
            plans = _plans(machine, arguments)
            stack.wait_for(READY)
            print(f"the stack is up after {time.monotonic() - began:.0f} s", flush=True)
            try:
                yield _sides(machine, stack, other, began, arguments, plans)
            finally:
                _keep_logs(stack, machine.folder)
    finally:
        if other:
            other.kill()


def _plans(machine: Machine, arguments: argparse.Namespace) -> dict[tuple[str, Load], Plan]:
    model, folder = _SERVED[machine.device][1], machine.checkpoint or machine.folder / "mini"
    return {(model, load): plan.make(load.options(folder)) for load in (_WARM_UP, *_loads(arguments))}


def _sides(
    machine: Machine,
    stack: LocalStack,
    other: Engine | None,
    began: float,
    arguments: argparse.Namespace,
    plans: dict[tuple[str, Load], Plan],
) -> Sides:
    turns = []
    for model, served in sorted(stack.served.items(), key=lambda item: item[0] == DEMO):
        threshold = None if model == DEMO else arguments.threshold
        through = Side(STACK, model, stack.gateway_url, served.url, _through_gateway(threshold))
        turns.append((through, replace(through, name=ENGINE, url=served.url, endpoint=_to_engine(threshold))))
    alone = None
    if other is not None:
        try:
            asyncio.run(_wait(other, began + machine.start_s))
            alone = replace(turns[0][0], name=ALONE, url=other.url, engine=other.url, endpoint=GENERATE)
            print(f"the other engine is up after {time.monotonic() - began:.0f} s", flush=True)
        except EngineError as error:
            print(f"without it: {error}", flush=True)
    tokenizers = {model: served.checkpoint for model, served in stack.served.items()}
    return Sides(turns, alone, tokenizers, plans)


def _settings(machine: Machine, *, demo: bool) -> dict[str, str]:
    """Of `up`, as environment variables: all is as the profile says, but for the weights and their room."""
    folder, (profile, model) = machine.folder, _SERVED[machine.device]
    served = yaml.safe_load((CONFIGS / "profiles" / f"{profile}.yaml").read_text("utf-8"))["models"]
    small = ["--attention-backend=triton", "--dtype=bfloat16", "--max-total-tokens=65536"]
    if machine.device == "cuda":
        # Flashinfer would compile for the demo's heads of 64 for minutes.
        served[DEMO] = served[model] | {"args": small}
        noisy = ["--load-format=dummy"] if machine.checkpoint is None else []
        served[model]["args"] = [f"--max-total-tokens={_KV_TOKENS}", *noisy]
    served[model] = served[model] | {"args": [*served[model]["args"], *machine.arguments]}
    checkpoint = machine.checkpoint or folder / "mini"
    models = [
        _own(folder, "models", model, checkpoint=str(checkpoint), revision=None),
        *([DEMO] if demo else []),
    ]
    plugins = {
        "noise": f"{noise.__name__}:{noise.register.__name__}",
        "dllm_stack": "worker.dllm.plugin:register",
    }
    settings = {
        "DLLM_UP__MODELS": json.dumps(models),
        "DLLM_WORKER__PROFILE": _own(folder, "profiles", profile, models=served),
    }
    return settings | with_plugins(folder / "site", plugins)


def _own(folder: Path, kind: str, name: str, **changed: object) -> str:
    """The path of a file of configs/, with something changed."""
    content = yaml.safe_load((CONFIGS / kind / f"{name}.yaml").read_text("utf-8"))
    file = folder / kind / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(content | changed, sort_keys=False), "utf-8")
    return str(file)


def _through_gateway(threshold: float | None) -> Endpoint:
    def body(ask: Ask, manner: Manner) -> dict[str, Any]:
        made = GENERATE.body(ask, manner)
        if threshold is not None:
            made["sampling_params"]["custom_params"] = {"dllm": {"threshold": threshold}}
        return made

    return replace(GENERATE, body=body)


def _to_engine(threshold: float | None) -> Endpoint:
    """What the gateway makes of it; without a threshold the engine's default is the model's."""

    def body(ask: Ask, manner: Manner) -> dict[str, Any]:
        made = GENERATE.body(ask, manner)
        if threshold is not None:
            made["sampling_params"] |= variants.decided("LowConfidence", {"threshold": threshold})
        return made

    return replace(GENERATE, body=body)


async def _wait(engine: Engine, deadline: float) -> None:
    async with aiohttp.ClientSession() as http:
        await engine.wait_until_up(http, deadline)


def _keep_logs(stack: LocalStack, folder: Path) -> None:
    """`up` removes its own when it ends well."""
    (folder / "up.log").write_text(stack.output(), "utf-8")
    for model, served in stack.served.items():
        (folder / f"{model}.log").write_bytes(served.log.read_bytes())


def _loads(arguments: argparse.Namespace) -> tuple[Load, Load]:
    lengths = (arguments.input, arguments.output)
    return Load(1, arguments.one, *lengths), Load(arguments.concurrency, arguments.many, *lengths)


async def _measure(sides: Sides, arguments: argparse.Namespace, notebook: Notebook) -> None:
    """In the order of what one would miss most, should the time be over."""
    one, many = _loads(arguments)
    bench = _Bench(sides, notebook)
    for _, engine in sides.turns:
        await bench.warm_up(engine)
    stack_and_engine = sides.turns[0]
    await bench.in_turns(stack_and_engine, one, arguments.rounds)
    await bench.in_turns(stack_and_engine, many, 1)
    if sides.alone:
        await bench.warm_up(sides.alone)
        await bench.run(sides.alone, many)
        await bench.run(sides.alone, one)
    for turn in sides.turns[1:]:
        await bench.in_turns(turn, one, arguments.rounds)
        await bench.in_turns(turn, many, arguments.rounds)
    await bench.in_turns(stack_and_engine, many, arguments.rounds - 1, first=1)
    if arguments.more:
        await bench.in_turns(stack_and_engine, replace(many, prompts=arguments.more), 1)


class _Bench:
    def __init__(self, sides: Sides, notebook: Notebook) -> None:
        self._tokenizers = sides.tokenizers
        self._notebook = notebook
        self._plans = sides.plans

    async def in_turns(self, sides: tuple[Side, Side], load: Load, rounds: int, first: int = 0) -> None:
        for number in range(first, first + rounds):
            for side in sides if number % 2 == 0 else reversed(sides):
                await self.run(side, load)

    async def run(self, side: Side, load: Load) -> None:
        self._notebook.write(side, load, await self._send(side, load))

    async def warm_up(self, side: Side) -> None:
        """Compiles what the first requests would wait for."""
        began = time.monotonic()
        await self._send(side, _WARM_UP)
        print(f"{side.model} {side.name}: warm after {time.monotonic() - began:.1f} s", flush=True)

    async def _send(self, side: Side, load: Load) -> result.Result:
        options = load.options(self._tokenizers[side.model])
        if (side.model, load) not in self._plans:
            self._plans[side.model, load] = plan.make(options)
        await _flush(side.engine)
        setup = Setup(
            base_url=side.url,
            endpoint=side.endpoint,
            model=None if side.name == ALONE else side.model,
            stream=True,
            ignore_eos=True,
            stats=False,
            extra={},
            concurrency=load.concurrency,
            warm_up=1,
            timeout_s=600,
            progress=False,
        )
        return await session.run(options, self._plans[side.model, load], setup, Console(stderr=True))


async def _flush(engine: str) -> None:
    """Raises EngineError: it was busy all the time."""
    deadline = time.monotonic() + _FLUSH_S
    async with aiohttp.ClientSession() as http:
        while True:
            async with http.post(f"{engine}/flush_cache") as response:
                if response.ok:
                    return
            if time.monotonic() > deadline:
                raise EngineError(f"{engine} does not empty its cache: {response.status}")
            await asyncio.sleep(0.1)


def show(found: list[Found]) -> None:
    """Medians of the rounds; what the stack adds is the median of the rounds' own differences."""
    for model, load in dict.fromkeys((each.model, each.load) for each in found):
        sides = {each.side: each for each in found if (each.model, each.load) == (model, load)}
        print(f"{model}, {load.concurrency} at a time, {load.prompts} requests of up to", end=" ")
        print(f"{load.input_tokens} and {load.output_tokens} tokens")
        stack, engine, alone = (sides.get(name) for name in (STACK, ENGINE, ALONE))
        heads = ["", *sides]
        rows: list[list[object]] = [
            [name, *(each.median(name) for each in sides.values())] for name in (*RATES, *TIMES)
        ]
        if stack and engine:
            heads.append("stack / engine")
            for name, row in zip((*RATES, *TIMES), rows, strict=True):
                row.append(median(_ratios(stack, engine, name)))
        if stack and alone:
            heads.append("better than one at a time")
            for name, row in zip((*RATES, *TIMES), rows, strict=True):
                ratio = stack.median(name) / alone.median(name)
                row.append(ratio if name in RATES else 1 / ratio)
        table.show(heads, rows)


def _ratios(stack: Found, engine: Found, name: str) -> list[float]:
    return [one[name] / other[name] for one, other in zip(stack.rounds, engine.rounds, strict=False)]


if __name__ == "__main__":
    main()
