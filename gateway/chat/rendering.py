"""Chat completions in bytes."""

from __future__ import annotations

import time

from msgspec import UNSET, UnsetType

from dllm_stack.messages import Block
from dllm_stack.outcomes import Problem
from gateway import sse
from gateway.answer import Answer
from gateway.chat.protocol import (
    ChatCompletion,
    ChatRequest,
    Choice,
    Chunk,
    ChunkChoice,
    Delta,
    ReplyMessage,
)
from gateway.logprobs import chat_logprobs
from gateway.statistics import Statistics, Told
from gateway.usage import StreamUsage, Usage, usage_of


class ChatRendering:
    def __init__(self, request_id: str, asked: ChatRequest, statistics: bool) -> None:
        self._id = f"chatcmpl-{request_id}"
        self._created = int(time.time())
        self._model = asked.model
        self._tier = asked.tier_told
        self._usage = StreamUsage(asked.stream_options)
        self._told = Told(statistics)
        self._begun = False

    def document(self, answers: list[Answer]) -> bytes:
        (answer,) = answers
        return sse.encode_json(
            ChatCompletion(
                id=self._id,
                created=self._created,
                model=self._model,
                choices=[
                    Choice(
                        ReplyMessage(answer.text),
                        answer.finish_reason,
                        logprobs=chat_logprobs(answer.logprobs),
                    )
                ],
                usage=usage_of(answers),
                service_tier=self._tier,
                dllm=self._told.of(answers),
            )
        )

    def block(self, answer: Answer, block: Block) -> bytes:
        logprobs = chat_logprobs(block.logprobs)
        if not block.text and logprobs is None:
            return b""
        return self._event(answer, ChunkChoice(Delta(self._role(), block.text), logprobs=logprobs))

    def end(self, answer: Answer) -> bytes:
        choice = ChunkChoice(Delta(self._role()), answer.finish_reason)
        told = UNSET if self._usage.at_end else self._told.of([answer])
        return self._chunk([choice], self._usage.of_chunk(answer), told)

    def close(self, answers: list[Answer]) -> bytes:
        if not self._usage.at_end:
            return sse.DONE
        return self._chunk([], usage_of(answers), self._told.of(answers)) + sse.DONE

    def failure(self, problem: Problem) -> bytes:
        return sse.event(problem.body())

    def _role(self) -> str | UnsetType:
        """Only the first delta tells the role."""
        role = UNSET if self._begun else "assistant"
        self._begun = True
        return role

    def _event(self, answer: Answer, choice: ChunkChoice) -> bytes:
        return self._chunk([choice], self._usage.of_chunk(answer))

    def _chunk(
        self,
        choices: list[ChunkChoice],
        usage: Usage | UnsetType | None,
        told: Statistics | UnsetType = UNSET,
    ) -> bytes:
        return sse.event(
            Chunk(
                id=self._id,
                created=self._created,
                model=self._model,
                choices=choices,
                usage=usage,
                service_tier=self._tier,
                dllm=told,
            )
        )
