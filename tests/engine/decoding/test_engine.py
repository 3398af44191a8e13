"""Real SGLang with our decoder: many ways of decoding in one batch, each as the plain algorithm says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from dllm_stack.decoding import Decision, EngineOptions, Sampling
from tests.engine.decoding.plain import PlainAnswer, PlainDecoder
from tests.engine.decoding.requests import MANY, SAMPLED, prompt
from tests.engine.running import OWN
from worker.dllm.algorithms.table import AlgorithmTable
from worker.dllm.requests import EDITS, FORWARDS, STEPS

TOKENS, FEW_TOKENS = 40, 16  # of an answer
pytestmark = pytest.mark.timeout(700)  # an engine that starts on a busy machine
PROMPTS = [(prompt(number, 1 + 7 * number % 100), MANY[number % len(MANY)]) for number in range(50)]


def body(ids: list[int], options: EngineOptions, tokens: int, **more: Any) -> dict[str, Any]:
    sampling: dict[str, Any] = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    sampling |= {"custom_params": {"dllm": msgspec.to_builtins(options)}}
    return {"input_ids": ids, "sampling_params": sampling | more}


async def ask(
    engine: httpx.AsyncClient, ids: list[int], options: EngineOptions, tokens: int = TOKENS
) -> PlainAnswer:
    response = await engine.post("/generate", json=body(ids, options, tokens))
    assert response.status_code == 200, response.text
    answer = response.json()
    info = answer["meta_info"]
    return PlainAnswer(answer["output_ids"], *(sum(info[key]) for key in (FORWARDS, STEPS, EDITS)))


async def test_fifty_prompts_mixed(engine: httpx.AsyncClient, plain: PlainDecoder) -> None:
    answers = await asyncio.gather(*(ask(engine, ids, options) for ids, options in PROMPTS))
    for (ids, options), answer in zip(PROMPTS, answers, strict=True):
        assert answer == plain.answer(ids, options, TOKENS), options


async def test_fifty_prompts_alone(engine: httpx.AsyncClient, plain: PlainDecoder) -> None:
    for ids, options in PROMPTS:
        answer = await ask(engine, ids, options, FEW_TOKENS)
        assert answer == plain.answer(ids, options, FEW_TOKENS), options


async def test_a_seed_draws_the_same_in_any_company(engine: httpx.AsyncClient) -> None:
    ids = prompt(1, 20)
    unsure = Decision(algorithm="LowConfidence", parameters={"threshold": 0.3})
    drawn = [EngineOptions(decision=unsure, sampling=each) for each in SAMPLED]
    alone = [await ask(engine, ids, options) for options in drawn]
    beside = [ask(engine, other, options) for other, options in PROMPTS[:5]]
    together = await asyncio.gather(*(ask(engine, ids, options) for options in drawn), *beside)
    assert list(together[: len(drawn)]) == alone
    other_seed = EngineOptions(decision=unsure, sampling=Sampling(temperature=1.0, seed=8))
    assert await ask(engine, ids, other_seed) != alone[0]


async def test_an_algorithm_of_ones_own(engine: httpx.AsyncClient) -> None:
    own = EngineOptions(decision=Decision(algorithm="Leftmost", parameters={"tokens": 8}))
    answer = await ask(engine, prompt(3, 32), own)
    assert (answer.steps, answer.forwards) == (8, 10)  # two blocks of 32


@pytest.mark.parametrize("wrong", [{"tokens": "many"}, {"tokens": 1e300}, {"max_steps": 4}, {"hurry": 1}])
async def test_what_an_algorithm_of_ones_own_does_not_take(
    engine: httpx.AsyncClient, wrong: dict[str, Any]
) -> None:
    own = EngineOptions(decision=Decision(algorithm="Leftmost", parameters=wrong))
    response = await engine.post("/generate", json=body(prompt(3, 32), own, FEW_TOKENS))
    assert response.status_code == 400
    assert f"custom_params.dllm.{next(iter(wrong))}" in response.text


def test_the_limit_of_steps_is_checked_of_every_algorithm(tmp_path: Path) -> None:
    """The decoder reads it itself, into 32 bits."""
    own = tmp_path / "own.py"
    own.write_text(OWN.read_text("utf-8").replace('"tokens": 4', '"tokens": 4, "max_steps": 64'), "utf-8")
    table = AlgorithmTable({"Own": str(own)})
    table.check(Decision(algorithm="Own", parameters={"max_steps": 8}))
    with pytest.raises(ValueError, match=r"^max_steps"):
        table.check(Decision(algorithm="Own", parameters={"max_steps": 2**40}))


@pytest.mark.parametrize("stop", [None, "e"])
async def test_ids_usage_and_statistics_agree(engine: httpx.AsyncClient, stop: str | None) -> None:
    """In a stream as a whole, however it is cut, with and without something that ends it early."""
    options = EngineOptions(decision=Decision(algorithm="JointThreshold"))
    more = {"stop": [stop]} if stop else {}
    request = body(prompt(4, 40), options, TOKENS, **more) | {"stream": True}
    async with engine.stream("POST", "/generate", json=request) as response:
        lines = [line async for line in response.aiter_lines() if line.startswith("data: {")]
    last = json.loads(lines[-1].removeprefix("data: "))
    info, ids = last["meta_info"], last["output_ids"]
    assert info["completion_tokens"] == len(ids) == len(info[FORWARDS]) == len(info[STEPS])
    assert (len(ids) == TOKENS) == (stop is None)
    whole = expected_blocks(len(ids), 40)
    assert [place for place, forwards in enumerate(info[FORWARDS]) if forwards] == whole


def expected_blocks(tokens: int, prompt_tokens: int) -> list[int]:
    """Where the blocks of an answer begin in it."""
    return [place for place in range(tokens) if place == 0 or (prompt_tokens + place) % 32 == 0]
