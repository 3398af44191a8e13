"""One thing that a client asks, and what it must be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.conformance.seen import Seen
from tests.conformance.table import CHAT, COMPLETIONS, GENERATE

MODEL = "MODEL"  # stands for the name of the model under test
TOKENS = 24  # more than a block, whatever the prompt leaves of the first
QUESTION = {"role": "user", "content": "Write the number from 1 to 128"}
RENDERED = (
    "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>"
    "Write the number from 1 to 128<|role_end|><role>ASSISTANT</role>"
)

BASE: dict[str, dict[str, Any]] = {
    CHAT: {"model": MODEL, "messages": [QUESTION], "max_tokens": TOKENS},
    COMPLETIONS: {"model": MODEL, "prompt": RENDERED, "max_tokens": TOKENS},
    GENERATE: {"model": MODEL, "text": RENDERED, "sampling_params": {"max_new_tokens": TOKENS}},
}

_SHORT = {CHAT: "chat", COMPLETIONS: "completions", GENERATE: "generate"}


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


@dataclass(frozen=True)
class Refused:
    code: str
    param: str | None
    status: int = 400
    type: str = "invalid_request_error"


@dataclass(frozen=True)
class Answers:
    """
    Attributes:
        same: as without the change.
        check: says what is right of an answer, given the one without the change, by asserting.
        varies: every answer is another.
    """

    same: bool = False
    check: Callable[[Seen, Seen], None] | None = None
    varies: bool = False


SAME = Answers(same=True)


@dataclass(frozen=True)
class Case:
    """
    Attributes:
        parameter: the row of the table; of sampling_params, with that before it.
        change: of the endpoint's usual body.
        streams: whether it is asked streamed too, or only as it stands.
        raw: by the SDK's post, because the endpoint's own method would not send it.
    """

    path: str
    parameter: str
    change: Mapping[str, Any]
    expect: Refused | Answers
    streams: bool = True
    raw: bool = False

    def body(self, model: str, *, stream: bool) -> dict[str, Any]:
        body = {**BASE[self.path]}
        for name, value in self.change.items():
            if name.startswith("sampling_params."):
                body["sampling_params"] = body["sampling_params"] | {name.partition(".")[2]: value}
            else:
                body[name] = value
        body = {name: value for name, value in body.items() if value is not ABSENT}
        if isinstance(body.get("model"), str):
            body["model"] = body["model"].replace(MODEL, model)
        if stream:
            body["stream"] = True
            if self.path != GENERATE and "stream_options" not in body:
                body["stream_options"] = {"include_usage": True}
        return body

    @property
    def name(self) -> str:
        changes = ", ".join(f"{name}={value!r}" for name, value in self.change.items())
        return f"{_SHORT[self.path]}: {changes.replace(RENDERED, '...')[:120]}"
