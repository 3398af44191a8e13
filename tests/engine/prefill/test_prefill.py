"""Prompts of many blocks a forward, in real schedulers of both SGLangs, against stock's block by block."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.prefill import scenarios
from tests.engine.running import INSTALLED, OLDEST, sglang_environment

pytestmark = pytest.mark.timeout(700)  # an engine's start included

_NO_PREFIXES = {"disable_radix_cache": True, "page_size": 1}
# The version, its arguments, and the longest prompt.
VARIANTS = {
    "installed": (INSTALLED, {}, 1000),
    "oldest, no prefix cache": (OLDEST, _NO_PREFIXES, 500),
}


@pytest.fixture(scope="module", params=VARIANTS)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    version, server_args, longest = VARIANTS[request.param]
    folder = tmp_path_factory.mktemp("prefill")
    root = Path(__file__).parents[3]
    environment = os.environ | sglang_environment(version)
    environment["PYTHONPATH"] += f"{os.pathsep}{root}"
    ended = subprocess.run(
        [sys.executable, "-m", scenarios.__name__, str(folder), json.dumps(server_args), str(longest)],
        env=environment,
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result | {"longest": longest}


def test_what_is_configured_is_in_force(seen: dict[str, Any]) -> None:
    assert seen["in_force"] == [scenarios.ALONE, scenarios.MIXED]
    assert seen["slots"] == scenarios.SLOTS


@pytest.mark.parametrize("algorithm", scenarios.ALGORITHMS)
def test_answers_and_kv_are_those_of_stock(seen: dict[str, Any], algorithm: str) -> None:
    got = seen[algorithm]
    assert got["alone"] == got["stock"]
    assert got["together"] == got["stock"]
    assert got["kv"] < 1e-5
    assert got["free"] == 0


def test_a_prompt_takes_as_many_rounds_as_its_rows_need(seen: dict[str, Any]) -> None:
    blocks, answer = seen["longest"] // scenarios.BLOCK, seen["LowConfidence"]["rounds"]
    needed = -(-blocks // scenarios.ALONE)
    assert answer["stock"] - answer["ours"] == blocks - needed


def test_rows_stay_within_their_limits_and_no_stream_waits_for_a_prompt(seen: dict[str, Any]) -> None:
    rounds = seen["LowConfidence"]["rows"]
    assert any(denoised and prompts for denoised, prompts, _ in rounds)
    for denoised, prompts, left_out in rounds:
        assert prompts <= (scenarios.MIXED if denoised else scenarios.ALONE)
        assert left_out == 0


def test_an_abort_at_any_moment_leaves_no_kv_behind(seen: dict[str, Any]) -> None:
    assert set(seen["aborts"]["lost"]) == {0}


def test_more_than_the_kv_cache_holds_is_admitted_bit_by_bit(seen: dict[str, Any]) -> None:
    assert seen["pressure"]["needed"] > scenarios.POOL
    assert seen["pressure"]["seen"] == seen["pressure"]["expected"]


def test_a_passed_self_test_says_nothing(seen: dict[str, Any]) -> None:
    in_force = {"alone": scenarios.ALONE, "mixed": scenarios.MIXED, "fallback": None}
    for name in ("none", "again"):
        assert seen["fallbacks"][name] == {"state": in_force, "warnings": []}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("hook", "no place for the hooks on sglang.srt.dllm.mixin.scheduler"),
        ("backend", "attention backend other is not known"),
        ("deterministic", "--enable-deterministic-inference asks"),
        ("stale KV", "expected at most 0.0001"),
    ],
)
def test_a_fault_leaves_stock_behaviour_and_a_warning(seen: dict[str, Any], fault: str, words: str) -> None:
    state, warnings = seen["fallbacks"][fault]["state"], seen["fallbacks"][fault]["warnings"]
    assert (state["alone"], state["mixed"]) == (0, 0)
    assert words in state["fallback"]
    assert len(warnings) == 1
    assert state["fallback"] in warnings[0]


def test_after_a_fault_answers_are_right(seen: dict[str, Any]) -> None:
    assert seen["fallbacks"]["answer"] == seen["fallbacks"]["expected"]
    assert seen["fallbacks"]["free"] == 0
