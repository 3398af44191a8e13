"""Text completions in bytes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from dllm_stack.messages import Block
from dllm_stack.outcomes import Problem
from gateway.answer import Answer
from gateway.completions.protocol import Choice, Completion, CompletionRequest
from gateway.http import sse
from gateway.http.pieces import document_of
from gateway.logprobs import characters, completion_logprobs
from gateway.statistics import Statistics, Told
from gateway.usage import StreamUsage, Usage, usage_of


class CompletionRendering:
    repeats = False

    def __init__(self, request_id: str, asked: CompletionRequest, statistics: bool) -> None:
        self._id = f"cmpl-{request_id}"
        self._created = int(time.time())
        self._model = asked.model
        self._tier = asked.tier_told
        self._usage = StreamUsage(asked.stream_options)
        self._told = Told(statistics)
        self._with_ids = asked.return_token_ids is True
        self._characters: defaultdict[str, int] = defaultdict(int)  # of each answer's tokens so far

    def document(self, answers: list[Answer]) -> Iterator[bytes]:
        completion = self._completion([], usage_of(answers), self._told.of(answers))
        return document_of(completion, (choice for answer in answers for choice in self._choices(answer)))

    def block(self, answer: Answer, block: Block) -> bytes:
        ids = self._ids(block.token_ids)
        offset = self._characters[answer.id]
        logprobs = completion_logprobs(block.logprobs, offset)
        self._characters[answer.id] = offset + characters(block.logprobs)
        if not (block.text or ids or logprobs):
            return b""
        return b"".join(
            self._event(answer, Choice(block.text, index, logprobs=logprobs, token_ids=ids))
            for index in answer.choices
        )

    def end(self, answer: Answer) -> bytes:
        told = UNSET if self._usage.at_end else self._told.of([answer])
        return b"".join(
            self._event(
                answer,
                Choice("", index, answer.finish_reason, token_ids=self._ids([])),
                told if index == answer.choices[0] else UNSET,
            )
            for index in answer.choices
        )

    def close(self, answers: list[Answer]) -> bytes:
        if not self._usage.at_end:
            return sse.DONE
        return sse.event(self._completion([], usage_of(answers), self._told.of(answers))) + sse.DONE

    def failure(self, problem: Problem) -> bytes:
        return sse.event(problem.body())

    def _choices(self, answer: Answer) -> Iterator[Choice]:
        logprobs, ids = completion_logprobs(answer.logprobs), self._ids(answer.token_ids)
        for index in answer.choices:
            yield Choice(answer.text, index, answer.finish_reason, logprobs, ids)

    def _ids(self, token_ids: list[int]) -> list[int] | UnsetType:
        return token_ids if self._with_ids else UNSET

    def _event(self, answer: Answer, choice: Choice, told: Statistics | UnsetType = UNSET) -> bytes:
        return sse.event(self._completion([choice], self._usage.of_chunk(answer), told))

    def _completion(
        self, choices: list[Choice], usage: Usage | UnsetType | None, told: Statistics | UnsetType = UNSET
    ) -> Completion:
        return Completion(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=choices,
            usage=usage,
            service_tier=self._tier,
            dllm=told,
        )
