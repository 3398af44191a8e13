"""What a denoise step costs: `python -m loadtest.gpu.steps --out steps.json`.

Stock's engines of both algorithms and one of ours run side by side, and are asked in turns, so that
whatever drifts touches all of them. Figures are medians of the rounds, and per forward:

- run: in the algorithm's hands; of it, step: without the model's forward;
- gap: from one run to the next, SGLang's scheduler;
- tok/s: of whole requests, their prompts included; denoising: from the first step on;
- GPU busy: the share of run and gap in which it computes, of rounds that are profiled afterwards.

`--against vectorized` compares with stock's `vectorized_decoding`, an option of its JointThreshold;
`--against deterministic` compares ours with ours under SGLang's flag for deterministic inference;
`--against moe` compares ours with SGLang's own configurations of its kernel for experts with ours with those
in the folder `--moe`; in every other comparison both sides have SGLang's own.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from statistics import mean, median
from typing import Any

import aiohttp

from loadtest.gpu import engine, table, variants
from loadtest.gpu.engine import Engine, EngineError, Variant
from loadtest.gpu.hooks import kernels
from loadtest.gpu.hooks.kernels import Kernels
from loadtest.gpu.hooks.rounds import Round

_NEARLY_ALL = 0.9


_CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "moe"


@dataclass(frozen=True)
class Measurement:
    """Of one batch. `_ms` are per forward, of the rounds in which nearly all requests were denoised."""

    run_ms: float
    step_ms: float
    gap_ms: float
    tokens_per_s: float
    denoised_per_s: float
    forwards: int


@dataclass(frozen=True)
class Case:
    """One row of the table, for one engine.

    Attributes:
        kernels: what the GPU does in a forward.
    """

    algorithm: str
    batch: int
    variant: str
    rounds: list[Measurement]
    kernels: Kernels | None

    def median(self, name: str) -> float:
        return float(median(getattr(each, name) for each in self.rounds))

    @property
    def busy(self) -> str:
        """Kernels take as long with the profiler as without, but their launches do not."""
        if self.kernels is None:
            return ""
        return f"{self.kernels.busy_ms / (self.median('run_ms') + self.median('gap_ms')):.0%}"


@dataclass(frozen=True)
class Load:
    """
    Attributes:
        prompt, output: tokens of each request.
    """

    algorithms: list[str]
    batches: list[int]
    prompt: int
    output: int
    rounds: int
    seconds: float
    profiled: list[int]


def main() -> None:
    parser = table.parser("steps", __doc__)
    parser.add_argument("--algorithms", nargs="+", default=list(variants.ALGORITHMS))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8, 32, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=inf, help="no new round after so long")
    parser.add_argument("--prompt", type=int, default=512, help="tokens; whole blocks")
    parser.add_argument("--output", type=int, default=160, help="tokens of an answer")
    parser.add_argument("--profiled", nargs="*", type=int, default=[1, 32], help="batches to profile")
    parser.add_argument("--against", choices=["stock", "vectorized", "deterministic", "moe"], default="stock")
    parser.add_argument("--moe", type=Path, default=_CONFIGS, help="folder of configurations")
    parser.add_argument("--only", choices=["baseline", "ours"], help="one side of the comparison")
    arguments = parser.parse_args()
    names = ("algorithms", "batches", "prompt", "output", "rounds", "seconds", "profiled")
    load = Load(**{name: getattr(arguments, name) for name in names})
    baselines = _baselines(arguments.against, load) if arguments.only != "ours" else {}
    moe = _with_files(arguments.moe) if arguments.against == "moe" else None
    ours = [variants.ours(max(load.batches), moe=moe)] if arguments.only != "baseline" else []
    with table.machine(arguments) as machine:
        try:
            distinct = {each.name: each for each in [*baselines.values(), *ours]}
            with engine.started(machine, list(distinct.values())) as engines:
                cases = asyncio.run(_measure(machine.model, engines, baselines, load))
        except EngineError as error:
            sys.exit(str(error))
    arguments.out.write_text(json.dumps([asdict(case) for case in cases], indent=1) + "\n", "utf-8")
    _show(cases)


def _baselines(against: str, load: Load) -> dict[str, Variant]:
    """By algorithm, what ours is compared with."""
    slots = max(load.batches)
    match against:
        case "stock":
            return {algorithm: variants.stock(algorithm, slots) for algorithm in load.algorithms}
        case "vectorized":
            return {"JointThreshold": variants.stock("JointThreshold", slots, vectorized_decoding=True)}
        case "deterministic":
            # Without prompt rows: flashinfer hides a block's later tokens from its earlier ones under this
            # flag, except in the graphs that denoising and stock's prefill run in.
            same = variants.ours(slots, prompt_rows=0, mixed_prompt_rows=0, deterministic=True)
            return dict.fromkeys(load.algorithms, same)
        case "moe":
            return dict.fromkeys(load.algorithms, replace(variants.ours(slots), name="without-files"))
    raise ValueError(against)


def _with_files(folder: Path) -> Path:
    if not any(folder.glob("triton_*/*.json")):
        sys.exit(f"{folder} has no configurations: python -m loadtest.gpu.moe makes them")
    return folder


async def _measure(
    model: Path, engines: Sequence[Engine], baselines: dict[str, Variant], load: Load
) -> list[Case]:
    found: dict[tuple[str, int, str], list[Measurement]] = {}
    profiles: dict[tuple[str, int, str], Kernels | None] = {}
    asked = [
        (algorithm, batch, each)
        for algorithm in load.algorithms
        for batch in load.batches
        for each in engines
        if each.variant == baselines.get(algorithm) or each.variant.name == "ours"
    ]
    async with aiohttp.ClientSession() as http:
        for algorithm, batch, each in asked:  # to warm up
            await ask(http, model, each, algorithm, batch, load, "warm")
        deadline = time.monotonic() + load.seconds
        for number in range(load.rounds):
            if number and time.monotonic() > deadline:
                break
            for algorithm, batch, each in asked if number % 2 == 0 else reversed(asked):
                one = await ask(http, model, each, algorithm, batch, load, number)
                found.setdefault((algorithm, batch, each.variant.name), []).append(one)
                print(f"{number} {algorithm} {batch} {each.variant.name} {one}", file=sys.stderr, flush=True)
        for algorithm, batch, each in asked:
            if batch in load.profiled:
                await ask(http, model, each, algorithm, batch, load, "profile")
                profiles[algorithm, batch, each.variant.name] = each.kernels()
    return [Case(*key, measured, profiles.get(key)) for key, measured in found.items()]


async def ask(
    http: aiohttp.ClientSession,
    model: Path,
    asked: Engine,
    algorithm: str,
    batch: int,
    load: Load,
    turn: object,
) -> Measurement:
    prompts = [engine.prompt(model, load.prompt, (turn, batch, row)) for row in range(batch)]
    sampling: dict[str, Any] = {"temperature": 0, "max_new_tokens": load.output, "ignore_eos": True}
    if asked.variant.extension:
        sampling |= variants.decided(algorithm, variants.ALGORITHMS[algorithm])
    ids = [kernels.request_id(load.prompt, row) for row in range(batch)] if turn == "profile" else None
    begin = time.perf_counter()
    answers = await asked.generate(http, prompts, sampling, ids)
    end = time.perf_counter()
    tokens = sum(answer["meta_info"]["completion_tokens"] for answer in answers)
    return _of(asked.rounds(begin, end), batch, load.prompt, tokens, begin, end)


def _of(
    rounds: Sequence[Round], batch: int, prompt: int, tokens: int, begin: float, end: float
) -> Measurement:
    denoising = [each for each in rounds if each.prefix >= prompt]
    full = [each.rows >= _NEARLY_ALL * batch and each.prefix >= prompt for each in rounds]
    runs = [each for each, is_full in zip(rounds, full, strict=True) if is_full]
    gaps = [
        after.begin_s - before.end_s
        for before, after, first, second in zip(rounds, rounds[1:], full, full[1:], strict=False)
        if first and second
    ]
    if not gaps:
        raise EngineError(f"{len(rounds)} rounds, {len(runs)} with nearly all of {batch} requests: too few")
    forwards = sum(len(each.forwards_s) for each in runs)
    run = sum(each.end_s - each.begin_s for each in runs)
    forward = sum(sum(each.forwards_s) for each in runs)
    return Measurement(
        run_ms=1000 * run / forwards,
        step_ms=1000 * (run - forward) / forwards,
        gap_ms=1000 * mean(gaps) * len(runs) / forwards,
        tokens_per_s=tokens / (end - begin),
        denoised_per_s=tokens / (end - denoising[0].begin_s),
        forwards=forwards,
    )


def _show(cases: Sequence[Case]) -> None:
    by_row: dict[tuple[str, int], list[Case]] = {}
    for case in cases:
        by_row.setdefault((case.algorithm, case.batch), []).append(case)
    heads = ["algorithm", "batch", "engine", "run ms", "step ms", "gap ms", "tok/s", "denoising tok/s"]
    figures = ("run_ms", "step_ms", "gap_ms")
    rates = ("tokens_per_s", "denoised_per_s")
    rows: list[list[object]] = []
    for (algorithm, batch), some in by_row.items():
        for case in some:
            # The baseline's engine stands first.
            ratios = [case.median(rate) / some[0].median(rate) for rate in rates]
            rows.append(
                [
                    *(algorithm, batch, case.variant),
                    *(case.median(figure) for figure in figures),
                    *(f"{case.median(rate):.0f}" for rate in rates),
                    *(["", ""] if case is some[0] else ratios),
                    case.busy,
                ]
            )
    table.show([*heads, "x tok/s", "x denoising", "GPU busy"], rows)
    for case in cases:
        if case.kernels is not None:
            print(
                f"{case.algorithm}, batch {case.batch}, {case.variant}: "
                f"the GPU is busy {case.kernels.busy_ms:.2f} ms a forward"
            )
            table.show(
                ["kernel", "calls a forward", "ms a forward"],
                [[kernel.name[:90], kernel.calls, f"{kernel.ms:.3f}"] for kernel in case.kernels.top],
            )


if __name__ == "__main__":
    main()
