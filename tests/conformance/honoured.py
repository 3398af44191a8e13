"""What each honoured parameter does, and which of its values are refused."""

from __future__ import annotations

from typing import Any

from tests.conformance.case import (
    ABSENT,
    MODEL,
    QUESTION,
    RENDERED,
    SAME,
    TOKENS,
    Answers,
    Case,
    Expect,
    Refused,
)
from tests.conformance.checks import (
    Check,
    answers,
    contains,
    costs,
    counts,
    ended_by,
    ends_before,
    goes_on,
    has_choices,
    has_tokens,
    is_at_once,
    named,
    no_usage,
    several,
    stops_by_itself,
    streams,
    tells,
    usage_always,
    usage_is_last,
)
from tests.conformance.table import CHAT, COMPLETIONS, GENERATE

INVALID, MISSING, UNSUPPORTED = "invalid_value", "missing_required_parameter", "unsupported_parameter"
NOT_FOUND = Refused("model_not_found", "model", 404)
TOO_LONG = "context_length_exceeded"
UNKNOWN = "mood"  # no parameter of anything
OPENAI = (CHAT, COMPLETIONS)
EVERYWHERE = (CHAT, COMPLETIONS, GENERATE)
DIGIT_3, SEPARATOR = 24, 262  # tokens of the demo model


def _user(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **fields}


def _says(check: Check) -> Answers:
    return Answers(check=check)


def _case(path: str, name: str, change: dict[str, Any], expect: Expect) -> Case:
    return Case(path, name, change, expect, streams="stream" not in change)


def _each(path: str, name: str, *cases: tuple[Any, Expect], **beside: Any) -> list[Case]:
    """A case for each value of a parameter, beside others."""
    return [_case(path, name, {name: value} | beside, expect) for value, expect in cases]


def _everywhere(paths: tuple[str, ...], name: str, value: Any, expect: Expect, **beside: Any) -> list[Case]:
    return [_case(path, name, {name: value} | beside, expect) for path in paths]


def _sampled(name: str, value: Any, expect: Expect, **more: Any) -> list[Case]:
    """On every endpoint, in `/generate` among its sampling_params."""
    cases = _everywhere(OPENAI, name, value, expect, **more)
    inside = {f"sampling_params.{other}": each for other, each in more.items()}
    generate = f"sampling_params.{name}"
    if isinstance(expect, Refused) and expect.param:
        expect = Refused(expect.code, f"sampling_params.{expect.param}", expect.status)
    return [*cases, Case(GENERATE, generate, {generate: value} | inside, expect)]


def _seeded(seed: int | None) -> dict[str, dict[str, Any]]:
    name = "sampling_params.sampling_seed"
    return {path: {"seed": seed} for path in OPENAI} | {GENERATE: {name: seed}}


MODELS = [
    *_everywhere(EVERYWHERE, "model", MODEL, _says(counts)),
    *_everywhere(EVERYWHERE, "model", f"{MODEL}:speed", _says(answers)),
    *_everywhere(OPENAI, "model", f"{MODEL}:quality", _says(named(":quality"))),
    *_everywhere(EVERYWHERE, "model", "gpt-9", NOT_FOUND),
    *_everywhere(EVERYWHERE, "model", f"{MODEL}:slow", NOT_FOUND),
    *_everywhere(EVERYWHERE, "model", 5, Refused(INVALID, "model")),
    *_everywhere(OPENAI, "model", None, Refused(INVALID, "model")),
    Case(CHAT, "model", {"model": ABSENT}, Refused(MISSING, "model"), raw=True),
    Case(CHAT, "messages", {"messages": ABSENT}, Refused(MISSING, "messages"), raw=True),
    Case(COMPLETIONS, "prompt", {"prompt": ABSENT}, Refused(MISSING, "prompt"), raw=True),
]

_WEATHER_ASKED = [
    _user("What is the weather in Paris?"),
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": '{"weather": "sunny", "degrees": 21}'},
]

MESSAGES = _each(
    CHAT,
    "messages",
    (
        [_user([{"type": "text", "text": "Write the number "}, {"type": "text", "text": "from 1 to 128"}])],
        SAME,
    ),
    ([_user("Write the number from 1 to 128", name="ann")], _says(answers)),
    ([{"role": "system", "content": "Be brief."}, QUESTION], _says(contains("1, 2, 3"))),
    ([{"role": "developer", "content": "Be brief."}, QUESTION], _says(contains("1, 2, 3"))),
    (
        [_user("Count from 3 to 6."), {"role": "assistant", "content": "3, 4, 5, 6"}, QUESTION],
        _says(contains("1, 2, 3")),
    ),
    (_WEATHER_ASKED, _says(answers)),
    ([_user("从1数到5")], _says(answers)),
    ([], Refused(INVALID, "messages")),
    ("Hello", Refused(INVALID, "messages")),
    (None, Refused(INVALID, "messages")),
    ([{"role": "robot", "content": "Hello"}], Refused(INVALID, "messages[0].role")),
    ([{"role": "user"}], Refused(MISSING, "messages[0].content")),
    ([_user(5)], Refused(INVALID, "messages[0].content")),
    ([_user("Hello", mood="good")], Refused(UNSUPPORTED, "messages[0].mood")),
    (
        [_user([{"type": "image_url", "image_url": {"url": "data:,"}}])],
        Refused(UNSUPPORTED, "messages[0].content[0]"),
    ),
    ([_user("long " * 4000)], Refused(TOO_LONG, "messages")),
)

PROMPTS = [
    *_each(
        COMPLETIONS,
        "prompt",
        ([22, SEPARATOR, 23, SEPARATOR, 24], _says(answers)),
        ([RENDERED, "The Great Wall"], _says(several(2))),
        ([[22, SEPARATOR], [23]], _says(has_choices(2))),
        ([RENDERED], SAME),
        ("", Refused(INVALID, "prompt")),
        ([], Refused(INVALID, "prompt")),
        (["a", 1], Refused(INVALID, "prompt")),
        ([1] * 5000, Refused(TOO_LONG, "prompt")),
        ([10**6], Refused(INVALID, "prompt")),
    ),
    *_each(
        GENERATE,
        "text",
        ([RENDERED], SAME),
        ([RENDERED, "The Great Wall"], _says(several(2))),
        ("", Refused(INVALID, "text")),
        (ABSENT, Refused(MISSING, "text")),
    ),
    *_each(
        GENERATE,
        "input_ids",
        ([22, SEPARATOR, 23, SEPARATOR], _says(answers)),
        ([[22], [23, SEPARATOR]], _says(has_choices(2))),
        (["a"], Refused(INVALID, "input_ids")),
        text=ABSENT,
    ),
    *_each(GENERATE, "input_ids", ([22], Refused(INVALID, "input_ids"))),
    *_each(
        GENERATE,
        "sampling_params",
        ({"max_new_tokens": 5}, _says(has_tokens(5))),
        ([{}], Refused(INVALID, "sampling_params")),
        ({"mood": 1}, Refused(UNSUPPORTED, "sampling_params.mood")),
    ),
]

LENGTHS = [
    *_everywhere(OPENAI, "max_tokens", 5, _says(has_tokens(5))),
    *_everywhere(OPENAI, "max_tokens", 33, _says(has_tokens(33))),
    *_everywhere(OPENAI, "max_tokens", 0, Refused(INVALID, "max_tokens")),
    *_everywhere(OPENAI, "max_tokens", "many", Refused(INVALID, "max_tokens")),
    *_everywhere(OPENAI, "max_tokens", 10**6, Refused(TOO_LONG, "max_tokens")),
    Case(COMPLETIONS, "max_tokens", {"max_tokens": ABSENT}, _says(has_tokens(16))),
    Case(
        CHAT,
        "max_completion_tokens",
        {"max_tokens": ABSENT, "max_completion_tokens": 7},
        _says(has_tokens(7)),
    ),
    Case(CHAT, "max_completion_tokens", {"max_completion_tokens": TOKENS}, SAME),
    Case(
        CHAT, "max_completion_tokens", {"max_completion_tokens": 7}, Refused(INVALID, "max_completion_tokens")
    ),
    Case(
        GENERATE,
        "sampling_params.max_new_tokens",
        {"sampling_params.max_new_tokens": 5},
        _says(has_tokens(5)),
    ),
    Case(
        GENERATE,
        "sampling_params.max_new_tokens",
        {"sampling_params.max_new_tokens": -1},
        Refused(INVALID, "sampling_params.max_new_tokens"),
    ),
]

STOPS = [
    *_sampled("stop", "9, 10", _says(ends_before("9, 10"))),
    *_sampled("stop", ["no such text", "0, 11", "7, 8", "5, 6, 7, 9"], _says(ends_before("7, 8"))),
    *_sampled("stop", ["never said"], SAME),
    *_sampled("stop", None, SAME),
    *_sampled("stop", "", Refused(INVALID, "stop")),
    *_sampled("stop", ["a"] * 5, Refused(INVALID, "stop")),
    *_sampled("stop_token_ids", [DIGIT_3], _says(ends_before("3", counted=5))),
    *_sampled("stop_token_ids", [-1], Refused(INVALID, "stop_token_ids[0]")),
    *_sampled("stop_token_ids", [DIGIT_3], Refused(INVALID, "stop_token_ids"), ignore_eos=True),
    *_sampled("ignore_eos", False, SAME),
    *_sampled("ignore_eos", 1, Refused(INVALID, "ignore_eos")),
    Case(CHAT, "ignore_eos", {"messages": [_user("Count from 1 to 5.")]}, _says(stops_by_itself)),
    Case(CHAT, "ignore_eos", {"messages": [_user("Count from 1 to 5.")], "ignore_eos": True}, _says(goes_on)),
    Case(COMPLETIONS, "ignore_eos", {"prompt": [22], "ignore_eos": True}, _says(goes_on)),
    Case(
        GENERATE,
        "sampling_params.ignore_eos",
        {"text": "1", "sampling_params.ignore_eos": True},
        _says(goes_on),
    ),
    Case(GENERATE, "sampling_params.stop", {"sampling_params.stop": ["7"]}, _says(ended_by("7"))),
    Case(
        GENERATE,
        "sampling_params.stop_token_ids",
        {"sampling_params.stop_token_ids": [DIGIT_3, 30]},
        _says(ended_by(DIGIT_3)),
    ),
]

STREAMS = [
    *_everywhere(EVERYWHERE, "stream", True, _says(streams)),
    *_everywhere(EVERYWHERE, "stream", False, _says(is_at_once)),
    *_everywhere(EVERYWHERE, "stream", "yes", Refused(INVALID, "stream")),
    *(
        case
        for path in OPENAI
        for case in _each(
            path,
            "stream_options",
            ({"include_usage": True}, _says(usage_is_last)),
            ({"include_usage": True, "continuous_usage_stats": True}, _says(usage_always)),
            ({"include_usage": False}, _says(no_usage)),
            ({"include_obfuscation": True}, _says(no_usage)),
            (None, _says(no_usage)),
            ({"include_usage": 1}, Refused(INVALID, "stream_options.include_usage")),
            ({"more": True}, Refused(UNSUPPORTED, "stream_options.more")),
            stream=True,
        )
    ),
    *_everywhere(
        OPENAI, "stream_options", {"include_usage": True}, Refused(INVALID, "stream_options"), stream=False
    ),
]


def _dllm(value: Any, expect: Expect, **more: Any) -> list[Case]:
    """As `dllm`, and as /generate has it."""
    custom = "sampling_params.custom_params"
    inside = {f"sampling_params.{name}": each for name, each in more.items()}
    there = expect
    if isinstance(expect, Refused):
        there = Refused(expect.code, f"{custom}.{expect.param}", expect.status)
    return [
        *_everywhere(OPENAI, "dllm", value, expect, **more),
        Case(GENERATE, custom, {custom: {"dllm": value}} | inside, there),
    ]


DECODING = [
    *_dllm({}, SAME),
    *_dllm({"stats": True}, _says(costs)),
    *_dllm({"mode": "quality"}, SAME),
    *_dllm({"mode": "speed"}, _says(answers)),
    *_dllm({"mode": "quality", "threshold": 0.8}, _says(answers)),
    *_dllm({"algorithm": "Hierarchical", "low_threshold": 0.3}, _says(answers)),
    *_dllm({"mode": "slow"}, Refused(INVALID, "dllm.mode")),
    *_dllm({"threshold": 2}, Refused(INVALID, "dllm.threshold")),
    *_dllm({"algorithm": "LowConfidence", "entropy_bound": 1}, Refused(UNSUPPORTED, "dllm.entropy_bound")),
    *_dllm({"algorithm": "LowConfidence", "mode": "speed"}, Refused(INVALID, "dllm.algorithm")),
    Case(
        GENERATE,
        "sampling_params.custom_params",
        {"sampling_params.custom_params": {"other": 1}},
        Refused(UNSUPPORTED, "sampling_params.custom_params.other"),
    ),
]

SAMPLING = [
    *_sampled("temperature", 0, SAME),
    *_sampled("temperature", 1, Answers(check=answers, varies=True)),
    *_sampled("temperature", 2.5, Refused(INVALID, "temperature")),
    *_sampled("temperature", "0", Refused(INVALID, "temperature")),
    *(
        Case(
            path,
            "temperature",
            {"model": f"{MODEL}:speed", "temperature": 0.5},
            Refused(UNSUPPORTED, "temperature"),
        )
        for path in OPENAI
    ),
    *_sampled("top_p", 1, SAME),
    *_sampled("top_p", 0.9, Refused(UNSUPPORTED, "top_p")),
    *_sampled("top_p", 0, Refused(INVALID, "top_p")),
    *_sampled("top_k", 1, SAME),
    *_sampled("top_k", 5, Refused(UNSUPPORTED, "top_k")),
    *_sampled("top_k", -2, Refused(INVALID, "top_k")),
    *(
        Case(path, prefix + name, {prefix + name: value, prefix + "temperature": 1} | seed, _says(answers))
        for path, seed in _seeded(7).items()
        for prefix in ["sampling_params." if path == GENERATE else ""]
        for name, value in [("top_p", 0.9), ("top_k", 5)]
    ),
    *(
        Case(path, name, {temperature: 2, name: value}, _says(answers))
        for path, seed in _seeded(7).items()
        for name, value in seed.items()
        for temperature in ["sampling_params.temperature" if path == GENERATE else "temperature"]
    ),
    *(
        Case(path, name, {name: value}, Refused(UNSUPPORTED, name))
        for path, seed in _seeded(7).items()
        for name, value in seed.items()
    ),
    *(
        Case(path, name, {name: value}, Refused(INVALID, name))
        for path, seed in _seeded(2**63).items()
        for name, value in seed.items()
    ),
]


def _on_terms(name: str, value: Any, expect: Expect) -> list[Case]:
    return _everywhere(EVERYWHERE, name, value, expect)


TERMS = [
    *_everywhere((GENERATE,), "return_text_in_logprobs", True, SAME),
    *_everywhere(OPENAI, "service_tier", "priority", _says(tells("service_tier", "priority"))),
    *_everywhere(OPENAI, "service_tier", "flex", _says(tells("service_tier", "flex"))),
    *_everywhere(OPENAI, "service_tier", "auto", _says(tells("service_tier", "default"))),
    *_everywhere((GENERATE,), "service_tier", "flex", SAME),
    *_on_terms("service_tier", "scale", Refused(INVALID, "service_tier")),
    *_on_terms("timeout", 60, SAME),
    *_on_terms("timeout", 0.001, Refused("deadline_exceeded", None, 504, "timeout_error")),
    *_on_terms("timeout", 0, Refused(INVALID, "timeout")),
    *_on_terms("prompt_cache_key", "a session", SAME),
    *_on_terms("prompt_cache_key", "", Refused(INVALID, "prompt_cache_key")),
]

STRANGE = _on_terms(UNKNOWN, "good", Refused(UNSUPPORTED, UNKNOWN))

HONOURED = (
    *MODELS,
    *MESSAGES,
    *PROMPTS,
    *LENGTHS,
    *STOPS,
    *STREAMS,
    *DECODING,
    *SAMPLING,
    *TERMS,
    *STRANGE,
)
