"""The command against a whole stack, whose engine is the simulator."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from rich.console import Console

from dllm_stack.bench import plan, result, session, table
from dllm_stack.bench.endpoints import CHAT
from dllm_stack.bench.plan import Options
from dllm_stack.bench.problem import Problem
from dllm_stack.bench.session import Setup
from loadtest.fleet import Fleet, Size
from loadtest.simulator.__main__ import CHECKPOINT
from tests.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

_USUAL = ("Mean", "Median", "P90", "P95", "P99")
_TIMES = ("E2E Latency", "TTFT", "TPOT", "ITL")
# The rows that bench_serving prints (sglang 0.5.23), without those of images and caches.
ROWS = [
    "Backend:",
    "Traffic request rate:",
    "Max request concurrency:",
    "Successful requests:",
    "Benchmark duration (s):",
    "Total input tokens:",
    "Total input text tokens:",
    "Total generated tokens:",
    "Total generated tokens (retokenized):",
    "Request throughput (req/s):",
    "Input token throughput (tok/s):",
    "Output token throughput (tok/s):",
    "Peak output token throughput (tok/s):",
    "Peak concurrent requests:",
    "Total token throughput (tok/s):",
    "Concurrency:",
    *(f"{part} {time} (ms):" for time in _TIMES for part in _USUAL),
    "Max ITL (ms):",
]
BLOCK_MS = 20
BENCH = [sys.executable, "-m", "dllm_stack.cli", "bench", "--tokenizer", str(CHECKPOINT)]
PROMPTS = ["--random-input-len", "40", "--random-output-len", "100"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet() -> AsyncIterator[Fleet]:
    pace = ["--slots", "8", "--block-ms", f"{BLOCK_MS}", "--prefill-ms", "0"]
    # A tenant of its own that the queue turns away.
    bounds = {"DLLM_QUEUE__TENANTS": '{"full": {"max_waiting_jobs": 1}}'}
    async with Fleet(Size(), pace=pace, env=bounds) as fleet:
        yield fleet


async def start(fleet: Fleet, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *BENCH,
        *("--base-url", fleet.gateways[0], "--progress", *arguments),
        env=os.environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def bench(fleet: Fleet, *arguments: str, status: int = 0) -> tuple[str, str]:
    """What it prints."""
    process = await start(fleet, *arguments)
    output, errors = (text.decode() for text in await process.communicate())
    assert process.returncode == status, output + errors
    return output, errors


def row(output: str, name: str) -> str:
    found = re.search(rf"^{re.escape(name)} +(\S+) *$", output, re.MULTILINE)
    assert found is not None, output
    return found[1]


async def test_an_open_loop_of_two_tenants_and_its_files(fleet: Fleet, tmp_path: Path) -> None:
    stem = tmp_path / "folder" / "run"
    output, errors = await bench(
        fleet,
        *(
            *PROMPTS,
            "--num-prompts",
            "60",
            "--request-rate",
            "60",
            "--arrivals",
            "gamma",
            "--burstiness",
            "0.5",
        ),
        *("--tenant", "heavy=3", "--tenant", "light=1", "--output", str(stem)),
    )
    rows = [line.partition(":")[0] + ":" for line in output.splitlines() if re.search(r":  +\S", line)]
    assert rows[: len(ROWS)] == ROWS
    assert row(output, "Successful requests:") == "60"
    assert re.search(r"^heavy simulated +\d+", output, re.MULTILINE)
    assert "60/60" in errors

    saved = result.load(stem.with_suffix(".json"), "A")
    records = saved.records
    assert all(each.generated == each.asked_tokens for each in records)
    assert all(sum(chunk.tokens or 0 for chunk in each.chunks) == each.output_tokens for each in records)
    assert saved.figures.output_tokens == int(row(output, "Total generated tokens:"))
    # Blocks come no faster than the engine makes them.
    assert all(each.latency_s >= len(each.chunks) * BLOCK_MS / 1000 for each in records)
    assert "\n".join(table.lines(saved)) == output.rstrip("\n")

    names = json.loads(stem.with_suffix(".json").read_text())["bench_serving"]
    assert names["completed"] == 60
    assert names["median_ttft_ms"] == pytest.approx(float(row(output, "Median TTFT (ms):")), abs=0.01)
    with stem.with_suffix(".csv").open() as opened:
        lines = list(csv.DictReader(opened))
    assert {line["tenant"] for line in lines} == {"heavy", "light"}
    assert sum(int(line["output_tokens"]) for line in lines) == saved.figures.output_tokens
    assert stem.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    page = stem.with_suffix(".html").read_text()
    assert "<svg" in page
    assert "$" not in page[page.index("<svg") : page.index("</svg>")]  # a formula that nobody has set
    assert "Serving Benchmark Result" in page
    assert not re.search(r"""(src|href|url)\s*[=(]\s*["']?(https?:)?//""", page)


@pytest.mark.parametrize("backend", ["completions", "sglang"])
async def test_a_closed_loop_has_its_concurrency(fleet: Fleet, backend: str) -> None:
    output, _ = await bench(
        fleet,
        *(*PROMPTS, "--num-prompts", "24", "--max-concurrency", "4", "--backend", backend),
        *(("--tokenize-prompt",) if backend == "sglang" else ()),
    )
    assert row(output, "Successful requests:") == "24"
    assert 2.5 < float(row(output, "Concurrency:")) <= 4
    # Random words have as many tokens at the server as here; nothing is added to them.
    assert "Input tokens are the server's count" not in output


async def test_refusals_are_counted_by_their_code(fleet: Fleet) -> None:
    output, _ = await bench(
        fleet,
        # Long answers, so that all have come before a slot is free again.
        *("--random-input-len", "40", "--random-output-len", "1500", "--random-range-ratio", "1"),
        *("--num-prompts", "40", "--tenant", "full=1", "--no-stream", "--warmup-requests", "0"),
    )
    refused = int(row(output, "Failed requests:"))
    assert 0 < refused < 40
    assert row(output, "  429 queue_full:") == str(refused)
    assert int(row(output, "Successful requests:")) == 40 - refused


async def test_ctrl_c_ends_it_with_what_was_measured(fleet: Fleet) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"{fleet.simulators[0]}/totals") as response:
        before = (await response.json())["completed"]
    process = await start(
        fleet,
        *("--random-output-len", "100", "--random-range-ratio", "1", "--random-input-len", "10"),
        *("--num-prompts", "1000", "--max-concurrency", "4"),
    )

    async def some_are_answered() -> bool:
        async with aiohttp.ClientSession() as http, http.get(f"{fleet.simulators[0]}/totals") as response:
            return bool((await response.json())["completed"] > before + 8)

    await eventually(some_are_answered)
    process.send_signal(signal.SIGINT)
    output, _ = (text.decode() for text in await process.communicate())
    assert process.returncode == 130
    answered = int(row(output, "Successful requests:"))
    assert 0 < answered < 1000
    assert row(output, "Broken off by you:") == "4"
    assert f"Interrupted: {answered} of 1000 requests are in these figures." in output


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_url": "http://127.0.0.1:9"}, "--base-url: http://127.0.0.1:9 does not answer"),
        ({"model": "gpt"}, "--model: the server has no gpt; it has simulated"),
        ({"extra": {"mood": 1}}, "No warm-up request was answered: 400 unsupported_parameter"),
    ],
)
async def test_what_is_wrong_with_the_server_is_told(
    fleet: Fleet, changes: dict[str, Any], message: str
) -> None:
    values: dict[str, Any] = {
        "base_url": fleet.gateways[0],
        "endpoint": CHAT,
        "model": None,
        "stream": True,
        "ignore_eos": True,
        "stats": None,
        "extra": {},
        "concurrency": None,
        "warm_up": 1,
        "timeout_s": 100.0,
        "progress": False,
    }
    options = Options(tokenizer=CHECKPOINT, num_prompts=2)
    planned = plan.make(options)
    with pytest.raises(Problem) as told:
        await session.run(options, planned, Setup(**(values | changes)), Console())
    assert str(told.value).startswith(message)


async def test_a_wrong_option_ends_it_with_status_2(fleet: Fleet) -> None:
    output, errors = await bench(fleet, *PROMPTS, "--output", "/proc/none/run", status=2)
    assert output == ""
    assert errors.startswith("Error: --output: /proc/none/run")


async def test_a_run_that_does_not_begin_leaves_no_file(fleet: Fleet, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text("{}")
    for name in ("new", "kept"):
        await bench(fleet, *PROMPTS, "--model", "none", "--output", str(tmp_path / name), status=2)
    assert os.listdir(tmp_path) == ["kept.json"]
    assert kept.read_text() == "{}"
