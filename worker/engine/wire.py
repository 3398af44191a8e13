"""SGLang's answers, as far as they are read."""

from __future__ import annotations

from itertools import zip_longest

import msgspec

from dllm_stack.messages import Work
from dllm_stack.work import NONE


class Finish(msgspec.Struct, frozen=True):
    type: str  # stop | length | abort
    matched: int | str | list[int] | None = None
    message: str | None = None
    status_code: int | None = None


class StreamError(msgspec.Struct, frozen=True):
    message: str
    code: int | None = None


Logprob = tuple[float | None, int, str | None]
"""A token's log probability, null where it is none, its id, and its text, which nothing asks for."""


class Logprobs(msgspec.Struct, frozen=True):
    """Of one token: its own, and the likeliest at its place, the best first."""

    drawn: Logprob
    top: list[Logprob]


class Meta(msgspec.Struct):
    finish_reason: Finish | None = None
    cached_tokens: int = 0
    # For each token that the event has, where the request asks for them.
    output_token_logprobs: list[Logprob] = []
    output_top_logprobs: list[list[Logprob] | None] = []
    # For each token of the answer so far; none where no request of a round has said anything.
    dllm_forwards: list[int | None] = []
    dllm_steps: list[int | None] = []
    dllm_edits: list[int | None] = []

    def work(self, begin: int, end: int) -> list[Work]:
        """Of the tokens between two places."""
        if not self.dllm_forwards:
            return []
        counts = zip_longest(
            self.dllm_forwards[begin:end], self.dllm_steps[begin:end], self.dllm_edits[begin:end]
        )
        return [
            Work(forwards=forwards or 0, steps=steps or 0, edits=edits or 0) if forwards or edits else NONE
            for forwards, steps, edits in counts
        ]

    def logprobs(self, begin: int, end: int) -> list[Logprobs]:
        """Of the tokens between two places."""
        tops = self.output_top_logprobs[begin:end]
        return [
            Logprobs(drawn, top or [])
            for drawn, top in zip_longest(self.output_token_logprobs[begin:end], tops)
            if drawn is not None
        ]


class Event(msgspec.Struct):
    output_ids: list[int] = []
    meta_info: Meta | None = None
    error: StreamError | None = None


class Prefill(msgspec.Struct):
    fallback: str | None = None


class State(msgspec.Struct):
    effective_max_running_requests_per_dp: int
    # From the extension, where it is loaded:
    dllm_slots: int | None = None
    dllm_prefill: Prefill | None = None

    @property
    def fallback(self) -> str | None:
        return None if self.dllm_prefill is None else self.dllm_prefill.fallback

    @property
    def slots(self) -> int:
        return self.effective_max_running_requests_per_dp if self.dllm_slots is None else self.dllm_slots


class ServerInfo(msgspec.Struct):
    max_req_input_len: int  # exclusive
    max_total_num_tokens: int  # of the KV cache
    internal_states: list[State]  # one a data-parallel rank
    max_running_requests: int | None = None
    dllm_algorithm: str | None = None
    attention_backend: str | None = None
    device: str | None = None
    tp_size: int = 1
    enable_deterministic_inference: bool = False
    incremental_streaming_output: bool = False


class ModelEntry(msgspec.Struct):
    max_model_len: int


class Models(msgspec.Struct):
    data: list[ModelEntry]
