"""Log probabilities of tokens, as OpenAI's two endpoints and SGLang's tell them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dllm_stack.messages import Likely, TokenLogprob


class TopLogprob(msgspec.Struct, frozen=True):
    token: str
    bytes: list[int]
    logprob: float


class ChatLogprob(msgspec.Struct, frozen=True):
    token: str
    bytes: list[int]
    logprob: float
    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct, frozen=True):
    content: list[ChatLogprob]
    refusal: None = None


class CompletionLogprobs(msgspec.Struct, frozen=True):
    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]  # the token drawn is always among them
    text_offset: list[int]  # characters of the answer before each token


def chat_logprobs(logprobs: Sequence[TokenLogprob]) -> ChatLogprobs | None:
    """Those of the tokens that are part of the text. None: the request did not ask."""
    if not logprobs:
        return None
    return ChatLogprobs(
        [
            ChatLogprob(
                text_of(each.drawn),
                list(each.drawn.utf8),
                each.drawn.logprob,
                [TopLogprob(text_of(top), list(top.utf8), top.logprob) for top in each.top],
            )
            for each in logprobs
            if each.shown
        ]
    )


def completion_logprobs(logprobs: Sequence[TokenLogprob], offset: int = 0) -> CompletionLogprobs | None:
    """Those of the tokens that are part of the text. None: the request did not ask.

    Args:
        offset: characters of the answer before the first of them; see `characters`.
    """
    if not logprobs:
        return None
    shown = [each for each in logprobs if each.shown]
    offsets = []
    for each in shown:
        offsets.append(offset)
        offset += characters([each])
    return CompletionLogprobs(
        [text_of(each.drawn) for each in shown],
        [each.drawn.logprob for each in shown],
        [{text_of(each): each.logprob for each in (*one.top, one.drawn)} for one in shown],
        offsets,
    )


def characters(logprobs: Iterable[TokenLogprob]) -> int:
    """Of the text of these tokens; one that is cut counts with its first byte."""
    return sum((byte & 0xC0) != 0x80 for each in logprobs if each.shown for byte in each.drawn.utf8)


def text_of(token: Likely) -> str:
    """A token's text; of one that is a part of a character, its bytes, as OpenAI writes them."""
    try:
        return token.utf8.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.utf8)
