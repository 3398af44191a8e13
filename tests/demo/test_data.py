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
    counted = {example.messages[-1]["content"]: example.answer for example in trained("counting", 30_000)}
    assert counted["Write the number from 1 to 128"] == ", ".join(str(n) for n in range(1, 129))
    told = {example.messages[-1]["content"].lower(): example.answer for example in trained("facts", 5000)}
    assert told["write a brief introduction of the great wall"].startswith("The Great Wall is")
    assert told["what is a diffusion language model?"].startswith("A diffusion language model is")


def answered(example: Example) -> list[tuple[str, str]]:
    """All questions of a conversation with their answers."""
    messages = [message for message in example.messages if message["role"] != "system"]
    contents = [*(message["content"] for message in messages), example.answer]
    return list(zip(contents[::2], contents[1::2], strict=True))


def alone(skill: str, count: int) -> list[tuple[str, str]]:
    """Questions and answers of the skill, without the turns before them."""
    return [answered(example)[-1] for example in trained(skill, count)]


def test_arithmetic_steps_are_true() -> None:
    for question, answer in alone("arithmetic", 5000):
        *steps, conclusion = answer.split("\n")
        results = []
        for step in steps:
            left, right = step.split(" = ")
            assert eval(left) == int(right)
            results.append(right)
        concluded = re.findall(r"-?\d+", conclusion)
        if len(concluded) == 2:
            assert concluded[1] == results[-1] != "0"
        elif concluded != results[-1:]:
            given = [int(number) for number in re.findall(r"\d+", question)]
            assert max(given) == int(results[-1]) == min(given) * int(concluded[0])


def test_expressions_come_to_the_answer() -> None:
    symbols = {"×": "*", "x": "*", "plus": "+", "minus": "-", "times": "*", "multiplied by": "*"}
    symbols |= {"加上": "+", "加": "+", "减去": "-", "减": "-", "乘以": "*", "乘": "*"}
    expression = re.compile(r"\d+(?:\s*[+*-]\s*\d+)+")
    checked = 0
    for question, answer in alone("arithmetic", 5000):
        for word, symbol in symbols.items():
            question = question.replace(word, symbol)
        if found := expression.search(question):
            checked += 1
            assert eval(found[0]) == int(re.findall(r"-?\d+", answer)[-1])
    assert checked > 1500


def test_counting_is_what_was_asked() -> None:
    for question, answer in alone("counting", 3000):
        numbers = [int(number) for number in answer.split(", ")]
        assert len(numbers) > 1
        steps = {right - left for left, right in itertools.pairwise(numbers)}
        assert len(steps) == 1
        (step,) = steps
        stated = [int(number) for number in re.findall(r"\d+", question)]
        if step in (1, -1):
            assert stated[-1] == numbers[-1]
            assert stated[0] == numbers[0] or (len(stated) == 1 and numbers[0] == 1)
        else:
            highest = max(numbers)
            assert max(stated) - abs(step) < highest <= max(stated)
            assert stated[0] in (numbers[0], numbers[0] - 1, abs(step), max(stated))


def test_lists_keep_their_elements() -> None:
    number_or_word = re.compile(r"\d+")
    for question, answer in alone("lists", 3000):
        given = number_or_word.findall(question)
        elements = re.fullmatch(r"\[(.*)\]", answer)
        if not elements:
            (chosen,) = number_or_word.findall(answer)
            assert int(chosen) in (max(map(int, given)), min(map(int, given)))
            continue
        written = elements[1].split(", ")
        if not given:
            places = [re.search(rf"(?<![a-z]){word}(?![a-z])", question.lower()) for word in written]
            assert all(places) or re.search(r"[\u4e00-\u9fff]", question)
            continue
        assert sorted(given) == sorted(written)
        if written != given[::-1]:
            numbers = [int(value) for value in written]
            assert numbers in (sorted(numbers), sorted(numbers, reverse=True))


def test_follow_ups_use_the_answer_before() -> None:
    seen = set()
    for example in trained("turns", 3000):
        turns = answered(example)
        (_, before), (_, answer) = turns[-2:]
        if before.startswith("[") and answer.startswith("["):
            assert sorted(before.strip("[]").split(", ")) == sorted(answer.strip("[]").split(", "))
            seen.add("list")
        elif answer.startswith(("You asked", "你问的是")):
            assert re.split(r'["“”]', answer)[1] in (turns[0][0], turns[-2][0])
            seen.add("asked")
        elif " = " in answer:
            assert answer.split(" ")[0] == re.findall(r"\d+", before)[-1] or " * " in answer
            seen.add("sum")
    assert seen == {"list", "asked", "sum"}


@each_skill
@each_language
def test_unseen_wordings_are_never_trained_on(skill: Skill, language: Language) -> None:
    def without_values(example: Example) -> str:
        return re.sub(r"\d+", "0", example.messages[-1]["content"]).lower()

    seen = {without_values(example) for example in trained(skill.name, 5000)}
    unseen = corpus.held_out(skill, language, 20, unseen_wordings=True)
    users = [example for example in unseen if example.messages[-1]["role"] == "user"]
    assert users
    assert not {without_values(example) for example in users} & seen


@pytest.mark.parametrize("skill", ["counting", "lists", "facts", "talk", "limits"])
def test_conversations_pass_from_one_skill_to_another(skill: str) -> None:
    continued = [len(answered(example)) for example in trained(skill, 500)]
    assert set(continued) >= {1, 2, 3}


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
