"""What is sent follows from the options and the seed, and wrong options are named."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dllm_stack.bench import arrivals
from dllm_stack.bench.choices import Arrivals, Dataset
from dllm_stack.bench.plan import Options, make
from dllm_stack.bench.problem import Problem
from dllm_stack.bench.tokenizer import Tokenizer
from loadtest.simulator.__main__ import CHECKPOINT


def options(**more: Any) -> Options:
    values: dict[str, Any] = {"tokenizer": CHECKPOINT, "num_prompts": 40}
    return Options(**(values | more))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(CHECKPOINT)


def test_the_same_seed_makes_the_same_load_and_another_one_another() -> None:
    load: dict[str, Any] = {"random_input_len": 60, "request_rate": 5.0, "tenant": ["a=1", "b=1"]}
    assert make(options(**load)).asks == make(options(**load)).asks
    assert make(options(**load)).asks != make(options(**load, seed=2)).asks
    faster = make(options(**(load | {"request_rate": 50.0}))).asks
    assert [ask.prompt for ask in faster] == [ask.prompt for ask in make(options(**load)).asks]


@pytest.mark.parametrize("ids", [False, True])
def test_random_prompts_have_the_lengths_asked_for(tokenizer: Tokenizer, ids: bool) -> None:
    asks = make(
        options(
            num_prompts=200,
            random_input_len=100,
            random_output_len=50,
            random_range_ratio=0.5,
            tokenize_prompt=ids,
        )
    ).asks
    lengths = [ask.prompt.tokens for ask in asks]
    assert 50 <= min(lengths) < 60 < 90 < max(lengths) <= 100
    assert (
        25
        <= min(ask.prompt.output_tokens for ask in asks)
        < max(ask.prompt.output_tokens for ask in asks)
        <= 50
    )
    for ask in asks:
        content = ask.prompt.content
        found = tokenizer.encode(content) if isinstance(content, str) else content
        assert len(found) == ask.prompt.tokens
    assert len({str(ask.prompt.content) for ask in asks}) == len(asks)


def test_all_of_one_length() -> None:
    asks = make(options(random_input_len=64, random_output_len=32, random_range_ratio=1.0)).asks
    assert {(ask.prompt.tokens, ask.prompt.output_tokens) for ask in asks} == {(64, 32)}
    assert {ask.due_s for ask in asks} == {None}


@pytest.mark.parametrize(
    ("kind", "burstiness", "variation"),
    [(Arrivals.CONSTANT, 1.0, 0.0), (Arrivals.POISSON, 1.0, 1.0), (Arrivals.GAMMA, 0.25, 2.0)],
)
def test_arrivals_have_the_rate_and_the_burstiness(
    kind: Arrivals, burstiness: float, variation: float
) -> None:
    times = arrivals.times(20_000, 10.0, kind, burstiness, np.random.default_rng(3))
    gaps = np.diff(times)
    assert times[0] == 0
    assert gaps.mean() == pytest.approx(0.1, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(variation, abs=0.1)


def test_conversations_are_those_of_the_file(tmp_path: Path, tokenizer: Tokenizer) -> None:
    turns = [[f"Question number {n}, please", f"The answer {n} is this"] for n in range(20)]
    entries: list[Any] = [
        {"conversations": [{"from": "x", "value": text} for text in each]} for each in turns
    ]
    entries += [{"conversations": [{"value": "alone"}]}, {"conversation": [{"value": ""}, {"value": ""}]}]
    file = tmp_path / "talk.json"
    file.write_text(json.dumps(entries))
    share: dict[str, Any] = {"dataset": Dataset.SHAREGPT, "dataset_path": file}
    asks = make(options(**share)).asks
    assert sorted(str(ask.prompt.content) for ask in asks) == sorted(question for question, _ in turns)
    by_question = dict(turns)
    for ask in asks:
        assert ask.prompt.output_tokens == len(tokenizer.encode(by_question[str(ask.prompt.content)]))
    assert {ask.prompt.output_tokens for ask in make(options(**share, sharegpt_output_len=9)).asks} == {9}
    assert len(make(options(**share | {"num_prompts": 5})).asks) == 5
    with pytest.raises(Problem, match="no conversation"):
        make(options(**share, sharegpt_context_len=3))


def test_a_trace_is_replayed(tmp_path: Path) -> None:
    lines = [
        {"timestamp": 3000, "input_length": 1100, "output_length": 7, "hash_ids": [1, 2, 4]},
        {"timestamp": 1000, "input_length": 1100, "output_length": 5, "hash_ids": [1, 2, 3]},
        {"timestamp": 2000, "prompt": "Hello there", "output_length": 6, "tenant": "light"},
    ]
    file = tmp_path / "trace.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
    plan = make(options(num_prompts=None, trace=file, trace_speed=2.0, tokenize_prompt=True))
    assert [(ask.due_s, ask.prompt.output_tokens) for ask in plan.asks] == [(0.0, 5), (0.5, 6), (1.0, 7)]
    assert plan.asks[1].prompt.content == "Hello there"
    assert plan.asks[1].tenant.headers == {"X-Tenant-ID": "light"}
    first, last = plan.asks[0].prompt.content, plan.asks[2].prompt.content
    assert len(first) == len(last) == 1100
    assert first[:1024] == last[:1024]
    assert first[1024:] != last[1024:]


def test_tenants_have_their_share_their_key_and_their_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tenants.yaml"
    file.write_text(
        "- {name: heavy, weight: 3, model: 'm:speed'}\n"
        "- {name: light, key_env: LIGHT_KEY, extra: {service_tier: priority}}\n"
    )
    monkeypatch.setenv("LIGHT_KEY", "dk-secret")
    asks = make(options(num_prompts=800, random_input_len=2, tenants=file)).asks
    shares = Counter(ask.tenant.name for ask in asks)
    assert shares["heavy"] / shares["light"] == pytest.approx(3, rel=0.2)
    heavy, light = (next(a.tenant for a in asks if a.tenant.name == name) for name in ("heavy", "light"))
    assert (heavy.model, heavy.headers) == ("m:speed", {"X-Tenant-ID": "heavy"})
    assert light.headers == {"Authorization": "Bearer dk-secret"}
    assert light.extra == {"service_tier": "priority"}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tokenizer": None}, "--tokenizer"),
    ({"tokenizer": Path("/nowhere")}, "--tokenizer: there is no"),
    ({"request_rate": 0.0}, "--request-rate"),
    ({"request_rate": float("nan")}, "--request-rate"),
    ({"random_range_ratio": 1.5}, "--random-range-ratio"),
    ({"burstiness": 0.5}, "--burstiness: is for --arrivals gamma"),
    ({"arrivals": Arrivals.GAMMA, "burstiness": 0.0}, "--burstiness"),
    ({"dataset": Dataset.SHAREGPT}, "--dataset-path"),
    (
        {"dataset": Dataset.SHAREGPT, "dataset_path": Path("/nowhere")},
        "--dataset-path: /nowhere: No such file",
    ),
    ({"dataset_path": Path("/nowhere")}, "--dataset-path: is for"),
    ({"trace": Path("/nowhere")}, "--trace: /nowhere: No such file"),
    ({"trace": Path("/nowhere"), "request_rate": 1.0}, "--request-rate: a trace"),
    ({"trace_speed": 0.0}, "--trace-speed"),
    ({"tenant": ["light"]}, "--tenant: 'light' is not NAME=WEIGHT"),
    ({"tenant": ["a=1", "a=2"]}, "--tenant: a is named twice"),
    ({"tenant": ["a=0"]}, "--tenant: the weight of a"),
    ({"tenant": ["a=1"], "tenants": Path("t.yaml")}, "--tenant: name tenants either"),
    ({"tenants": Path("/nowhere")}, "--tenants: /nowhere: No such file"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_a_wrong_option_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(Problem) as told:
        make(options(**wrong))
    assert str(told.value).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}\n", "line 1"),
        ('{"timestamp": 1, "output_length": 3}\n', "line 1: input_length"),
        ("\n", "has no requests"),
        ("nonsense", "line 1"),
    ],
)
def test_a_wrong_trace_is_told_by_its_line(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(content)
    with pytest.raises(Problem, match=message):
        make(options(trace=file))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "has no tenant"),
        ("- {weight: 1}", "name"),
        ("- {name: a, wait: 1}", "wait"),
        ("- {name: a, key_env: NOT_SET_ANYWHERE}", "a: the environment has no NOT_SET_ANYWHERE"),
    ],
)
def test_a_wrong_tenant_is_told(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "tenants.yaml"
    file.write_text(content)
    with pytest.raises(Problem, match=message):
        make(options(tenants=file))


def test_a_key_that_no_header_can_carry_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "dk-secret\n")
    with pytest.raises(Problem, match="the key in OPENAI_API_KEY has a character"):
        make(options())
