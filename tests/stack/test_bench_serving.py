"""SGLang's own load generator drives the gateway and prints its table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loadtest.local_stack import LocalStack
from tests.stack.conditions import DIFFUSION
from worker.cpu import engine_environment

LIMIT_S = 300
PROMPTS = 6
BACKENDS = ["sglang", "sglang-oai", "sglang-oai-chat"]

pytestmark = pytest.mark.timeout(2 * LIMIT_S)  # the stack's start included

# `python -m sglang.bench_serving` with each of the lists of arguments; one process, since SGLang takes a
# while to import.
RUNS = """
import json, runpy, sys
for arguments in json.load(sys.stdin):
    sys.argv = ["sglang.bench_serving", *arguments]
    runpy.run_module("sglang.bench_serving", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def results(running_stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The file that each backend's run has left."""
    running_stack.wait_for_workers()
    folder = tmp_path_factory.mktemp("bench_serving")
    files = {backend: folder / f"{backend}.jsonl" for backend in BACKENDS}
    model = DIFFUSION
    usual = [
        "--base-url",
        running_stack.gateway_url,
        "--model",
        model,
        "--tokenizer",
        running_stack.checkpoint,
    ]
    usual += ["--dataset-name", "random-ids", "--random-input-len", "48", "--random-output-len", "48"]
    usual += ["--num-prompts", str(PROMPTS), "--max-concurrency", "3"]
    # Its own requests to /generate name no model, and there are two.
    usual += ["--extra-request-body", json.dumps({"model": DIFFUSION})]
    runs = [["--backend", backend, *usual, "--output-file", str(file)] for backend, file in files.items()]
    # The load generator imports SGLang, which needs on a CPU what the engine needs.
    # Offline, or it waits for a hub that it needs nothing of.
    environment = os.environ | engine_environment() | {"HF_HUB_OFFLINE": "1"}
    run = subprocess.run(
        [sys.executable, "-c", RUNS],
        input=json.dumps(runs),
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S - 20,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("Serving Benchmark Result") == len(BACKENDS)
    return files


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_completes(results: dict[str, Path], backend: str, record: Callable[[str], None]) -> None:
    figures = json.loads(results[backend].read_text().splitlines()[-1])
    assert figures["completed"] == PROMPTS
    assert figures["total_output_tokens"] > 0
    # No time to first token: to random ids the model answers end tokens, which are no text.
    record(
        f"bench_serving --backend {backend}: {figures['completed']} of {PROMPTS} completed, "
        f"{figures['output_throughput']:.0f} tok/s, "
        f"median end to end {figures['median_e2e_latency_ms']:.0f} ms"
    )
