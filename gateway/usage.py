"""OpenAI's `usage`."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from gateway.answer import Answer
from gateway.fields.openai import StreamOptions


class PromptTokensDetails(msgspec.Struct, frozen=True):
    cached_tokens: int


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


def usage_of(answers: list[Answer]) -> Usage:
    """Each prompt once, each choice. Of answers still running, what they have used so far."""
    first = [answer for answer in answers if answer.is_first]
    prompt = sum(answer.prompt_tokens for answer in first)
    completion = sum(answer.completion_tokens * len(answer.choices) for answer in answers)
    cached = sum(answer.end.cached_tokens for answer in first if answer.end)
    return _usage(prompt, completion, cached)


def _usage(prompt: int, completion: int, cached: int) -> Usage:
    return Usage(prompt, completion, prompt + completion, PromptTokensDetails(cached))


class StreamUsage:
    """When a stream tells its usage: never, at its end, or with every chunk."""

    def __init__(self, options: StreamOptions | None) -> None:
        self.at_end = options is not None and options.include_usage is True
        self._always = self.at_end and options is not None and options.continuous_usage_stats is True

    def of_chunk(self, answer: Answer) -> Usage | UnsetType | None:
        """`usage` of a chunk that is not the last: absent, or null as OpenAI has it, or a figure."""
        if self._always:
            cached = answer.end.cached_tokens if answer.end else 0
            return _usage(answer.prompt_tokens, answer.completion_tokens, cached)
        return None if self.at_end else UNSET
