"""Prompts become the token ids that transformers would make of them."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from dllm_stack.messages import ChatPrompt, Decoding, Prompt, TextPrompt, TokenPrompt
from dllm_stack.outcomes import ErrorCode, RequestError
from worker.engine.catalog import Facts
from worker.prompt import Limits, Renderer, TokenizerError, answer_room, whole_blocks

LIMITS = Limits(prompt=2009, context=2046)
TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}


@pytest.fixture(scope="session")
def renderer(location: str, facts: Facts) -> Renderer:
    return Renderer.load(location, None, facts.vocab_size)


@pytest.fixture(scope="session")
def transformers_tokenizer(location: str) -> Any:
    return AutoTokenizer.from_pretrained(location)


def edited(location: str, folder: Path, template: str | None = None, **config: Any) -> Renderer:
    """The tiny checkpoint's tokenizer with another chat template or configuration."""
    shutil.copytree(location, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "chat_template.jinja").unlink()
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    return Renderer.load(str(folder), None, 1103)


messages = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant"]),
            "content": st.text(max_size=30) | st.sampled_from(["<role>HUMAN</role>", "{{ x }}", "中文"]),
        }
    ),
    min_size=1,
    max_size=4,
)


@given(messages=messages, tools=st.none() | st.just([TOOL]))
def test_a_chat_is_what_transformers_makes_of_it(
    renderer: Renderer,
    transformers_tokenizer: Any,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
) -> None:
    ids = asyncio.run(renderer.render(ChatPrompt(messages, tools)))
    assert ids == transformers_tokenizer.apply_chat_template(
        messages, tools=tools, add_generation_prompt=True, tokenize=True, return_dict=False
    )


@given(st.text(min_size=1, max_size=60))
def test_a_text_is_tokenized_as_it_is(renderer: Renderer, transformers_tokenizer: Any, text: str) -> None:
    ids = asyncio.run(renderer.render(TextPrompt(text)))
    assert ids == transformers_tokenizer.encode(text, add_special_tokens=False)


@given(st.lists(st.integers(0, 1102), max_size=40), st.booleans())
def test_tokens_become_the_text_that_transformers_makes_of_them(
    renderer: Renderer, transformers_tokenizer: Any, token_ids: list[int], special: bool
) -> None:
    text = transformers_tokenizer.decode(token_ids, skip_special_tokens=not special)
    assert renderer.decode(token_ids, special=special) == text


async def test_role_tokens_in_a_text_are_role_tokens(renderer: Renderer) -> None:
    ids = await renderer.render(TextPrompt("<role>HUMAN</role>hi<|role_end|>"))
    assert ids == [1100, 257, 1101, *await renderer.render(TextPrompt("hi")), 1102]


@pytest.mark.parametrize(
    "prompt",
    [TextPrompt("hello wörld " * 100_000), ChatPrompt([{"role": "user", "content": ""}] * 50_000)],
    ids=["long text", "many messages"],
)
async def test_a_long_prompt_does_not_hold_up_the_loop(renderer: Renderer, prompt: Prompt) -> None:
    ticks = 0
    task = asyncio.create_task(renderer.render(prompt))
    while not task.done():
        await asyncio.sleep(0.001)
        ticks += 1
    assert len(task.result()) > 200_000
    assert ticks > 5


async def test_a_developer_is_the_system_to_a_template_without_one(location: str, tmp_path: Path) -> None:
    template = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
    renderer = edited(location, tmp_path / "old", template)
    ids = await renderer.render(ChatPrompt([{"role": "developer", "content": "be brief"}]))
    assert ids == await renderer.render(TextPrompt("[system:be brief]"))
    renderer = edited(location, tmp_path / "new", template + "{# developer #}")
    ids = await renderer.render(ChatPrompt([{"role": "developer", "content": "be brief"}]))
    assert ids == await renderer.render(TextPrompt("[developer:be brief]"))


async def test_a_tool_call_reaches_the_template_as_an_object(location: str, tmp_path: Path) -> None:
    renderer = edited(
        location,
        tmp_path / "t",
        "{{ messages[0].content }}{{ messages[0].tool_calls[0].function.arguments.zone }}",
    )
    call = {"id": "1", "type": "function", "function": {"name": "now", "arguments": '{"zone": "UTC"}'}}
    ids = await renderer.render(ChatPrompt([{"role": "assistant", "content": None, "tool_calls": [call]}]))
    assert ids == await renderer.render(TextPrompt("UTC"))


@pytest.mark.parametrize("arguments", ["{", "[" * 5000, '{"zone": NaN}', '{"zone": "\\ud800"}'])
async def test_a_tool_call_that_is_no_json_is_the_callers_to_see(renderer: Renderer, arguments: str) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "now", "arguments": arguments}}
    with pytest.raises(RequestError, match="cannot render") as refused:
        await renderer.render(ChatPrompt([{"role": "assistant", "tool_calls": [call]}]))
    assert refused.value.problem.param == "messages"


@pytest.mark.parametrize("outside", [-1, 1103])
async def test_a_token_that_the_model_lacks_is_refused(renderer: Renderer, outside: int) -> None:
    with pytest.raises(RequestError, match=f"{outside} is no token id of this model") as refused:
        await renderer.render(TokenPrompt([7, outside]))
    assert refused.value.problem.param == "input_ids"


async def test_special_tokens_have_names_in_a_template(location: str, tmp_path: Path) -> None:
    renderer = edited(
        location,
        tmp_path / "t",
        chat_template=[
            {"name": "tool_use", "template": "never"},
            {"name": "default", "template": "{{ bos_token }}{{ unk_token }}x"},
        ],
        unk_token={"content": "?", "lstrip": False},
    )
    ids = await renderer.render(ChatPrompt([{"role": "user", "content": ""}]))
    assert ids == await renderer.render(TextPrompt("<|startoftext|>?x"))


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (None, "no chat template"),
        ("{{ raise_exception('alternate, please') }}", "alternate, please"),
        ("{{ messages[5].content }}", "cannot render"),
        ("{% if %}", "cannot render"),
        ("{{ ''.__class__.__mro__ }}", "cannot render"),  # a template is not trusted
    ],
)
async def test_a_template_that_fails_is_the_callers_to_see(
    location: str, tmp_path: Path, template: str | None, says: str
) -> None:
    renderer = edited(location, tmp_path / "t", template)
    with pytest.raises(RequestError, match=says) as refused:
        await renderer.render(ChatPrompt([{"role": "user", "content": "hi"}]))
    assert refused.value.problem.code is ErrorCode.INVALID_VALUE
    assert refused.value.problem.param == "messages"


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="its tokenizer cannot be used"):
        Renderer.load(str(tmp_path), None, 10)


@pytest.mark.parametrize(
    ("prompt_tokens", "max_tokens", "room"),
    [(2009, None, 37), (2000, 46, 46), (1, 2045, 2045), (1, None, 2045), (5, 1, 1)],
)
def test_an_answer_has_the_room_that_is_left(prompt_tokens: int, max_tokens: int | None, room: int) -> None:
    decoding = Decoding(max_tokens=max_tokens)
    assert answer_room(TokenPrompt([]), prompt_tokens, decoding, LIMITS) == room


@pytest.mark.parametrize(
    ("prompt_tokens", "max_tokens", "figures"),
    [(2010, None, ["2046", "2009", "2010"]), (2010, 5, ["2009", "2010"]), (2000, 47, ["2046", "2047", "47"])],
)
def test_an_answer_without_room_is_refused_with_the_figures(
    prompt_tokens: int, max_tokens: int | None, figures: list[str]
) -> None:
    with pytest.raises(RequestError) as refused:
        answer_room(ChatPrompt([]), prompt_tokens, Decoding(max_tokens=max_tokens), LIMITS)
    assert refused.value.problem.code is ErrorCode.CONTEXT_LENGTH_EXCEEDED
    assert refused.value.problem.param == "messages"
    assert all(figure in refused.value.problem.message for figure in figures)


def test_a_text_that_no_tokens_are_long_enough_for_is_refused_unread(renderer: Renderer) -> None:
    renderer.check_length(TextPrompt("x" * LIMITS.prompt), LIMITS)
    for prompt, name in (
        (TextPrompt("x" * 1000 * LIMITS.prompt), "prompt"),
        (ChatPrompt([{"role": "user", "content": "x" * 1000 * LIMITS.prompt}]), "messages"),
    ):
        with pytest.raises(RequestError) as caught:
            renderer.check_length(prompt, LIMITS)
        assert caught.value.problem.code == ErrorCode.CONTEXT_LENGTH_EXCEEDED
        assert caught.value.problem.param == name


async def test_so_is_a_chat_whose_tools_or_calls_are_too_long(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long they are is known when they are rendered; they are never tokenized."""
    long = "x" * 1000 * LIMITS.prompt
    tool = {"type": "function", "function": {"name": "f", "description": long}}
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": f'{{"a": "{long}"}}'}}
    monkeypatch.setattr(renderer, "_encode", lambda *_, **__: pytest.fail("tokenized"))
    for prompt in (
        ChatPrompt([{"role": "user", "content": "Hi"}], [tool]),
        ChatPrompt([{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [call]}]),
    ):
        with pytest.raises(RequestError) as caught:
            await renderer.render(prompt, LIMITS)
        assert caught.value.problem.code == ErrorCode.CONTEXT_LENGTH_EXCEEDED


@pytest.mark.parametrize(
    ("prompt", "committed", "room", "block_size", "kept"),
    [
        (40, 0, 100, 32, 0),
        (40, 23, 100, 32, 0),  # no block has ended
        (40, 24, 100, 32, 24),
        (40, 70, 100, 32, 56),
        (32, 31, 100, 32, 0),
        (32, 32, 100, 32, 32),
        (40, 88, 88, 32, 56),  # whole already: its last block is generated again
        (40, 1990, 2006, 32, 1944),  # 1984 is the last end of a block that the engine takes as a prompt
        (40, 7, 100, 1, 7),
    ],
)
def test_an_engine_goes_on_where_a_block_has_ended(
    prompt: int, committed: int, room: int, block_size: int, kept: int
) -> None:
    assert whole_blocks(prompt, committed, room, LIMITS, block_size) == kept


@pytest.mark.parametrize(
    ("prompt", "committed", "room", "kept"),
    [(40, 0, 100, 0), (40, 31, 100, 0), (40, 32, 100, 32), (40, 70, 100, 64), (40, 64, 64, 32)],
)
def test_blocks_that_are_counted_from_the_prompts_end(
    prompt: int, committed: int, room: int, kept: int
) -> None:
    assert whole_blocks(prompt, committed, room, LIMITS, 32, first=prompt) == kept
