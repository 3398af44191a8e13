"""The decoder, batch by batch, against the plain algorithms. The model is plain torch, so no engine runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dllm_stack.decoding import Decision, EngineOptions, Sampling
from tests.engine.decoding import plain
from tests.engine.decoding.requests import DECISIONS, MANY, SAMPLED, prompt
from tests.engine.reference import Reference
from worker.dllm.decoder import Decoder
from worker.dllm.requests import EDITS, FORWARDS, STEPS, BlockState
from worker.dllm.settings import DecoderSettings


@dataclass(eq=False)
class FakeRequest:
    """What the decoder touches of SGLang's Req."""

    origin_input_ids: list[int]
    options: EngineOptions
    max_tokens: int
    output_ids: list[int] = field(default_factory=list)
    dllm_algo_state: BlockState | None = None
    dllm_incomplete_ids: list[int] = field(default_factory=list)
    customized_info: dict[str, list[int]] | None = None

    @property
    def sampling_params(self) -> Any:
        decision, sampling = self.options.decision, self.options.sampling
        dllm: dict[str, Any] = {
            "sampling": {name: getattr(sampling, name) for name in sampling.__struct_fields__}
        }
        if decision:
            dllm["decision"] = {"algorithm": decision.algorithm, "parameters": decision.parameters}
        return SimpleNamespace(custom_params={"dllm": dllm})


class FakeRunner:
    """SGLang's scheduler and model runner, as far as a round of decoding sees them."""

    def __init__(self, model: Reference, steps_per_round: int) -> None:
        self.model, self.size, self.forwards = model, model.config["block_size"], 0
        self.mask_id = model.config["mask_token_id"]
        settings = DecoderSettings(
            default=Decision(algorithm="LowConfidence"), steps_per_round=steps_per_round
        )
        self.decoder = Decoder(settings, self.size, self.mask_id)

    def forward(self, batch: Any, pp_proxy_tensors: None = None) -> Any:
        self.forwards += 1
        rows = batch.input_ids.view(-1, self.size).tolist()
        full = torch.cat(
            [
                self.model.logits((request.origin_input_ids + request.output_ids)[:start] + row)
                for request, start, row in zip(batch.reqs, batch.extend_prefix_lens_cpu, rows, strict=True)
            ]
        )
        return SimpleNamespace(logits_output=SimpleNamespace(full_logits=full), can_run_graph=False)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def round(self, requests: list[FakeRequest]) -> None:
        starts, ids = [], []
        for request in requests:
            sequence = request.origin_input_ids + request.output_ids
            starts.append(len(sequence) // self.size * self.size)
            tail = sequence[starts[-1] :]
            ids += request.dllm_incomplete_ids or tail + [self.mask_id] * (self.size - len(tail))
        batch = SimpleNamespace(
            reqs=requests,
            batch_size=len(requests),
            input_ids=torch.tensor(ids),
            extend_prefix_lens_cpu=starts,
        )
        states = [
            request.dllm_algo_state or self.decoder.begin(request, start)
            for request, start in zip(requests, starts, strict=True)
        ]
        _, rows, accepted, left, _ = self.decoder.run(self, batch, states)
        for request, row, tokens, state in zip(requests, rows, accepted, left, strict=True):
            request.dllm_algo_state = state
            request.dllm_incomplete_ids = [] if tokens else row
            if tokens:
                known = (len(request.origin_input_ids) + len(request.output_ids)) % self.size
                request.output_ids += row[known:]


def answer_of(request: FakeRequest) -> plain.PlainAnswer:
    info = request.customized_info or {}
    assert {len(values) for values in info.values()} == {len(request.output_ids)}
    sums = [sum(info[key]) for key in (FORWARDS, STEPS, EDITS)]
    return plain.PlainAnswer(request.output_ids[: request.max_tokens], *sums)


def expected(model: Reference, prompt: list[int], options: EngineOptions, tokens: int) -> plain.PlainAnswer:
    assert options.decision is not None
    with torch.no_grad():
        return plain.decode(
            model.logits,
            prompt,
            tokens,
            options.decision,
            options.sampling,
            block_size=model.config["block_size"],
            mask_id=model.config["mask_token_id"],
        )


def decoded(runner: FakeRunner, requests: list[FakeRequest]) -> list[plain.PlainAnswer]:
    """All of them in one batch; those that have finished make room for the others."""
    left = list(requests)
    while left:
        runner.round(left)
        left = [request for request in left if len(request.output_ids) < request.max_tokens]
    return [answer_of(request) for request in requests]


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda d: f"{d.algorithm}-{d.parameters}")
def test_alone(model: Reference, decision: Decision) -> None:
    options = EngineOptions(decision=decision)
    for length, tokens in ((5, 40), (32, 32)):
        request = FakeRequest(prompt(length, length), options, tokens)
        [answer] = decoded(FakeRunner(model, steps_per_round=4), [request])
        assert answer == expected(model, request.origin_input_ids, options, tokens)


@pytest.mark.parametrize("sampling", SAMPLED, ids=str)
def test_drawn_alone(model: Reference, sampling: Sampling) -> None:
    options = EngineOptions(decision=DECISIONS[0], sampling=sampling)
    request = FakeRequest(prompt(1, 20), options, 40)
    [answer] = decoded(FakeRunner(model, steps_per_round=8), [request])
    assert answer == expected(model, request.origin_input_ids, options, 40)
    assert answer != expected(model, request.origin_input_ids, EngineOptions(decision=DECISIONS[0]), 40)


@pytest.mark.parametrize("steps_per_round", [1, 3, 50])
def test_all_together(model: Reference, steps_per_round: int) -> None:
    """Different algorithms, parameters, seeds, lengths and ends in one batch: each as if it were alone."""
    requests = [
        FakeRequest(prompt(number, 3 + 7 * number), options, 20 + 5 * number % 40)
        for number, options in enumerate(MANY)
    ]
    answers = decoded(FakeRunner(model, steps_per_round), requests)
    for request, answer in zip(requests, answers, strict=True):
        assert answer == expected(model, request.origin_input_ids, request.options, request.max_tokens)
