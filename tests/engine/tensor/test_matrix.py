"""Every way of decoding on one rank and on two, alone and mixed, on both SGLangs: make show-tensor."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from dllm_stack.decoding import Decision, EngineOptions
from dllm_stack.local.service import free_port
from tests.engine.decoding.plain import PlainAnswer
from tests.engine.decoding.requests import prompt
from tests.engine.decoding.test_engine import PROMPTS, TOKENS, ask, body
from tests.engine.running import INSTALLED, OLDEST, START_S, engine_process, wait_until_up
from worker.engine import catalog

pytestmark = [
    pytest.mark.skipif("DLLM_TEST_TENSOR" not in os.environ, reason="takes minutes: make show-tensor"),
    pytest.mark.timeout(3 * START_S),
]
DIVERGENT = Path(__file__).with_name("divergent.py")


class Answers:
    """Of one engine to all prompts, one by one and then all at once."""

    def __init__(self, url: str) -> None:
        self.alone, self.mixed = asyncio.run(self._ask(url))

    async def _ask(self, url: str) -> tuple[list[PlainAnswer], list[PlainAnswer]]:
        async with httpx.AsyncClient(base_url=url, timeout=600) as engine:
            alone = [await ask(engine, ids, options) for ids, options in PROMPTS]
            return alone, list(await asyncio.gather(*(ask(engine, ids, options) for ids, options in PROMPTS)))


@pytest.mark.parametrize("sglang", [OLDEST, INSTALLED])
def test_two_ranks_answer_as_one(
    model_folder: Path, tmp_path: Path, sglang: str, record: Callable[[str], None]
) -> None:
    answers: dict[int, Answers] = {}
    dllm = catalog.load_model("tiny-llada2").dllm
    assert dllm is not None
    dllm = dllm.model_copy(update={"algorithms": {"Divergent": DIVERGENT}})
    for ranks in (1, 2):
        folder, port = tmp_path / str(ranks), free_port()
        folder.mkdir()
        url, log = f"http://127.0.0.1:{port}", folder / "engine.log"
        with engine_process(
            model_folder, port, folder, dllm, sglang=sglang, tp=ranks, check_ranks=True
        ) as process:
            wait_until_up(process, url, log)
            answers[ranks] = Answers(url)
            if ranks == 2:
                said, down_s = disagreement(url, log, process.wait)
    one, two = answers[1], answers[2]
    record(f"SGLang {sglang}, float32 on a CPU, {len(PROMPTS)} prompts of 1 to 99 tokens, {TOKENS} each:")
    record("| way of decoding | prompts | ids as TP 1, alone | in a mixed batch | forwards, steps, edits |")
    record("|---|---|---|---|---|")
    rows: dict[str, list[int]] = defaultdict(list)
    for number, (_, options) in enumerate(PROMPTS):
        rows[named(options)].append(number)
    for name, numbers in rows.items():
        alone = sum(two.alone[n].token_ids == one.alone[n].token_ids for n in numbers)
        mixed = sum(two.mixed[n].token_ids == one.alone[n].token_ids for n in numbers)
        whole = sum(two.mixed[n] == two.alone[n] == one.mixed[n] == one.alone[n] for n in numbers)
        record(f"| {name} | {len(numbers)} | {alone} | {mixed} | {whole} |")
    record(f"an algorithm that commits another token on rank 1: the engine is down after {down_s:.1f} s:")
    record(f"    {said}")
    assert two.alone == one.alone
    assert two.mixed == one.mixed == one.alone


def named(options: EngineOptions) -> str:
    decision, sampling = options.decision, options.sampling
    assert decision is not None
    parts = [f"{name} {value}" for name, value in decision.parameters.items()]
    if sampling.temperature:
        parts.append(f"drawn at {sampling.temperature}, seed {sampling.seed}")
    return ", ".join([decision.algorithm, *parts])


def disagreement(url: str, log: Path, wait: Callable[[float], int]) -> tuple[str, float]:
    """What the engine says when its ranks decode differently, and how long it lives on, in seconds."""
    wrong = EngineOptions(decision=Decision(algorithm="Divergent"))
    began = time.monotonic()
    with pytest.raises(httpx.TransportError):
        httpx.post(f"{url}/generate", json=body(prompt(1, 8), wrong, TOKENS), timeout=600)
    wait(600)
    took = time.monotonic() - began
    found = re.search(r"RanksDisagree: (.*)", log.read_text(errors="replace"))
    assert found is not None, log.read_text(errors="replace")[-4000:]
    assert re.search(r"rank 0 and rank 1 .* request \w+: token \d+ is 100 and 101$", found[1])
    return found[1], took
