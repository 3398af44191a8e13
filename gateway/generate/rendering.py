"""SGLang's answers in bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator

from msgspec import UNSET

from dllm_stack.messages import Block, End, Likely
from dllm_stack.outcomes import Problem
from gateway.answer import Answer
from gateway.generate.protocol import FinishReason, Generated, Logprob, MetaInfo
from gateway.http import sse
from gateway.http.pieces import array_of
from gateway.logprobs import text_of
from gateway.statistics import Told


class GenerateRendering:
    repeats = True

    def __init__(self, *, several: bool, statistics: bool, logprobs: bool, logprob_texts: bool) -> None:
        """
        Args:
            several: the prompts came as a list, and so do the answers.
            statistics: an answer's end tells what its blocks have cost.
            logprobs: an answer has its tokens' log probabilities.
            logprob_texts: these have the tokens' texts.
        """
        self._logprobs = logprobs
        self._logprob_texts = logprob_texts
        self._several = several
        self._told = Told(statistics)
        self._started = time.monotonic()

    def document(self, answers: list[Answer]) -> Iterator[bytes]:
        generated = (self._generated(answer, indexed=False) for answer in answers)
        return array_of(generated) if self._several else map(sse.encode_json, generated)

    def block(self, answer: Answer, block: Block) -> bytes:
        return sse.event(self._generated(answer, indexed=self._several))

    def end(self, answer: Answer) -> bytes:
        return sse.event(self._generated(answer, indexed=self._several))

    def close(self, answers: list[Answer]) -> bytes:
        return sse.DONE

    def failure(self, problem: Problem) -> bytes:
        return sse.event(problem.body()) + sse.DONE

    def _generated(self, answer: Answer, *, indexed: bool) -> Generated:
        end = answer.end
        meta = MetaInfo(
            id=answer.id,
            finish_reason=_finish_reason(end) if end else None,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            cached_tokens=end.cached_tokens if end else UNSET,
            e2e_latency=time.monotonic() - self._started if end else UNSET,
            dllm=self._told.of([answer]) if end else UNSET,
            output_token_logprobs=(
                [self._logprob(each.drawn) for each in answer.logprobs] if self._logprobs else UNSET
            ),
            output_top_logprobs=(
                [[self._logprob(top) for top in each.top] for each in answer.logprobs]
                if self._logprobs
                else UNSET
            ),
        )
        return Generated(answer.text, answer.token_ids, meta, answer.choices[0] if indexed else UNSET)

    def _logprob(self, token: Likely) -> Logprob:
        return token.logprob, token.token_id, text_of(token) if self._logprob_texts else None


def _finish_reason(end: End) -> FinishReason:
    if end.finish_reason == "length":
        return FinishReason("length", length=end.completion_tokens)
    return FinishReason("stop", matched=end.matched_stop)
