"""Jobs of an autoregressive model: what the engine is asked, how they go on, what they tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models

from dllm_stack.capabilities import Capability
from dllm_stack.decoding import EngineOptions, Grammar, GrammarKind, Sampling, TokenByToken
from dllm_stack.messages import Decoding, Job, TokenPrompt
from dllm_stack.outcomes import ErrorCode
from worker.autoregression import decoding_of, goes_on, told
from worker.engine import ask
from worker.engine.capabilities import Examination
from worker.engine.client import EngineFault, EngineInfo, EngineRefusal, Progress
from worker.engine.wire import Finish, Logprobs
from worker.prompt import Limits
from worker.refusal import refused_by_engine
from worker.tiny_checkpoint import vocabulary
from worker.token_bytes import TokenBytes

INFO = EngineInfo(
    limits=Limits(prompt=100, context=100),
    slots=1,
    algorithm=None,
    attention_backend=None,
    streams_deltas=True,
)


def job(decoding: Decoding, number: int = 1) -> Job:
    return Job(id=f"{number:032x}", pool="p", gateway="g", prompt=TokenPrompt([1]), decoding=decoding)


def asked(decoding: Decoding) -> dict[str, Any]:
    return ask.body("r", [1], 9, decoding, EngineOptions(), autoregressive=True)


def test_what_the_engine_is_asked() -> None:
    shaped = TokenByToken(
        min_p=0.1,
        min_tokens=3,
        frequency_penalty=1,
        presence_penalty=-1,
        repetition_penalty=1.5,
        logit_bias={7: -5.0},
        top_logprobs=4,
        grammar=Grammar(kind=GrammarKind.REGEX, text="a+"),
    )
    sampling = Sampling(temperature=0.5, top_p=0.9, top_k=0, seed=-3)
    body = asked(Decoding(stop=["x"], sampling=sampling, token_by_token=shaped))
    assert (body["return_logprob"], body["top_logprobs_num"], body["logprob_start_len"]) == (True, 4, -1)
    assert body["sampling_params"] == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": -1,
        "min_p": 0.1,
        "frequency_penalty": 1,
        "presence_penalty": -1,
        "repetition_penalty": 1.5,
        "min_new_tokens": 3,
        "max_new_tokens": 9,
        "sampling_seed": -3,
        "logit_bias": {"7": -5.0},
        "regex": "a+",
        "stop": ["x"],
        "stop_token_ids": [],
        "ignore_eos": False,
    }
    plain = asked(Decoding())
    assert plain["sampling_params"]["temperature"] == 1
    assert "return_logprob" not in plain
    json.dumps(body)


def test_a_job_draws_by_one_seed_in_all_its_attempts() -> None:
    first, again, other = (decoding_of(job(Decoding(), number), 0).sampling for number in (1, 1, 2**100))
    assert first == again != other
    own = Sampling(temperature=0.3, seed=9)
    assert decoding_of(job(Decoding(sampling=own)), 0).sampling == own


def test_tokens_that_are_there_count_towards_the_least() -> None:
    decoding = Decoding(token_by_token=TokenByToken(min_tokens=5))
    assert [decoding_of(job(decoding), kept).token_by_token.min_tokens for kept in (0, 3, 8)] == [5, 2, 0]


@pytest.mark.parametrize(
    ("sampling", "capabilities", "goes"),
    [
        (Sampling(), [], True),
        (Sampling(temperature=1, top_k=1), [], True),
        (Sampling(temperature=1), [], False),
        (Sampling(temperature=1), ["seed"], True),
        (None, None, False),
    ],
)
def test_what_is_generated_again(
    sampling: Sampling | None, capabilities: list[str] | None, goes: bool
) -> None:
    info = EngineInfo(
        limits=INFO.limits,
        slots=1,
        algorithm=None,
        attention_backend=None,
        streams_deltas=True,
        capabilities=capabilities,
    )
    assert goes_on(Decoding(sampling=sampling), info) is goes


BYTES = TokenBytes(vocabulary.tokenizer())
ENDS = vocabulary.tokenizer().token_to_id(vocabulary.END_OF_TEXT) or 0


def test_bytes_of_a_byte_level_vocabulary() -> None:
    tokenizer = vocabulary.tokenizer()
    for text in ("the sun, and the moon.\n", "长城很长", "zürich 🏰 \t x+y=2"):
        assert b"".join(map(BYTES, tokenizer.encode(text).ids)).decode() == text
    assert (BYTES(ENDS), BYTES.is_special(ENDS)) == (vocabulary.END_OF_TEXT.encode(), True)
    assert BYTES(10**6) == b""


def test_bytes_of_a_token_that_a_byte_level_vocabulary_does_not_spell() -> None:
    tokenizer = Tokenizer(models.BPE(vocab={"Ġsun": 0, "太阳": 1}, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    token_bytes = TokenBytes(tokenizer)
    for token_id, text in enumerate([" sun", "太阳"]):
        assert token_bytes(token_id).decode() == text == tokenizer.decode([token_id])


def test_bytes_of_a_vocabulary_that_falls_back_to_bytes() -> None:
    tokenizer = Tokenizer(models.BPE(vocab={"▁sun": 0, "<0xE2>": 1, "é": 2}, merges=[], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback()])
    token_bytes = TokenBytes(tokenizer)
    assert [token_bytes(token_id) for token_id in range(3)] == [b" sun", b"\xe2", "é".encode()]


def test_what_is_told_of_tokens() -> None:
    word = vocabulary.tokenizer().encode(" sun").ids[0]
    one, end = (Logprobs((-0.5, token, None), [(None, 5, None)]) for token in (word, ENDS))
    first, last = told([one, end], BYTES, ENDS)
    assert (first.drawn.utf8, first.drawn.logprob, first.shown) == (b" sun", -0.5, True)
    assert first.top[0].logprob == -9999.0
    assert not last.shown
    assert [each.shown for each in told([one, one], BYTES, word)] == [True, False]
    assert [each.shown for each in told([one], BYTES, "sun")] == [True]


@pytest.mark.parametrize(
    ("reason", "shaped", "param"),
    [
        ("custom_params.dllm.greed is not a parameter of Mine", TokenByToken(), "dllm.greed"),
        ("custom_params.dllm.max_steps: expected `int` <= 1024", TokenByToken(), "dllm.max_steps"),
        ("custom_params.dllm.decision.parameters.x: wrong", TokenByToken(), "dllm.x"),
        ("logit_bias must has keys in [0, 5]", TokenByToken(logit_bias={9: 1}), "logit_bias"),
        (
            "Failed to compile",
            TokenByToken(grammar=Grammar(kind=GrammarKind.EBNF, text="x")),
            "ebnf",
        ),
        ("Something else", TokenByToken(), None),
    ],
)
def test_which_field_an_engine_refuses(reason: str, shaped: TokenByToken, param: str | None) -> None:
    problem = refused_by_engine(reason, Decoding(token_by_token=shaped))
    assert (problem.code, problem.param, problem.message) == (ErrorCode.INVALID_VALUE, param, reason)


class FakeGeneration:
    def __init__(self, answer: Progress) -> None:
        self._answer = answer

    async def next(self, within_s: float = 0) -> Progress:
        return self._answer

    async def stop(self) -> bool:
        return True


class FakeClient:
    """An engine by what it does with a job's decoding. The real one is in tests/stack."""

    def __init__(self, answer: Callable[[Decoding], Progress]) -> None:
        self._answer = answer
        self.asked: list[Decoding] = []

    async def generate(self, token_ids: list[int], max_tokens: int, decoding: Decoding) -> Any:
        self.asked.append(decoding)
        return FakeGeneration(self._answer(decoding))


def everything(decoding: Decoding) -> Progress:
    shaped, sampling = decoding.token_by_token, decoding.sampling or Sampling()
    token = next(iter(shaped.logit_bias), sampling.seed)
    logprobs = [Logprobs((-1.0, token, None), [])] if shaped.top_logprobs is not None else []
    return Progress([token], 0, Finish("stop" if shaped.grammar else "length"), [], logprobs)


async def examined(examination: Examination, client: FakeClient, info: EngineInfo = INFO) -> list[str]:
    return await examination.capabilities(client, info)  # type: ignore[arg-type]


async def test_an_engine_that_can_do_all() -> None:
    assert await examined(Examination(), FakeClient(everything)) == sorted(Capability)


async def test_what_an_engine_refuses_or_ignores_it_does_not_honour() -> None:
    def little(decoding: Decoding) -> Progress:
        if decoding.token_by_token.frequency_penalty:
            raise EngineRefusal("no penalties here")
        return Progress([5], 0, Finish("length"))

    found = await examined(Examination(), FakeClient(little))
    assert set(Capability) - set(found) == {
        "ebnf",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "regex",
        "response_format",
        "seed",
    }


async def test_what_has_ended_an_engine_is_not_asked_again() -> None:
    def breaks(decoding: Decoding) -> Progress:
        if decoding.token_by_token.grammar is not None:
            raise EngineFault("gone")
        return everything(decoding)

    examination, client = Examination(), FakeClient(breaks)
    for _ in range(4):
        with pytest.raises(EngineFault):
            await examined(examination, client)
    found = await examined(examination, client)
    assert set(Capability) - set(found) == {"ebnf", "regex", "response_format", "strict"}


async def test_an_engine_that_draws_by_seeds_is_not_asked_for_min_p() -> None:
    """SGLang's scheduler would end at an assertion."""
    client = FakeClient(everything)
    deterministic = EngineInfo(
        limits=INFO.limits,
        slots=1,
        algorithm=None,
        attention_backend=None,
        streams_deltas=True,
        deterministic=True,
    )
    found = await examined(Examination(), client, deterministic)
    assert "min_p" not in found
    assert not any(decoding.token_by_token.min_p for decoding in client.asked)
