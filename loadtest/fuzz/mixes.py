"""One random request for each number of a seed: the same one every time."""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import NoneType
from typing import Any

from dllm_stack.decoding import ALGORITHMS, Parameters

GENERATE, COMPLETIONS, CHAT = "/generate", "/v1/completions", "/v1/chat/completions"

_LIKELY_TOKENS = 64
_TOO_LONG = 3000  # tokens; the small checkpoints read 2,048
_WORDS = [
    "the",
    "sun",
    "from 1 to 20",
    "你好",
    "长城",
    "zürich",
    "🏰",
    "\x00",
    "\u202e",
    "<|mask|>",
    "{{ x }}",
]
_JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7, 0.5, -0.5, 1.5, 1e308, -1e308, 2**31, 2**63, 2**70, -(2**70)),
    *(
        "",
        "x",
        "7",
        "null",
        "😀\u0000",
        "a" * 5000,
        [],
        [[]],
        {},
        {"": None},
        [None],
        ["x", 1],
        {"a": {"b": [{}]}},
    ),
)
# A value that the engine may take, and one of the right type that it may not.
_SAMPLING: dict[str, tuple[Any, ...]] = {
    "temperature": (0, 1, 0.7, 5),
    "top_p": (1, 0.9, 0),
    "top_k": (-1, 1, 50, 0),
    "min_p": (0, 0.1),
    "sampling_seed": (None, 7),
    "frequency_penalty": (0, 1.5),
    "presence_penalty": (0, -1.5),
    "repetition_penalty": (1, 1.3, 0),
    "min_new_tokens": (0, 5, 10**9),
    "logit_bias": ({}, {"5": 3.0}, {"-1": 1}),
    "n": (1, 2, 0, 10**6),
    "json_schema": ("", '{"type": "object"}', "{"),
    "regex": ("", "[0-9]+", "("),
    "ebnf": ("", 'root ::= "a"', "root"),
    "structural_tag": ("", '{"structures": [], "triggers": []}', "[]"),
    "stop_regex": ("", "(a+)+$", "("),
    "stop": ("the", ["sun", "。"], [], "", [""], ["x"] * 40),
    "stop_token_ids": ([3], [], [5, 6, 7], [-1], [2**70]),
    "ignore_eos": (True, False),
    "skip_special_tokens": (True, False),
    "spaces_between_special_tokens": (True, False),
    "no_stop_trim": (True, False),
    "stream_interval": (1, 32, 0),
    "max_new_tokens": (1, 5, 32, 33, 0, 3000, 10**9, 2**64),
    "custom_params": ({}, {"dlm": {}}, {"__req__": 1}, {"dllm": None}),
    "beam_width": (1, 2),
    "no_such_parameter": (0,),
}
_FIELDS: dict[str, tuple[Any, ...]] = {
    "return_logprob": (False, True),
    "top_logprobs_num": (0, 5),
    "token_ids_logprob": (None, [5], [-5]),
    "logprob_start_len": (-1, 0, 10**9),
    "return_hidden_states": (False, True),
    "session_params": (None, {"id": "a session"}),
    "lora_path": (None, "", "an adapter"),
    "custom_logit_processor": (None, "{}"),
    "image_data": (None, "nowhere.png"),
    "input_embeds": (None, [[0.5] * 4]),
    "return_routed_experts": (False, True),
    "routed_dp_rank": (0, 1, -1),
    "priority": (0, 5, -5),
    "extra_key": ("", "a key"),
    "background": (False, True),
    "no_such_field": (0,),
}
_OPENAI: dict[str, tuple[Any, ...]] = {
    "temperature": (0, 1, 0.7, 3),
    "top_p": (1, 0.9, 0),
    "seed": (None, 7),
    "n": (1, 2, 0),
    "best_of": (1, 2),
    "frequency_penalty": (0, 1.5, 9),
    "presence_penalty": (0, -1.5),
    "logit_bias": ({}, {"5": 3.0}),
    "logprobs": (None, True, 3),
    "top_logprobs": (None, 3),
    "response_format": ({"type": "text"}, {"type": "json_object"}, {"type": "no_such_type"}),
    "tools": ([], [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}], [{}]),
    "tool_choice": ("auto", "required", "none", {"type": "function", "function": {"name": "f"}}),
    "stop": ("the", ["sun", "。"], [], ["x"] * 40),
    "stream_options": ({"include_usage": True}, {}, None),
    "user": ("a user",),
    "regex": ("[0-9]+",),
    "ebnf": ('root ::= "a"',),
    "min_tokens": (0, 5),
    "echo": (False, True),
    "suffix": ("", "an end"),
    "ignore_eos": (True, False),
    "dllm": ({}, {"mode": "quality"}, {"mode": "no_such_mode"}, {"stats": True}, {"threshold": 0.5}),
    "max_tokens": (1, 5, 32, 33, 0, -1, 10**9),
    "lora_path": (None, "an adapter"),
    "no_such_field": (0,),
}


@dataclass(frozen=True)
class Mix:
    """
    Attributes:
        body: to be sent as JSON; bytes are sent as they are.
        stays_s: after which the client goes away; None: it waits.
    """

    number: int
    path: str
    body: Any
    stays_s: float | None

    @property
    def streams(self) -> bool:
        return isinstance(self.body, dict) and self.body.get("stream") is True


@dataclass(frozen=True)
class Server:
    """
    Attributes:
        model: its name, for the endpoints that want it.
        vocabulary: tokens that the model knows.
        gateway: else an engine. SGLang's parser of chat requests fails by itself at a body, or a
            response_format, that is no object; it gets neither.
    """

    url: str
    model: str
    vocabulary: int
    gateway: bool


def mix(seed: int, number: int, server: Server) -> Mix:
    dice = random.Random(f"{seed}/{number}")
    path = dice.choices([GENERATE, COMPLETIONS, CHAT], [7, 1.5, 1.5])[0]
    stays_s = dice.uniform(0, 0.5) if dice.random() < 0.1 else None
    strict = path == CHAT and not server.gateway
    if dice.random() < 0.01:
        objects = [b"", b"{", b"\xff\xfe", b'{"text": NaN}']
        return Mix(
            number, path, dice.choice(objects if strict else [*objects, b"[]", b"null", b'"x"']), stays_s
        )
    body = _generate(dice, server) if path == GENERATE else _openai(dice, path, server)
    if dice.random() < 0.4:
        body["stream"] = True
    for _ in range(dice.choice([0, 0, 0, 1])):
        body[dice.choice(list(body))] = dice.choice(_JUNK)
    if strict and not isinstance(body.get("response_format"), dict | NoneType):
        del body["response_format"]
    return Mix(number, path, body, stays_s)


def _generate(dice: random.Random, server: Server) -> dict[str, Any]:
    sampling: dict[str, Any] = {
        "temperature": 0,
        "max_new_tokens": dice.randrange(1, _LIKELY_TOKENS),
        "ignore_eos": True,
    }
    _vary(dice, sampling, _SAMPLING)
    if dice.random() < 0.4:
        sampling["custom_params"] = {"dllm": _decoding(dice, server)}
    body: dict[str, Any] = {"sampling_params": sampling}
    if server.gateway:
        body["model"] = server.model
    if dice.random() < 0.8:
        body["input_ids"] = _ids(dice, server.vocabulary)
    else:
        body["text"] = _text(dice)
    if dice.random() < 0.05:
        body["sampling_params"] = dice.choice([[sampling] * 2, [sampling, {}], [], None])
    if dice.random() < 0.1:
        body["rid"] = dice.choice(
            [f"the same {dice.randrange(3)}", "", "😀", "HEALTH_CHECK_1", ["a", "b"], "r" * 9999]
        )
    if dice.random() < 0.3:
        _vary(dice, body, _FIELDS)
    return body


def _openai(dice: random.Random, path: str, server: Server) -> dict[str, Any]:
    model = server.model
    body: dict[str, Any] = {"model": model, "max_tokens": dice.randrange(1, _LIKELY_TOKENS), "temperature": 0}
    if dice.random() < 0.1:
        body["model"] = dice.choice(["no-such-model", "", f"{model}:speed", f"{model}:no-such-mode"])
    if path == COMPLETIONS:
        body["prompt"] = _ids(dice, server.vocabulary) if dice.random() < 0.5 else _text(dice)
    else:
        body["messages"] = [_message(dice) for _ in range(dice.choice([0, 1, 1, 1, 1, 2, 3]))]
    _vary(dice, body, _OPENAI)
    if dice.random() < 0.2:
        decoding = _decoding(dice, server)
        body |= {"dllm": decoding} if server.gateway else {"custom_params": {"dllm": decoding}}
    return body


def _vary(dice: random.Random, values: dict[str, Any], table: dict[str, tuple[Any, ...]]) -> None:
    for _ in range(dice.choice([0, 0, 1, 1, 2, 4])):
        name = dice.choice(list(table))
        values[name] = dice.choice(_JUNK) if dice.random() < 0.2 else dice.choice(table[name])


def _message(dice: random.Random) -> Any:
    role = dice.choice(["user", "user", "user", "system", "assistant", "tool", "no such role", 7])
    content = dice.choice([_text(dice)] * 3 + [[{"type": "text", "text": "hi"}], dice.choice(_JUNK)])
    message = {"role": role, "content": content}
    return dice.choice([message] * 9 + [dice.choice(_JUNK)])


def _text(dice: random.Random) -> Any:
    def some(most: int) -> str:
        return " ".join(dice.choices(_WORDS, k=dice.randrange(1, most)))

    usual = [some(9), some(9), some(60), some(60)]
    return dice.choice([*usual, "", " ", "\n", [some(9), some(9)], [], "the " * _TOO_LONG])


def _ids(dice: random.Random, vocabulary: int) -> Any:
    def legal(most: int) -> list[int]:
        return [dice.randrange(vocabulary) for _ in range(dice.randrange(1, most))]

    if dice.random() < 0.8:
        return legal(dice.choice([5, 40, 120, 400]))
    wrong: Any = dice.choice([-1, vocabulary, 2**31, 2**63, 2**70, 0.5, "x", None, [1]])
    return dice.choice(
        [
            [],
            [[]],
            [legal(9), legal(9)],
            [legal(9), []],
            [*legal(9), wrong],
            [wrong],
            wrong,
            legal(9) * _TOO_LONG,
        ]
    )


def _decoding(dice: random.Random, server: Server) -> Any:
    """As an engine is told it, or as a gateway: there the algorithm's parameters stand beside its name."""
    options = _engine_options(dice)
    decision = options.get("decision") if isinstance(options, dict) else None
    if not server.gateway or not isinstance(decision, dict) or decision.keys() != {"algorithm", "parameters"}:
        return options
    return {"algorithm": decision["algorithm"], **decision["parameters"]}


def _engine_options(dice: random.Random) -> Any:
    options: dict[str, Any] = {}
    if dice.random() < 0.7:
        name = dice.choice(list(ALGORITHMS))
        takes = sorted(ALGORITHMS[name]) if dice.random() < 0.8 else list(Parameters.__struct_fields__)
        options["decision"] = {
            "algorithm": name if dice.random() < 0.95 else dice.choice(_JUNK),
            "parameters": {
                parameter: _value(dice, parameter) for parameter in dice.sample(takes, min(2, len(takes)))
            },
        }
    if dice.random() < 0.4:
        options["sampling"] = {
            "temperature": dice.choice([0, 0.5, 1, 2, 3]),
            "top_p": dice.choice([1, 0.5, 0.01, 1e-50, 0]),
            "top_k": dice.choice([0, 1, 5, 10**9, 2**63, -1]),
            "seed": dice.choice([0, 7, -(2**63), 2**63]),
        }
    if dice.random() < 0.05:
        options[dice.choice([*options, "no such option"])] = dice.choice(_JUNK)
    return options if dice.random() < 0.98 else dice.choice(_JUNK)


def _value(dice: random.Random, parameter: str) -> Any:
    if dice.random() < 0.1:
        return dice.choice(_JUNK)
    if parameter in ("max_steps", "max_post_edit_steps"):
        return dice.choice([1, 2, 5, 33, 200])
    return dice.choice([0, 0.1, 0.5, 0.9, 1, 2.5])
