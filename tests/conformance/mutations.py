"""Bodies that were right before something happened to them, as hypothesis draws them: bytes to be sent."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.conformance.samples import sample
from tests.conformance.table import CHAT, COMPLETIONS, GENERATE, SAMPLING, cells

MODEL, TOKEN_BY_TOKEN = "tiny", "token-by-token"
TOKENIZE, DETOKENIZE = "/tokenize", "/detokenize"
_DEPTHS = [10, 150, 300, 5000]


class Mutation(NamedTuple):
    path: str
    body: bytes


_USUAL: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "Hello"}]},
    COMPLETIONS: {"prompt": "Hello"},
    GENERATE: {"text": "Hello"},
    TOKENIZE: {"prompt": "Hello"},
    DETOKENIZE: {"tokens": [72, 105]},
}
_TAKEN: dict[str, dict[str, list[Any]]] = {path: {} for path in (*_USUAL, SAMPLING)}
_TAKEN[TOKENIZE] = {"add_special_tokens": [True, False], "tools": [[sample(CHAT, "tools")[0]], []]}
_TAKEN[DETOKENIZE] = {"skip_special_tokens": [True, False]}
for _cell in cells():
    if _cell.kind != "refused" and _cell.parameter not in (
        "messages",
        "prompt",
        "text",
        "input_ids",
        "model",
    ):
        _values = [*_cell.values, None] if _cell.kind == "only" else [sample(_cell.column, _cell.parameter)]
        _TAKEN[_cell.column].setdefault(_cell.parameter, []).extend(_values)
_NAMES = sorted({cell.parameter for cell in cells()})

_WORDS = st.sampled_from(
    [
        "Hello",
        "",
        " ",
        "\x00",
        "é",
        "你好",
        "🏰",
        "\ud800",
        "\udfff\ud800",
        "\u202e",
        "<|mask|>",
        "{{ x }}",
        "a" * 1001,
    ]
)
_NUMBERS = st.one_of(
    st.sampled_from(
        [
            0,
            -0.0,
            1,
            -1,
            2,
            0.5,
            128,
            129,
            4096,
            4097,
            2**31 - 1,
            2**31,
            2**53 + 1,
            2**63 - 1,
            2**63,
            -(2**63) - 1,
        ]
    ),
    st.sampled_from([10**400, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"), float("nan")]),
    st.integers(),
    st.floats(),
)
_LEAVES = st.one_of(st.none(), st.booleans(), _NUMBERS, _WORDS, st.text(max_size=20))
_JUNK = st.recursive(
    _LEAVES,
    lambda inside: st.one_of(
        st.lists(inside, max_size=5),
        st.dictionaries(st.one_of(_WORDS, st.sampled_from(_NAMES)), inside, max_size=4),
    ),
    max_leaves=8,
)


def _fields(column: str) -> st.SearchStrategy[dict[str, Any]]:
    """Some of what the table says is taken."""
    taken = _TAKEN[column]
    some = st.lists(st.sampled_from(sorted(taken)), max_size=4, unique=True)
    return some.flatmap(
        lambda names: st.fixed_dictionaries({name: st.sampled_from(taken[name]) for name in names})
    )


_MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
            "content": st.one_of(_WORDS, st.just([{"type": "text", "text": "Hello"}])),
        },
        optional={"name": _WORDS, "tool_call_id": _WORDS},
    ),
    min_size=1,
    max_size=3,
)
_IDS = st.lists(st.integers(0, 4000), min_size=1, max_size=5)
_PROMPTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    CHAT: st.fixed_dictionaries({"messages": _MESSAGES}),
    COMPLETIONS: st.fixed_dictionaries({"prompt": st.one_of(_WORDS, _IDS, st.lists(_WORDS, max_size=3))}),
    GENERATE: st.one_of(
        st.fixed_dictionaries({"text": st.one_of(_WORDS, st.lists(_WORDS, max_size=3))}),
        st.fixed_dictionaries({"input_ids": st.one_of(_IDS, st.lists(_IDS, max_size=3))}),
    ),
    TOKENIZE: st.one_of(
        st.fixed_dictionaries({"prompt": st.one_of(_WORDS, st.lists(_WORDS, max_size=3))}),
        st.fixed_dictionaries({"messages": _MESSAGES}),
    ),
    DETOKENIZE: st.fixed_dictionaries({"tokens": st.one_of(_IDS, st.lists(_IDS, max_size=3))}),
}
_MODELS = st.sampled_from([*[MODEL] * 6, *[TOKEN_BY_TOKEN] * 6, f"{MODEL}:speed", f"{MODEL}:slow", "none"])


@st.composite
def _bodies(draw: st.DrawFn, path: str) -> dict[str, Any]:
    prompt = _USUAL[path] if draw(st.booleans()) else draw(_PROMPTS[path])
    body = {"model": draw(_MODELS), **prompt, **draw(_fields(path))}
    if path == GENERATE and draw(st.booleans()):
        body["sampling_params"] = draw(_fields(SAMPLING))
    if path not in (TOKENIZE, DETOKENIZE) and draw(st.booleans()):
        body["stream"] = True
    return body


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Of each element inside."""
    inner = (
        list(value.items() if isinstance(value, dict) else enumerate(value))
        if isinstance(value, dict | list)
        else []
    )
    return [each for key, element in inner for each in [(*place, key), *_places(element, (*place, key))]]


@st.composite
def _changed(draw: st.DrawFn, body: Any) -> Any:
    """One element is another, or gone, or there are more."""
    body = deepcopy(body)
    places = _places(body)
    how = draw(st.sampled_from(["replace", "replace", "remove", "add", "add", "nest"]))
    if how == "add" or not places:
        name = draw(st.one_of(st.sampled_from(_NAMES), _WORDS))
        value = sample(CHAT, name) if name in _NAMES and draw(st.booleans()) else draw(_JUNK)
        inside = body.get("sampling_params")
        (inside if isinstance(inside, dict) and draw(st.booleans()) else body)[name] = value
        return body
    *way, last = draw(st.sampled_from(places))
    holder = body
    for key in way:
        holder = holder[key]
    if how == "remove":
        del holder[last]
    elif how == "replace":
        holder[last] = draw(_JUNK)
    else:
        holder[last] = draw(st.sampled_from([[holder[last]], {"": holder[last]}, *map(_deep, _DEPTHS)]))
    return body


def _encoded(body: Any) -> str:
    text = json.dumps(body)
    for depth in _DEPTHS:
        text = text.replace(json.dumps(_deep(depth)), "[" * depth + "]" * depth)
    return text


def _deep(depth: int) -> str:
    """Stands for that many arrays, one inside the other, which no encoder here can write."""
    return f"deep {depth}"


@st.composite
def _broken(draw: st.DrawFn, text: str) -> bytes:
    """The bytes are others than they were, or come twice, or not all of them."""
    data = text.encode("utf-8", "surrogatepass")
    at = draw(st.integers(0, len(data)))
    match draw(st.sampled_from(["cut", "insert", "flip", "twice", "name", "utf-16", "bom", "space"])):
        case "cut":
            return data[:at]
        case "insert":
            return data[:at] + draw(st.binary(min_size=1, max_size=4)) + data[at:]
        case "flip":
            return data[:at] + bytes(255 - byte for byte in data[at : at + 1]) + data[at + 1 :]
        case "twice":
            return data + data
        case "name":  # the same name twice
            return data[:-1] + b', "model": "tiny", "model": 7}'
        case "utf-16":
            return text.encode("utf-16", "surrogatepass")
        case "bom":
            return b"\xef\xbb\xbf" + data
        case _:
            return b" \n\t" * 100 + data


@st.composite
def mutations(draw: st.DrawFn) -> Mutation:
    path = draw(st.sampled_from([*[CHAT, COMPLETIONS, GENERATE] * 3, TOKENIZE, DETOKENIZE]))
    body: Any = draw(_bodies(path))
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 1, 2, 3]))):
        body = draw(_changed(body))
    text = _encoded(body)
    if draw(st.integers(0, 5)) == 0:
        return Mutation(path, draw(_broken(text)))
    return Mutation(path, text.encode())
