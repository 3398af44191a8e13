"""`dllm-stack bench` beside the field's load generators: `python -m loadtest.bench_against`.

The same conversations go to the same gateway, behind which is a simulator whose pace is steady, from each
client in turns, every other round the other way round. Prints each figure's median over the rounds, and how
far ours is from theirs: the median of each round's own difference, in which both saw the same minute of the
machine. Exit status 1 says that throughput, TTFT or the time between tokens is more than 3 % from
`sglang.bench_serving`'s. A run of ours is put through bench_serving's own code, too: are the figures of the
same times the same?
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dllm_stack.bench import result
from dllm_stack.bench.tokenizer import Tokenizer
from loadtest.fleet import POOL, Fleet, Size
from loadtest.simulator.__main__ import CHECKPOINT
from worker.cpu import engine_environment

AIPERF = Path(__file__).resolve().parent.parent / ".venv/clients/aiperf/bin/aiperf"
PACE = ["--slots", "16", "--block-ms", "100"]
PROMPT_TOKENS, OUTPUT_TOKENS = (50, 200), 150
LIMIT = 0.03
# What imports SGLang needs on a CPU what the engine needs; and no hub.
SGLANG = engine_environment() | {"HF_HUB_OFFLINE": "1"}
OURS = "dllm-stack bench"
RATE, TTFT, MEAN_TTFT, TPOT, ITL, GAP, E2E = (
    "output tok/s",
    "TTFT, median, ms",
    "TTFT, mean, ms",
    "TPOT, mean, ms",
    "ITL, mean, ms",
    "between chunks, mean, ms",
    "end to end, mean, ms",
)
HELD = (RATE, TTFT, TPOT, ITL, GAP)  # what has to be within the limit

Figures = dict[str, float]


@dataclass(frozen=True)
class Load:
    """Files of the same prompts, one as ShareGPT has them, one for aiperf."""

    url: str
    conversations: Path
    lines: Path
    requests: int
    concurrency: int


@dataclass(frozen=True)
class Tool:
    """
    Attributes:
        endpoint: "generate" or "chat"; tools of the same one are compared.
        command: what is run, to write into a folder.
        read: the figures in that folder.
    """

    name: str
    endpoint: str
    command: Callable[[Load, Path], list[str]]
    read: Callable[[Path], Figures]
    env: dict[str, str] = field(default_factory=dict)


def ours(endpoint: str) -> Tool:
    def command(load: Load, folder: Path) -> list[str]:
        return [
            *(sys.executable, "-m", "dllm_stack.cli", "bench", "--backend", endpoint),
            *("--tokenizer", str(CHECKPOINT), "--output", str(folder / "run")),
            *_asked(load),
        ]

    def read(folder: Path) -> Figures:
        found = result.load(folder / "run.json", "").figures
        spreads = {TPOT: found.tpot_ms, ITL: found.itl_ms, GAP: found.blocks.chunk_gap_ms, E2E: found.e2e_ms}
        assert found.ttft_ms is not None
        figures = {RATE: found.output_rate, TTFT: found.ttft_ms.median, MEAN_TTFT: found.ttft_ms.mean}
        return figures | {name: spread.mean for name, spread in spreads.items() if spread is not None}

    return Tool(OURS, endpoint, command, read)


def bench_serving(endpoint: str) -> Tool:
    backend = {"generate": "sglang", "chat": "sglang-oai-chat"}[endpoint]

    def command(load: Load, folder: Path) -> list[str]:
        return [
            *(sys.executable, "-m", "sglang.bench_serving", "--backend", backend, "--disable-tqdm"),
            *("--model", POOL, "--tokenizer", str(CHECKPOINT), "--output-file", str(folder / "run.jsonl")),
            *_asked(load),
        ]

    def read(folder: Path) -> Figures:
        found = json.loads((folder / "run.jsonl").read_text())
        # To a chat it counts each chunk once: its "inter-token latency" is then the time between chunks.
        between = ITL if endpoint == "generate" else GAP
        return {
            RATE: found["output_throughput"],
            TTFT: found["median_ttft_ms"],
            MEAN_TTFT: found["mean_ttft_ms"],
            TPOT: found["mean_tpot_ms"],
            between: found["mean_itl_ms"],
            E2E: found["mean_e2e_latency_ms"],
        }

    return Tool("bench_serving", endpoint, command, read, SGLANG)


def aiperf() -> Tool:
    def command(load: Load, folder: Path) -> list[str]:
        body = {"ignore_eos": True, "max_completion_tokens": OUTPUT_TOKENS, "temperature": 0.0}
        return [
            *(str(AIPERF), "profile", "--model", POOL, "--url", load.url, "--endpoint-type", "chat"),
            *("--streaming", "--use-server-token-count", "--tokenizer", str(CHECKPOINT), "--ui", "none"),
            *("--input-file", str(load.lines), "--custom-dataset-type", "single_turn"),
            *("--request-count", str(load.requests), "--concurrency", str(load.concurrency)),
            *("--warmup-request-count", "1", "--extra-inputs", json.dumps(body)),
            *("--output-artifact-dir", str(folder)),
        ]

    def read(folder: Path) -> Figures:
        found = json.loads((folder / "profile_export_aiperf.json").read_text())
        # Its inter-token latency is what others call TPOT.
        return {
            RATE: found["output_token_throughput"]["avg"],
            TTFT: found["time_to_first_token"]["p50"],
            MEAN_TTFT: found["time_to_first_token"]["avg"],
            TPOT: found["inter_token_latency"]["avg"],
            GAP: found["inter_chunk_latency"]["avg"],
            E2E: found["request_latency"]["avg"],
        }

    return Tool("aiperf", "chat", command, read)


def _asked(load: Load) -> list[str]:
    """In the options that ours and bench_serving have in common."""
    return [
        *("--base-url", load.url, "--dataset-name", "sharegpt", "--dataset-path", str(load.conversations)),
        *("--sharegpt-output-len", str(OUTPUT_TOKENS), "--num-prompts", str(load.requests)),
        *("--max-concurrency", str(load.concurrency)),
    ]


def write_prompts(folder: Path, count: int) -> tuple[Path, Path]:
    """Random words, the same each time."""
    tokenizer, random = Tokenizer(CHECKPOINT), np.random.default_rng(1)
    texts = [
        tokenizer.text_of(
            [int(word) for word in random.choice(tokenizer.words, random.integers(*PROMPT_TOKENS))]
        )[0]
        for _ in range(count)
    ]
    turns = [[{"from": "human", "value": text}, {"from": "gpt", "value": "As you say."}] for text in texts]
    conversations, lines = folder / "conversations.json", folder / "lines.jsonl"
    conversations.write_text(json.dumps([{"conversations": each} for each in turns]))
    lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return conversations, lines


async def output_of(command: list[str], env: dict[str, str]) -> str:
    """
    Raises:
        RuntimeError: it failed; the message is what it printed.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        env=os.environ | env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{output.decode()}")
    return output.decode()


async def figures(tool: Tool, load: Load, folder: Path) -> Figures:
    await output_of(tool.command(load, folder), tool.env)
    return tool.read(folder)


async def definitions(folder: Path) -> str:
    """What bench_serving's own code says of a run of ours."""
    command = [sys.executable, "-m", "loadtest.bench_definitions", str(folder / "run.json")]
    return (await output_of(command, SGLANG)).splitlines()[-1]


def compared(found: dict[tuple[str, str], list[Figures]]) -> bool:
    """Prints it. Whether what has to be is within the limit."""
    within = True
    for endpoint in dict.fromkeys(endpoint for _, endpoint in found):
        sides = {name: rounds for (name, of_it), rounds in found.items() if of_it == endpoint}
        mine = sides.pop(OURS)
        print(f"\n{'/' + endpoint:<28}{'ours':>10}" + "".join(f"{name:>16}{'':>9}" for name in sides))
        for figure in mine[0]:
            row = f"{figure:<28}{_median(mine, figure):>10.2f}"
            for name, theirs in sides.items():
                if figure not in theirs[0]:
                    row += f"{'':>16}{'':>9}"
                    continue
                apart = statistics.median(_apart(mine, theirs, figure))
                held = name == "bench_serving" and figure in HELD
                within &= not held or abs(apart) <= LIMIT
                row += f"{_median(theirs, figure):>16.2f}{apart:>+8.1%}{'*' if held else ' '}"
            print(row)
    print(f"\n* has to be within {LIMIT:.0%}: " + ("it is." if within else "it is not."))
    print(
        f"Such differences spread over up to {_unrest(found):.1%} in the middle half of the rounds: "
        "less than that is not seen here."
    )
    return within


def _apart(mine: list[Figures], theirs: list[Figures], figure: str) -> list[float]:
    """Of each round."""
    return [one[figure] / other[figure] - 1 for one, other in zip(mine, theirs, strict=True)]


def _unrest(found: dict[tuple[str, str], list[Figures]]) -> float:
    """How wide the middle half of the rounds' differences is."""
    widest = 0.0
    for (name, endpoint), theirs in found.items():
        if name == "bench_serving":
            mine = found[OURS, endpoint]
            for figure in mine[0].keys() & theirs[0].keys() & set(HELD):
                low, high = np.percentile(_apart(mine, theirs, figure), (25, 75))
                widest = max(widest, float(high - low))
    return widest


def _median(rounds: list[Figures], figure: str) -> float:
    return statistics.median(each[figure] for each in rounds)


async def run(rounds: int, requests: int, concurrency: int) -> bool:
    tools = [ours("generate"), bench_serving("generate"), ours("chat"), bench_serving("chat")]
    if AIPERF.exists():
        tools.append(aiperf())
    else:
        print(f"aiperf is left out: there is no {AIPERF}")
    found: dict[tuple[str, str], list[Figures]] = {(tool.name, tool.endpoint): [] for tool in tools}
    with tempfile.TemporaryDirectory(prefix="against-") as name:
        conversations, lines = write_prompts(Path(name), requests)
        async with Fleet(Size(), pace=PACE) as fleet:
            asked = Load(fleet.gateways[0], conversations, lines, requests, concurrency)
            print(f"{rounds} rounds of {requests} requests, {concurrency} at a time, {OUTPUT_TOKENS} tokens")
            for number in range(rounds):
                for tool in tools if number % 2 == 0 else reversed(tools):
                    folder = Path(name) / f"{number}-{tool.name}-{tool.endpoint}"
                    folder.mkdir()
                    seen = await figures(tool, asked, folder)
                    found[tool.name, tool.endpoint].append(seen)
                    told = ", ".join(f"{each} {seen[each]:.1f}" for each in (RATE, TTFT))
                    print(f"round {number + 1}: {tool.name:<16} {tool.endpoint:<8} {told}", flush=True)
        print(await definitions(Path(name) / f"0-{OURS}-generate"))
    return compared(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)  # as often the one way round as the other
    parser.add_argument("--requests", type=int, default=120)
    parser.add_argument("--concurrency", type=int, default=8)
    arguments: dict[str, Any] = vars(parser.parse_args())
    raise SystemExit(0 if asyncio.run(run(**arguments)) else 1)


if __name__ == "__main__":
    main()
