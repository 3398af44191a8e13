"""One thing that a client asks, and what it must be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from tests.conformance.seen import Seen
from tests.conformance.table import CHAT, COMPLETIONS, DIFFUSION, GENERATE

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


def usual(kind: str) -> dict[str, dict[str, Any]]:
    """The body of each path that a case changes. What is drawn unasked is left out."""
    if kind == DIFFUSION:
        return BASE
    generate = BASE[GENERATE] | {"sampling_params": BASE[GENERATE]["sampling_params"] | {"temperature": 0}}
    return {path: body | {"temperature": 0} for path, body in BASE.items()} | {GENERATE: generate}


_MOST_CHARACTERS = 60  # of a name
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
        varies: the answers need not be the same.
    """

    same: bool = False
    check: Callable[[Seen, Seen], None] | None = None
    varies: bool = False


Expect = Refused | Answers
SAME = Answers(same=True)


@dataclass(frozen=True)
class Case:
    """
    Attributes:
        parameter: the row of the table; of sampling_params, with that before it.
        change: of the endpoint's usual body.
        streams: whether it is asked streamed too, or only as it stands.
        model: the kind of model that is asked.
        raw: by the SDK's post, because the endpoint's own method would not send it.
    """

    path: str
    parameter: str
    change: Mapping[str, Any]
    expect: Expect
    streams: bool = True
    raw: bool = False
    model: str = DIFFUSION

    def body(self, name: str, *, stream: bool) -> dict[str, Any]:
        body = {**usual(self.model)[self.path]}
        for field, value in self.change.items():
            if field.startswith("sampling_params."):
                body["sampling_params"] = body["sampling_params"] | {field.partition(".")[2]: value}
            else:
                body[field] = value
        body = {field: value for field, value in body.items() if value is not ABSENT}
        if isinstance(body.get("model"), str):
            body["model"] = body["model"].replace(MODEL, name)
        if stream:
            body["stream"] = True
            if self.path != GENERATE and "stream_options" not in body:
                body["stream_options"] = {"include_usage": True}
        return body

    @property
    def name(self) -> str:
        told = sorted(self.change.items(), key=lambda change: change[0] != self.parameter)
        changes = ", ".join(f"{name}={value!r}" for name, value in told).replace(RENDERED, "...")
        kind = "" if self.model == DIFFUSION else f"{self.model} "
        if len(changes) > _MOST_CHARACTERS:
            changes = f"{changes[:_MOST_CHARACTERS]}... {crc32(changes.encode()):08x}"
        return f"{kind}{_SHORT[self.path]}: {changes}"


def changes(
    path: str, parameter: str, *cases: tuple[Mapping[str, Any], Expect], model: str = DIFFUSION
) -> list[Case]:
    """A case of a parameter for each change. One that says whether to stream is asked as it stands."""
    return [
        Case(path, parameter, change, expect, streams="stream" not in change, model=model)
        for change, expect in cases
    ]
