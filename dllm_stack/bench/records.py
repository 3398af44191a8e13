"""What became of the requests."""

from __future__ import annotations

import msgspec

INTERRUPTED = "interrupted"  # the error of a request that the user broke off


class Chunk(msgspec.Struct, array_like=True, frozen=True):
    """An event of a stream that brought tokens.

    Attributes:
        at_s: seconds from sending the request.
        tokens: new ones in it; None where the server tells only their sum, at the end.
    """

    at_s: float
    tokens: int | None


class Blocks(msgspec.Struct, frozen=True):
    """What an answer has cost, as the server tells it (`dllm: {"stats": true}`)."""

    blocks: int = 0
    tokens: int = 0
    forwards: int | None = None
    steps: int | None = None
    edits: int | None = None


class Record(msgspec.Struct, kw_only=True):
    """One request.

    Attributes:
        due_s: when it was to be sent, in seconds since the start of the run; None: when there was room.
        sent_s: when it was.
        latency_s: from sending it to the last byte of the answer.
        prompt_tokens, output_tokens: by the server's usage; None where it tells none.
        local_prompt_tokens: by the tokenizer here, without what a chat template adds.
        asked_tokens: how many the answer may have.
        error: what kind, "429 queue_full"; None: it was answered whole.
        detail: of the error, in words.
    """

    number: int
    tenant: str
    model: str
    sent_s: float
    local_prompt_tokens: int
    asked_tokens: int
    due_s: float | None = None
    latency_s: float = 0.0
    chunks: list[Chunk] = []
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    retokenized: int | None = None
    blocks: Blocks | None = None
    finish: str | None = None
    text: str = ""
    error: str | None = None
    detail: str = ""

    @property
    def answered(self) -> bool:
        return self.error is None

    @property
    def ttft_s(self) -> float | None:
        """To the first token, of an answer that is not streamed to its end; None: no token has come."""
        return self.chunks[0].at_s if self.chunks else None

    @property
    def input_tokens(self) -> int:
        return self.local_prompt_tokens if self.prompt_tokens is None else self.prompt_tokens

    @property
    def generated(self) -> int:
        """Tokens of the answer; as many as were asked for, where the server tells none."""
        return self.asked_tokens if self.output_tokens is None else self.output_tokens

    def gaps(self) -> list[tuple[float, int | None]]:
        """From each chunk to the next one, in seconds, and the tokens of the later one."""
        return [
            (later.at_s - earlier.at_s, later.tokens)
            for earlier, later in zip(self.chunks, self.chunks[1:], strict=False)
        ]

    def token_latencies(self) -> list[float]:
        """Seconds, inter-token: a chunk of k tokens, d seconds after the one before, is k times d / k.

        Where the server does not tell k a chunk counts once.
        """
        return [each for gap, tokens in self.gaps() for each in [gap / (tokens or 1)] * (tokens or 1)]
