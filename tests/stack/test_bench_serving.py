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
from worker.cpu import engine_environment

PROMPTS = 6


@pytest.mark.timeout(240)
@pytest.mark.parametrize("backend", ["sglang", "sglang-oai", "sglang-oai-chat"])
def test_it_completes(
    stack: LocalStack, model: str, tmp_path: Path, backend: str, record: Callable[[str], None]
) -> None:
    result = tmp_path / "result.jsonl"
    command = [sys.executable, "-m", "sglang.bench_serving", "--backend", backend]
    command += ["--base-url", stack.gateway_url, "--model", model, "--tokenizer", stack.checkpoint]
    command += ["--dataset-name", "random-ids", "--random-input-len", "48", "--random-output-len", "48"]
    command += ["--num-prompts", str(PROMPTS), "--max-concurrency", "3", "--output-file", str(result)]
    # Its own requests to /generate name no model, and there are two.
    command += ["--extra-request-body", json.dumps({"model": model})]
    # The load generator imports SGLang, which needs on a CPU what the engine needs.
    # Offline, or it waits for a hub that it needs nothing of.
    environment = os.environ | engine_environment() | {"HF_HUB_OFFLINE": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=220, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Serving Benchmark Result" in run.stdout
    figures = json.loads(result.read_text().splitlines()[-1])
    assert figures["completed"] == PROMPTS
    assert figures["total_output_tokens"] > 0
    # No time to first token: to random ids the model answers end tokens, which are no text.
    record(
        f"bench_serving --backend {backend}: {figures['completed']} of {PROMPTS} completed, "
        f"{figures['output_throughput']:.0f} tok/s, "
        f"median end to end {figures['median_e2e_latency_ms']:.0f} ms"
    )
