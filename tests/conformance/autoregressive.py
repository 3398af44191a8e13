"""What an autoregressive model honours and a diffusion model does not, and the other way round."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.conformance.case import MODEL, SAME, TOKENS, Answers, Case, Expect, Refused, changes
from tests.conformance.checks import Check, answers, has_tokens, no_usage, streams
from tests.conformance.seen import Seen
from tests.conformance.table import AUTOREGRESSIVE, CHAT, COMPLETIONS, GENERATE

OPENAI = (CHAT, COMPLETIONS)
INVALID, UNSUPPORTED = "invalid_value", "unsupported_parameter"
TOKEN, FAVOURED, MOST = 22, "7", 5
# The favoured token is drawn several times, and less often where repetition costs something.
_FAVOUR = {"logit_bias": {str(TOKEN): 12}}
_OFTEN = 8
_INSIDE = "sampling_params."


def _case(path: str, parameter: str, change: dict[str, Any], expect: Expect) -> Case:
    (case,) = changes(path, parameter, (change, expect), model=AUTOREGRESSIVE)
    return case


def _says(check: Check, *, varies: bool = False) -> Answers:
    return Answers(check=check, varies=varies)


def _everywhere(name: str, value: Any, expect: Expect, **beside: Any) -> list[Case]:
    """On every endpoint, in `/generate` among its sampling_params."""
    inside = {_INSIDE + other: each for other, each in ({name: value} | beside).items()}
    there = Refused(expect.code, f"{_INSIDE}{expect.param}") if isinstance(expect, Refused) else expect
    return [
        *(_case(path, name, {name: value} | beside, expect) for path in OPENAI),
        _case(GENERATE, _INSIDE + name, inside, there),
    ]


def is_one_token(seen: Seen, usual: Seen) -> None:
    assert seen.tokens == TOKENS
    assert seen.text == seen.text[: len(seen.text) // TOKENS] * TOKENS != usual.text


def says_it(least: int, most: int) -> Check:
    """How often the favoured token is drawn."""

    def check(seen: Seen, usual: Seen) -> None:
        assert least <= seen.text.count(FAVOURED) <= most, seen.text

    return check


def matches(pattern: str) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        assert re.fullmatch(pattern, seen.text), seen.text
        assert seen.finish == "stop"

    return check


def is_json(seen: Seen, usual: Seen) -> None:
    if seen.finish == "stop":
        assert isinstance(json.loads(seen.text), dict)
    else:
        assert seen.text.lstrip().startswith("{")


def is_a_colour(seen: Seen, usual: Seen) -> None:
    assert seen.finish == "stop"
    assert json.loads(seen.text)["colour"] in ("red", "green")


def has_at_least(count: int) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        assert seen.tokens is not None
        assert seen.tokens >= count

    return check


def has_chat_logprobs(top: int) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        content = [each for part in seen.choices[0].logprobs for each in part["content"]]
        assert "".join(each["token"] for each in content) == seen.text == usual.text
        assert all(each["logprob"] <= 0 and len(each["top_logprobs"]) == top for each in content)
        assert all(
            each["logprob"] >= other["logprob"] - 1e-3 for each in content for other in each["top_logprobs"]
        )

    return check


def has_completion_logprobs(top: int) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        parts = seen.choices[0].logprobs
        assert "".join(token for part in parts for token in part["tokens"]) == seen.text == usual.text
        assert all(value <= 0 for part in parts for value in part["token_logprobs"])
        assert all(len(each) >= top for part in parts for each in part["top_logprobs"])
        offsets = [offset for part in parts for offset in part["text_offset"]]
        assert offsets == sorted(offsets)
        assert offsets[0] == 0

    return check


def has_token_logprobs(top: int) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        meta = seen.last["meta_info"]
        assert [token for _, token, _ in meta["output_token_logprobs"]] == seen.choices[0].token_ids
        assert all(value <= 0 for value, *_ in meta["output_token_logprobs"])
        assert not top or all(len(each) == top for each in meta["output_top_logprobs"])

    return check


def has_texts(seen: Seen, usual: Seen) -> None:
    texts = [text for _, _, text in seen.last["meta_info"]["output_token_logprobs"]]
    assert "".join(texts) == seen.text == usual.text


_COLOUR = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green"]}},
    "required": ["colour"],
    "additionalProperties": False,
}
_FORMAT = {"type": "json_schema", "json_schema": {"name": "colour", "schema": _COLOUR, "strict": True}}

SHAPES = [
    *_everywhere("logit_bias", {str(TOKEN): 100}, _says(is_one_token)),
    *_everywhere("logit_bias", {"one": 1}, Refused(INVALID, "logit_bias")),
    *_everywhere("logit_bias", {str(TOKEN): 101}, Refused(INVALID, "logit_bias")),
    *_everywhere("logit_bias", _FAVOUR["logit_bias"], _says(says_it(_OFTEN + 1, TOKENS))),
    # Beside other requests SGLang has once given a penalized one another answer, on a busy machine.
    *_everywhere("presence_penalty", 2, _says(says_it(1, _OFTEN), varies=True), **_FAVOUR),
    *_everywhere("presence_penalty", 3, Refused(INVALID, "presence_penalty")),
    *_everywhere("frequency_penalty", 2, _says(says_it(1, _OFTEN), varies=True), **_FAVOUR),
    *_everywhere("frequency_penalty", -3, Refused(INVALID, "frequency_penalty")),
    *_everywhere("repetition_penalty", 2, _says(says_it(1, _OFTEN), varies=True), **_FAVOUR),
    *_everywhere("repetition_penalty", 0, Refused(INVALID, "repetition_penalty")),
    *_everywhere("min_p", 1, SAME, temperature=1),
    *_everywhere("min_p", 2, Refused(INVALID, "min_p")),
    *_everywhere("regex", "[0-9]{4}", _says(matches("[0-9]{4}"))),
    *_everywhere("ebnf", 'root ::= "yes" | "no"', _says(matches("yes|no"))),
    *_everywhere("json_schema", json.dumps(_COLOUR), _says(is_a_colour)),
    *_everywhere("json_schema", "{", Refused(INVALID, "json_schema")),
    *_everywhere("regex", "a+", Refused(INVALID, "ebnf"), ebnf='root ::= "a"'),
    *(_case(path, "min_tokens", {"min_tokens": 20}, _says(has_at_least(20))) for path in OPENAI),
    *(
        _case(path, "min_tokens", {"min_tokens": TOKENS + 1}, Refused(INVALID, "min_tokens"))
        for path in OPENAI
    ),
    _case(
        GENERATE,
        "sampling_params.min_new_tokens",
        {"sampling_params.min_new_tokens": 20},
        _says(has_at_least(20)),
    ),
    *(
        case
        for path in OPENAI
        for case in changes(
            path,
            "response_format",
            ({"response_format": {"type": "text"}}, SAME),
            ({"response_format": {"type": "json_object"}}, _says(is_json)),
            ({"response_format": _FORMAT}, _says(is_a_colour)),
            (
                {"response_format": {"type": "json_schema"}},
                Refused("missing_required_parameter", "response_format.json_schema"),
            ),
            model=AUTOREGRESSIVE,
        )
    ),
]

LOGPROBS = [
    _case(CHAT, "logprobs", {"logprobs": True}, _says(has_chat_logprobs(0))),
    _case(CHAT, "logprobs", {"logprobs": 1}, Refused(INVALID, "logprobs")),
    _case(CHAT, "top_logprobs", {"logprobs": True, "top_logprobs": 2}, _says(has_chat_logprobs(2))),
    _case(CHAT, "top_logprobs", {"logprobs": True, "top_logprobs": 21}, Refused(INVALID, "top_logprobs")),
    _case(COMPLETIONS, "logprobs", {"logprobs": 2}, _says(has_completion_logprobs(2))),
    _case(COMPLETIONS, "logprobs", {"logprobs": MOST + 1}, Refused(INVALID, "logprobs")),
    _case(GENERATE, "return_logprob", {"return_logprob": True}, _says(has_token_logprobs(0))),
    _case(
        GENERATE,
        "return_text_in_logprobs",
        {"return_logprob": True, "return_text_in_logprobs": True},
        _says(has_texts),
    ),
    _case(
        GENERATE,
        "top_logprobs_num",
        {"return_logprob": True, "top_logprobs_num": 2},
        _says(has_token_logprobs(2)),
    ),
]

DRAWN = [
    *_everywhere("temperature", 0, SAME),
    *_everywhere("temperature", 1.5, _says(answers, varies=True)),
    *_everywhere("temperature", 2.5, Refused(INVALID, "temperature")),
    *_everywhere("top_p", 0.5, _says(answers, varies=True), temperature=1),
    *_everywhere("top_k", 1, SAME, temperature=1),
    *(_case(path, "seed", {"seed": 7}, Refused(UNSUPPORTED, "seed")) for path in OPENAI),
    _case(
        GENERATE,
        "sampling_params.sampling_seed",
        {"sampling_params.sampling_seed": 7},
        Refused(UNSUPPORTED, "sampling_params.sampling_seed"),
    ),
    *_everywhere("stop_token_ids", [TOKEN], _says(answers)),
]

OTHERS = [
    *(_case(path, "dllm", {"dllm": {"mode": "speed"}}, Refused(UNSUPPORTED, "dllm")) for path in OPENAI),
    *(
        _case(path, "model", {"model": f"{MODEL}:speed"}, Refused("model_not_found", "model", 404))
        for path in (*OPENAI, GENERATE)
    ),
    *(_case(path, "max_tokens", {"max_tokens": 5}, _says(has_tokens(5))) for path in OPENAI),
    *(_case(path, "stream", {"stream": True}, _says(streams)) for path in (*OPENAI, GENERATE)),
    *(
        _case(path, "stream_options", {"stream": True, "stream_options": {}}, _says(no_usage))
        for path in OPENAI
    ),
]

CASES = (*SHAPES, *LOGPROBS, *DRAWN, *OTHERS)
