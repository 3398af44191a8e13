# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""Sums, differences and products, worked out in steps."""

from __future__ import annotations

from random import Random

from models.demo.data.example import Example, Item, Language, Skill, single

_QUESTIONS = {
    "en": ["What is {}?", "Compute {}.", "Calculate {} step by step.", "{} = ?", "How much is {}?"],
    "zh": ["{}等于多少？", "计算{}。", "请一步一步计算{}。", "{} = ?"],
}
_CONCLUSION = {"en": "The answer is {}.", "zh": "答案是{}。"}

_STORIES = {
    "en": "{name} has {a} {thing}, gets {b} more and gives away {c}. How many {thing} does {name} have now?",
    "zh": "{name}有{a}个{thing}，又得到{b}个，送出{c}个。{name}现在有多少个{thing}？",
}
_NAMES = {"en": ["Anna", "Tom", "Mia", "Ben", "Lena"], "zh": ["小明", "小红", "小华", "小丽", "小刚"]}
_THINGS = {"en": ["apples", "books", "coins", "stamps", "pens"], "zh": ["苹果", "橘子", "鸡蛋", "硬币", "球"]}


def _number(random: Random) -> int:
    return random.randint(0, random.choice([9, 99, 99, 999]))


def _draw(random: Random) -> Item:
    kind = random.choice(["sum", "difference", "product", "three", "mixed", "story"])
    a, b, c = _number(random), _number(random), _number(random)
    match kind:
        case "difference":
            a, b = max(a, b), min(a, b)
        case "product":
            a, b = random.randint(0, 99), random.randint(0, 12)
        case "mixed":
            b, c = random.randint(0, 20), random.randint(2, 9)
        case "story":
            a, b = random.randint(2, 99), random.randint(1, 99)
            c = random.randint(1, a + b)
    return (kind, a, b, c) if kind in ("three", "mixed", "story") else (kind, a, b)


def product_steps(a: int, b: int) -> list[str]:
    """A product by tens and ones, where it is not one of the small table."""
    if a <= 10 or b <= 1:
        return [f"{a} * {b} = {a * b}"]
    tens, ones = a // 10 * 10, a % 10
    if not ones:
        return [f"{a} * {b} = {a * b}"]
    return [
        f"{tens} * {b} = {tens * b}",
        f"{ones} * {b} = {ones * b}",
        f"{tens * b} + {ones * b} = {a * b}",
    ]


def _write(item: Item, language: Language, random: Random) -> Example:
    match item:
        case ("sum", a, b):
            expression, steps, result = f"{a} + {b}", [f"{a} + {b} = {a + b}"], a + b
        case ("difference", a, b):
            expression, steps, result = f"{a} - {b}", [f"{a} - {b} = {a - b}"], a - b
        case ("product", a, b):
            expression, steps, result = f"{a} * {b}", product_steps(a, b), a * b
        case ("three", a, b, c):
            expression, result = f"{a} + {b} + {c}", a + b + c
            steps = [f"{a} + {b} = {a + b}", f"{a + b} + {c} = {result}"]
        case ("mixed", a, b, c):
            expression, result = f"{a} + {b} * {c}", a + b * c
            steps = [*product_steps(b, c), f"{a} + {b * c} = {result}"]
        case (_, a, b, c):
            expression, result = "", a + b - c
            steps = [f"{a} + {b} = {a + b}", f"{a + b} - {c} = {result}"]
    if expression:
        question = random.choice(_QUESTIONS[language]).format(expression)
    else:
        name, thing = random.choice(_NAMES[language]), random.choice(_THINGS[language])
        question = _STORIES[language].format(name=name, thing=thing, a=a, b=b, c=c)
    return single(question, "\n".join([*steps, _CONCLUSION[language].format(result)]))


SKILL = Skill("arithmetic", _draw, _write, weight=1.5)
