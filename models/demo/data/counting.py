# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""Ranges of whole numbers, up, down and in steps."""

from __future__ import annotations

from random import Random

from models.demo.data.example import Example, Item, Language, Skill, single

# A digit is a token and so is a separator: with its prompt, an answer stays below 512 tokens.
_LONGEST_ANSWER = 430
_STEPS = [1, 1, 1, 1, 1, 1, -1, -1, 2, 3, 5, 10]

_UP = {
    "en": [
        "Write the number from {0} to {1}",
        "Write the numbers from {0} to {1}",
        "Write the numbers from {0} to {1}.",
        "Count from {0} to {1}.",
        "Please count from {0} to {1}.",
        "List all numbers from {0} to {1}.",
        "Can you count from {0} to {1}?",
    ],
    "zh": [
        "写出从{0}到{1}的数字",
        "请写出从{0}到{1}的所有数字。",
        "从{0}数到{1}。",
        "请从{0}数到{1}。",
        "列出{0}到{1}的数字。",
    ],
}
_DOWN = {
    "en": [
        "Count down from {0} to {1}.",
        "Count backwards from {0} to {1}.",
        "Write the numbers from {0} down to {1}.",
    ],
    "zh": ["从{0}倒数到{1}。", "请从{0}倒着数到{1}。"],
}
_IN_STEPS = {
    "en": [
        "Count from {0} to {1} in steps of {2}.",
        "Count from {0} to {1} by {2}.",
        "Write every number from {0} to {1} in steps of {2}.",
    ],
    "zh": ["从{0}数到{1}，每次加{2}。", "从{0}到{1}，每次加{2}，写出所有数字。"],
}


def _draw(random: Random) -> Item:
    step = random.choice(_STEPS)
    low = random.choice([random.randint(0, 1), random.randint(0, 99), random.randint(0, 899)])
    numbers = [low]
    tokens = len(str(low)) + 1
    for _ in range(random.choice([random.randint(2, 20), random.randint(20, 150)])):
        tokens += len(str(numbers[-1] + abs(step))) + 1
        if tokens > _LONGEST_ANSWER:
            break
        numbers.append(numbers[-1] + abs(step))
    return (low, numbers[-1], step) if step > 0 else (numbers[-1], low, step)


def _write(item: Item, language: Language, random: Random) -> Example:
    first, last, step = item
    wordings = _UP if step == 1 else _DOWN if step < 0 else _IN_STEPS
    question = random.choice(wordings[language]).format(first, last, step)
    return single(question, ", ".join(map(str, range(first, last + (1 if step > 0 else -1), step))))


SKILL = Skill("counting", _draw, _write, weight=1.2, shown=frozenset({(1, 128, 1), (1, 10, 1), (1, 100, 1)}))
