"""What a worker may be given: everything that an engine is told of it is checked here once more."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from dllm_stack.decoding import ALGORITHMS, Sampling, TokenByToken, check_parameters
from dllm_stack.messages import (
    ChatPrompt,
    Detokenize,
    Job,
    ModelCard,
    Question,
    TextPrompt,
    Tokenize,
    TokenPrompt,
)
from tests.gateway.fake_worker import FakeWorker, Run

MAX_INT = 2**31 - 1


def check_job(job: Job, worker: FakeWorker) -> None:
    """
    Raises:
        AssertionError: naming what is wrong.
    """
    decoding, card = job.decoding, worker.model
    assert job.pool == worker.pool
    assert re.fullmatch("[0-9a-f]{32}", job.id)
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", job.tenant)
    assert job.timeout_s is not None
    assert 0 < job.timeout_s <= 600
    assert job.session is None or 1 <= len(job.session) <= 256
    _check_prompt(job.prompt, card.context_length)
    assert decoding.max_tokens is None or 1 <= decoding.max_tokens <= card.context_length
    assert len(decoding.stop) <= 4
    assert all(1 <= len(stop) <= 1000 for stop in decoding.stop)
    assert all(0 <= token <= MAX_INT for token in decoding.stop_token_ids)
    assert not (decoding.stop_token_ids and decoding.ignore_eos)
    modes = card.decoding.modes if card.decoding else {}
    assert decoding.mode is None or decoding.mode in modes
    if decoding.decision is not None:
        assert decoding.decision.algorithm in ALGORITHMS
        check_parameters(decoding.decision.algorithm, decoding.decision.parameters)
        assert all(map(math.isfinite, decoding.decision.parameters.values()))
        assert card.decoding is not None
    _check_token_by_token(decoding.token_by_token, card)
    sampling = decoding.sampling or Sampling()
    assert 0 <= sampling.temperature <= 2
    assert 0 < sampling.top_p <= 1
    assert 0 <= sampling.top_k <= MAX_INT
    assert -(2**63) <= sampling.seed < 2**63
    msgspec.json.encode(job)  # text that is no Unicode, or a number without one, would not go to an engine


def _check_token_by_token(asked: TokenByToken, card: ModelCard) -> None:
    assert card.is_autoregressive or not asked.asked
    assert msgspec.convert(msgspec.to_builtins(asked, str_keys=True), TokenByToken, strict=False) == asked
    assert card.vocab_size is not None
    assert all(0 <= token < card.vocab_size for token in asked.logit_bias)
    assert asked.top_logprobs is None or asked.top_logprobs <= 20
    assert not (asked.grammar and asked.min_tokens)


def _check_prompt(prompt: Any, context: int) -> None:
    match prompt:
        case ChatPrompt(messages):
            assert messages
            for message in messages:
                assert message["role"] in ("system", "developer", "user", "assistant", "tool")
                assert isinstance(message.get("content", ""), str)
                assert "content" in message or message["tool_calls"]
                assert message.keys() <= {"role", "content", "name", "tool_call_id", "tool_calls"}
        case TextPrompt(text):
            assert text
        case TokenPrompt(ids):
            assert 0 < len(ids) <= context
            assert all(0 <= token <= MAX_INT for token in ids)
        case _:
            raise AssertionError(f"a prompt of no kind: {prompt!r}")


def check_question(question: Question, worker: FakeWorker) -> None:
    """
    Raises:
        AssertionError: naming what is wrong.
    """
    assert re.fullmatch("[0-9a-f]{32}", question.id)
    match question.asks:
        case Tokenize(prompts):
            for prompt in prompts:
                if prompt != TextPrompt(""):  # has no tokens, which is an answer
                    _check_prompt(prompt, worker.model.context_length)
        case Detokenize(token_ids):
            assert all(0 <= token <= MAX_INT for ids in token_ids for token in ids)
    msgspec.json.encode(question)


class StrictWorker(FakeWorker):
    """Answers all at once, and keeps what is wrong with it.

    Attributes:
        taken: how many jobs and questions have come.
    """

    taken = 0

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._faults: list[tuple[Job | Question, str]] = []

    def faults(self) -> list[tuple[Job | Question, str]]:
        """What was wrong with those that have come since the last call, which no gateway may send."""
        found, self._faults = self._faults, []
        return found

    def _begin(self, run: Run) -> None:
        self._judge(run.job, check_job)
        super()._begin(run)

    async def _tell(self, question: Question) -> None:
        self._judge(question, check_question)
        await super()._tell(question)

    def _judge(self, taken: Any, check: Callable[[Any, FakeWorker], None]) -> None:
        self.taken += 1
        try:
            check(taken, self)
        except Exception as error:
            self._faults.append((taken, repr(error)))
