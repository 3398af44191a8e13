"""The decoder, batch by batch, against the plain algorithms. The model is plain torch, so no engine runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from dllm_stack.decoding import Decision, EngineOptions, Sampling
from tests.engine.decoding.fake_scheduler import FakeRequest, FakeScheduler
from tests.engine.decoding.plain import PlainAnswer, PlainDecoder
from tests.engine.decoding.requests import DECISIONS, MANY, SAMPLED, prompt
from tests.engine.reference import Reference
from tests.engine.running import sglang_environment
from worker.dllm.decoder import Decoder
from worker.dllm.requests import EDITS, FORWARDS, STEPS
from worker.dllm.settings import DecoderSettings

Asked = list[tuple[Decision, list[int], int]]
TOKENS = 24  # of an answer that SGLang's own algorithms decode too


def scheduler(model: Reference, steps_per_round: int) -> FakeScheduler:
    settings = DecoderSettings(default=Decision(algorithm="LowConfidence"), steps_per_round=steps_per_round)
    decoder = Decoder(settings, model.config["block_size"], model.config["mask_token_id"])
    return FakeScheduler(model, decoder.run, decoder.begin)


def decoded(model: Reference, steps_per_round: int, requests: Sequence[FakeRequest]) -> list[PlainAnswer]:
    scheduler(model, steps_per_round).decode(requests)
    return [answer_of(request) for request in requests]


def answer_of(request: FakeRequest) -> PlainAnswer:
    info = request.customized_info or {}
    assert {len(values) for values in info.values()} == {len(request.output_ids)}
    sums = [sum(info[key]) for key in (FORWARDS, STEPS, EDITS)]
    return PlainAnswer(request.output_ids[: request.max_tokens], *sums)


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda d: f"{d.algorithm}-{d.parameters}")
def test_alone(reference: Reference, plain: PlainDecoder, decision: Decision) -> None:
    options = EngineOptions(decision=decision)
    for length, tokens in ((5, 40), (32, 32)):
        request = FakeRequest(prompt(length, length), options, tokens)
        [answer] = decoded(reference, 4, [request])
        assert answer == plain.answer(request.origin_input_ids, options, tokens)


@pytest.mark.parametrize("sampling", SAMPLED, ids=str)
def test_drawn_alone(reference: Reference, plain: PlainDecoder, sampling: Sampling) -> None:
    options = EngineOptions(decision=DECISIONS[0], sampling=sampling)
    request = FakeRequest(prompt(1, 20), options, 40)
    [answer] = decoded(reference, 8, [request])
    assert answer == plain.answer(request.origin_input_ids, options, 40)
    assert answer != plain.answer(request.origin_input_ids, EngineOptions(decision=DECISIONS[0]), 40)


def test_drawn_from_one_token_is_not_drawn(reference: Reference) -> None:
    one = EngineOptions(decision=DECISIONS[0], sampling=Sampling(temperature=1.0, top_k=1, seed=5))
    requests = [
        FakeRequest(prompt(2, 9), options, 40) for options in (one, EngineOptions(decision=DECISIONS[0]))
    ]
    drawn, greedy = decoded(reference, 8, requests)
    assert drawn == greedy


@pytest.mark.parametrize("steps_per_round", [1, 3, 50])
def test_all_together(reference: Reference, plain: PlainDecoder, steps_per_round: int) -> None:
    """Different algorithms, parameters, seeds, lengths and ends in one batch: each as if it were alone."""
    requests = [
        FakeRequest(prompt(number, 3 + 7 * number), options, 20 + 5 * number % 40)
        for number, options in enumerate(MANY)
    ]
    answers = decoded(reference, steps_per_round, requests)
    for request, answer in zip(requests, answers, strict=True):
        assert answer == plain.answer(request.origin_input_ids, request.options, request.max_tokens)


@pytest.fixture(scope="module")
def asked() -> Asked:
    """50 prompts, which SGLang's own algorithms can decode too."""
    stock = [decision for decision in DECISIONS if decision.algorithm in ("LowConfidence", "JointThreshold")]
    stock = [decision for decision in stock if "max_steps" not in decision.parameters]
    return [(stock[number % len(stock)], prompt(number, 1 + number), TOKENS) for number in range(50)]


@pytest.fixture(scope="module")
def ours(reference: Reference, asked: Asked) -> list[list[int]]:
    requests = [FakeRequest(ids, EngineOptions(decision=decision), TOKENS) for decision, ids, _ in asked]
    return [answer.token_ids for answer in decoded(reference, 8, requests)]


def test_as_sglangs_own_algorithms(
    sglang: str, model_folder: Path, asked: Asked, ours: list[list[int]]
) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tests.engine.decoding.stock", str(model_folder)],
        input=msgspec.json.encode(asked),
        stdout=subprocess.PIPE,
        env=os.environ | sglang_environment(sglang),
        check=True,
    )
    assert ours == msgspec.json.decode(process.stdout.splitlines()[-1])
