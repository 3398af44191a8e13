"""How each endpoint is asked, and how its answers are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from dllm_stack.bench.asks import Ask
from dllm_stack.bench.records import Blocks


@dataclass(frozen=True)
class Manner:
    """What all bodies of a run have in common.

    Attributes:
        stats: ask what blocks have cost; servers other than dllm-stack's may refuse that.
        extra: fields of the body, over all others.
    """

    model: str
    stream: bool = True
    ignore_eos: bool = True
    stats: bool = False
    extra: dict[str, Any] | None = None

    def model_of(self, ask: Ask) -> str:
        return ask.tenant.model or self.model


@dataclass
class Answer:
    """What has come so far.

    Attributes:
        tokens: None until the server tells a number.
        over: the last event has come, or all of the document.
        error: its code, and its message.
    """

    text: str = ""
    tokens: int | None = None
    prompt_tokens: int | None = None
    blocks: Blocks | None = None
    finish: str | None = None
    over: bool = False
    error: tuple[str, str] | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None

    def said(self) -> str:
        words = self.delta or self.message
        if words is not None:
            return (words.reasoning_content or "") + (words.content or "")
        return self.text or ""


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Error(msgspec.Struct):
    message: str = ""
    code: str | int | None = None
    type: str | None = None


class _OpenAIEvent(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    dllm: Blocks | None = None
    error: _Error | str | None = None


class _Finish(msgspec.Struct):
    type: str = ""


class _Meta(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: _Finish | None = None
    dllm: Blocks | None = None


class _GenerateEvent(msgspec.Struct):
    text: str = ""
    meta_info: _Meta = msgspec.field(default_factory=_Meta)
    error: _Error | str | None = None


class _Refusal(msgspec.Struct):
    """OpenAI's shape, SGLang's or FastAPI's."""

    error: _Error | str | None = None
    message: str = ""
    code: str | int | None = None
    type: str | None = None


_openai = msgspec.json.Decoder(_OpenAIEvent)
_generate = msgspec.json.Decoder(_GenerateEvent)
_refusal = msgspec.json.Decoder(_Refusal)


@dataclass(frozen=True)
class Endpoint:
    """
    Attributes:
        backend: what `sglang.bench_serving` calls it.
        read: takes one event, or the document, into the answer.

    Raises (`read`):
        msgspec.MsgspecError: this is no answer.
    """

    name: str
    backend: str
    path: str
    body: Callable[[Ask, Manner], dict[str, Any]]
    read: Callable[[bytes, Answer], None]


def _chat(ask: Ask, manner: Manner) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": ask.prompt.content}]}
    return body | {"max_completion_tokens": ask.prompt.output_tokens} | _common(ask, manner)


def _completions(ask: Ask, manner: Manner) -> dict[str, Any]:
    return {"prompt": ask.prompt.content, "max_tokens": ask.prompt.output_tokens} | _common(ask, manner)


def _common(ask: Ask, manner: Manner) -> dict[str, Any]:
    body: dict[str, Any] = {"model": manner.model_of(ask), "stream": manner.stream, "temperature": 0.0}
    body["ignore_eos"] = manner.ignore_eos
    if manner.stream:
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if manner.stats:
        body["dllm"] = {"stats": True}
    return body | ask.tenant.extra | (manner.extra or {})


def _native(ask: Ask, manner: Manner) -> dict[str, Any]:
    content = ask.prompt.content
    sampling: dict[str, Any] = {
        "temperature": 0.0,
        "max_new_tokens": ask.prompt.output_tokens,
        "ignore_eos": manner.ignore_eos,
    }
    if manner.stats:
        sampling["custom_params"] = {"dllm": {"stats": True}}
    body = {
        "model": manner.model_of(ask),
        "text" if isinstance(content, str) else "input_ids": content,
        "sampling_params": sampling,
        "stream": manner.stream,
    }
    return body | ask.tenant.extra | (manner.extra or {})


def _read_openai(event: bytes, answer: Answer) -> None:
    read = _openai.decode(event)
    if read.error is not None:
        answer.error = _told(read.error)
        return
    for choice in read.choices[:1]:
        answer.text += choice.said()
        answer.finish = choice.finish_reason or answer.finish
    if read.usage is not None:
        answer.tokens = read.usage.completion_tokens
        answer.prompt_tokens = read.usage.prompt_tokens
    answer.blocks = read.dllm or answer.blocks


def _read_generate(event: bytes, answer: Answer) -> None:
    """Each event has all of the text so far."""
    read = _generate.decode(event)
    if read.error is not None:
        answer.error = _told(read.error)
        return
    meta = read.meta_info
    answer.text = read.text or answer.text
    answer.tokens = answer.tokens if meta.completion_tokens is None else meta.completion_tokens
    answer.prompt_tokens = answer.prompt_tokens if meta.prompt_tokens is None else meta.prompt_tokens
    if meta.finish_reason is not None:
        answer.finish = meta.finish_reason.type
    answer.blocks = meta.dllm or answer.blocks


def refusal(body: bytes) -> tuple[str, str]:
    """Code and message of an error's body, if they can be made out."""
    try:
        read = _refusal.decode(body)
    except msgspec.MsgspecError:
        return "", body[:200].decode(errors="replace")
    return _told(read.error if read.error is not None else _Error(read.message, read.code, read.type))


def _told(error: _Error | str) -> tuple[str, str]:
    if isinstance(error, str):
        return "", error
    return str(error.code or error.type or ""), error.message


CHAT = Endpoint("chat", "sglang-oai-chat", "/v1/chat/completions", _chat, _read_openai)
COMPLETIONS = Endpoint("completions", "sglang-oai", "/v1/completions", _completions, _read_openai)
GENERATE = Endpoint("generate", "sglang", "/generate", _native, _read_generate)
ENDPOINTS = {name: each for each in (CHAT, COMPLETIONS, GENERATE) for name in (each.name, each.backend)}
