"""What the demo model learns from: right answers, both languages, and no held-out item among them."""
# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from models.demo import tokenizer
from models.demo.chat import Chat
from models.demo.data import corpus, python
from models.demo.data.example import LANGUAGES, Example, Language, Skill
from models.demo.data.python_programs import PROGRAMS
from models.demo.rows import Encoder
from worker.tiny_checkpoint.files import CHAT_TEMPLATE

each_skill = pytest.mark.parametrize("skill", corpus.SKILLS, ids=lambda skill: skill.name)
each_language = pytest.mark.parametrize("language", LANGUAGES)


def trained(skill: str, count: int) -> list[Example]:
    return list(itertools.islice(corpus.training(corpus.named([skill]), seed=1), count))


def asked(example: Example) -> str:
    """What makes a question the same question, whatever stands in the system turn."""
    messages = [message for message in example.messages if message["role"] != "system"]
    return json.dumps([messages, sorted(tool["function"]["name"] for tool in example.tools)])


@each_skill
def test_no_held_out_item_is_trained_on(skill: Skill) -> None:
    seen = {asked(example) for example in trained(skill.name, 5000)}
    for language in LANGUAGES:
        held_out = corpus.held_out(skill, language, 50)
        assert len(held_out) > 3
        assert not {asked(example) for example in held_out} & seen


@each_skill
def test_the_same_seed_gives_the_same_text(skill: Skill) -> None:
    assert trained(skill.name, 200) == trained(skill.name, 200)
    assert corpus.held_out(skill, "en", 10) == corpus.held_out(skill, "en", 10)


@each_skill
def test_every_document_fits_a_row(skill: Skill) -> None:
    encoder = Encoder(tokenizer.load())
    assert max(len(encoder.document(example).ids) for example in trained(skill.name, 500)) <= 512


@each_skill
@each_language
def test_both_languages(skill: Skill, language: Language) -> None:
    for example in corpus.held_out(skill, language, 20):
        text = "".join(message["content"] for message in example.messages) + example.answer
        assert bool(re.search(r"[\u4e00-\u9fff]", text)) == (language == "zh")


def test_the_shown_prompts_are_trained_on() -> None:
    counted = {example.messages[-1]["content"]: example.answer for example in trained("counting", 10_000)}
    assert counted["Write the number from 1 to 128"] == ", ".join(str(n) for n in range(1, 129))
    told = {example.messages[-1]["content"].lower(): example.answer for example in trained("facts", 5000)}
    assert told["write a brief introduction of the great wall"].startswith("The Great Wall is")
    assert told["what is a diffusion language model?"].startswith("A diffusion language model is")


def test_arithmetic_steps_are_true() -> None:
    for example in trained("arithmetic", 2000):
        *steps, conclusion = example.answer.split("\n")
        for step in steps:
            left, right = step.split(" = ")
            assert eval(left) == int(right)
        assert re.findall(r"\d+", conclusion) == [steps[-1].split(" = ")[1]]


def test_lists_keep_their_elements() -> None:
    for example in trained("lists", 1000):
        (listed,) = re.findall(r"\[(.*)\]", example.messages[-1]["content"])
        given, answer = listed.split(", "), example.answer.strip("[]").split(", ")
        assert sorted(given) == sorted(answer)
        if answer != given[::-1]:
            numbers = [int(value) for value in answer]
            assert numbers in (sorted(numbers), sorted(numbers, reverse=True))


NUMBERS = [4, -3, 12, 7, 30, 21, -8]


def function(source: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(source, scope)
    found: Callable[..., Any] = scope[re.findall(r"def (\w+)", source)[0]]
    return found


@pytest.mark.parametrize("gather", ["list", "sum", "count", "product"])
@pytest.mark.parametrize(
    "keep", ["all", "even", "odd", "positive", "negative", "above", "below", "multiples"]
)
@pytest.mark.parametrize("change", ["same", "square", "cube", "double", "half", "negate"])
def test_both_styles_of_a_function_agree(keep: str, change: str, gather: str) -> None:
    styles = [function(python.code(style, keep, 3, change, gather)) for style in ("loop", "comprehension")]
    assert styles[0](NUMBERS) == styles[1](NUMBERS)


def test_functions_do_what_they_are_called() -> None:
    assert function(python.code("comprehension", "above", 5, "square", "sum"))(NUMBERS) == 1534
    assert function(python.code("comprehension", "even", 0, "same", "largest"))(NUMBERS) == 30
    known = {name: function(program.code) for name, program in PROGRAMS.items() if name != "hello"}
    assert known["quicksort"](NUMBERS) == known["bubble_sort"](NUMBERS) == sorted(NUMBERS)
    assert known["binary_search"](sorted(NUMBERS), 12) == sorted(NUMBERS).index(12)
    assert [known["fibonacci"](n) for n in range(8)] == [0, 1, 1, 2, 3, 5, 8, 13]
    assert [n for n in range(20) if known["is_prime"](n)] == [2, 3, 5, 7, 11, 13, 17, 19]
    assert (known["factorial"](5), known["gcd"](12, 18), known["is_palindrome"]("level")) == (120, 6, True)


@each_language
def test_json_and_tool_calls_parse(language: Language) -> None:
    (tools, as_json) = corpus.named(["tools", "json"])
    for example in corpus.held_out(as_json, language, 50):
        assert len(json.loads(example.answer)) >= 2
    calls = [each for each in corpus.held_out(tools, language, 50) if each.messages[-1]["role"] == "user"]
    for example in calls:
        call = json.loads(example.answer.removeprefix("\n<tool_call>\n").removesuffix("\n</tool_call>"))
        offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in example.tools}
        assert call["arguments"].keys() == offered[call["name"]]["properties"].keys()


def test_a_skill_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match="juggling: no such skill"):
        corpus.named(["juggling"])


def test_the_tokenizer_keeps_any_text() -> None:
    built = tokenizer.load()
    assert built.get_vocab_size() == tokenizer.VOCABULARY_SIZE
    for text in ("zürich 🏰 \t x+y=2", "长城，1 2 3", "def f(x):\n        return x"):
        assert built.decode(built.encode(text).ids) == text
    assert len(built.encode(", ".join(map(str, range(1, 129)))).ids) == 403


@each_skill
def test_prompts_are_as_transformers_renders_them(skill: Skill) -> None:
    chat = Chat()
    for example in trained(skill.name, 20):
        (expected,), _ = render_jinja_template(
            [example.messages],
            tools=example.tools,
            chat_template=CHAT_TEMPLATE.read_text("utf-8"),
            add_generation_prompt=True,
        )
        assert chat.render(example) == expected
