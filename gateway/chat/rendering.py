"""Chat completions in bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from dllm_stack.messages import Block
from dllm_stack.outcomes import Problem
from gateway.answer import Answer
from gateway.chat.message import Deltas, call_ids, message
from gateway.chat.protocol import ChatCompletion, ChatRequest, Choice, Chunk, ChunkChoice
from gateway.http import sse
from gateway.http.pieces import document_of
from gateway.logprobs import ChatLogprobs, chat_logprobs
from gateway.statistics import Statistics, Told
from gateway.tools.events import Event
from gateway.tools.offer import Offer
from gateway.tools.reading import Reading
from gateway.usage import StreamUsage, Usage, usage_of


class ChatRendering:
    repeats = False

    def __init__(self, request_id: str, asked: ChatRequest, statistics: bool, offer: Offer | None) -> None:
        self._request_id = request_id
        self._id = f"chatcmpl-{request_id}"
        self._created = int(time.time())
        self._model = asked.model
        self._tier = asked.tier_told
        self._usage = StreamUsage(asked.stream_options)
        self._told = Told(statistics)
        self._with_ids = asked.return_token_ids is True
        self._offer = offer
        self._readings: dict[str, Reading] = {}  # by the answer's id
        self._deltas: dict[int, Deltas] = {}  # by choice

    def document(self, answers: list[Answer]) -> Iterator[bytes]:
        completion = ChatCompletion(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=[],
            usage=usage_of(answers),
            service_tier=self._tier,
            dllm=self._told.of(answers),
        )
        return document_of(completion, (choice for answer in answers for choice in self._choices(answer)))

    def block(self, answer: Answer, block: Block) -> bytes:
        events = self._reading(answer).push(block.text)
        return self._events(answer, events, block.token_ids, chat_logprobs(block.logprobs))

    def end(self, answer: Answer) -> bytes:
        reading = self._reading(answer)
        rest = self._events(answer, reading.finish(), [], None)
        told = UNSET if self._usage.at_end else self._told.of([answer])
        reason = reading.finish_reason(answer.finish_reason)
        return rest + b"".join(
            self._chunk(
                [ChunkChoice(self._deltas_of(index).empty(), reason, index, token_ids=self._ids([]))],
                self._usage.of_chunk(answer),
                told if index == answer.choices[0] else UNSET,
            )
            for index in answer.choices
        )

    def close(self, answers: list[Answer]) -> bytes:
        if not self._usage.at_end:
            return sse.DONE
        return self._chunk([], usage_of(answers), self._told.of(answers)) + sse.DONE

    def failure(self, problem: Problem) -> bytes:
        return sse.event(problem.body())

    def _choices(self, answer: Answer) -> Iterator[Choice]:
        reading = Reading(self._offer)
        events = reading.push(answer.text) + reading.finish()
        reason, ids = reading.finish_reason(answer.finish_reason), self._ids(answer.token_ids)
        logprobs = chat_logprobs(answer.logprobs)
        for index in answer.choices:
            ids_of_calls = call_ids(self._request_id, index)
            yield Choice(message(events, ids_of_calls), reason, index, logprobs, ids)

    def _events(
        self, answer: Answer, events: list[Event], token_ids: list[int], logprobs: ChatLogprobs | None
    ) -> bytes:
        """A chunk of each, under each index; the first tells of the tokens."""
        tells = logprobs is not None or (self._with_ids and token_ids)
        chunks = []
        for index in answer.choices:
            deltas = self._deltas_of(index)
            written = [deltas.of(event) for event in events]
            if tells and not written:
                written = [deltas.empty()]
            for place, delta in enumerate(written):
                choice = ChunkChoice(
                    delta,
                    index=index,
                    logprobs=None if place else logprobs,
                    token_ids=self._ids([] if place else token_ids),
                )
                chunks.append(self._chunk([choice], self._usage.of_chunk(answer)))
        return b"".join(chunks)

    def _reading(self, answer: Answer) -> Reading:
        if answer.id not in self._readings:
            self._readings[answer.id] = Reading(self._offer)
        return self._readings[answer.id]

    def _deltas_of(self, choice: int) -> Deltas:
        if choice not in self._deltas:
            self._deltas[choice] = Deltas(call_ids(self._request_id, choice))
        return self._deltas[choice]

    def _ids(self, token_ids: list[int]) -> list[int] | UnsetType:
        return token_ids if self._with_ids else UNSET

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
