"""Ranges of whole numbers, up, down and in steps."""

from __future__ import annotations

from random import Random

from models.demo.data import counting_wordings as wordings
from models.demo.data.example import Example, Item, Language, Skill, single

# A digit is a token and so is a separator: with its prompt, an answer stays below 512 tokens.
_LONGEST_ANSWER = 430
_STEPS = [*[1] * 9, *[-1] * 3, *[2] * 3, 3, 4, 5, 10, 20, 25, 50, 100, -2, -5, -10]


def _draw(random: Random) -> Item:
    step = random.choice(_STEPS)
    low = random.choice([1, random.randint(0, 1), random.randint(0, 99), random.randint(0, 999)])
    if abs(step) > 1 and random.random() < 0.5:
        low = random.choice([0, 1, abs(step)])
    elif random.random() < 0.05:
        low = random.randint(1000, 9000)
    numbers = [low]
    tokens = len(str(low)) + 1
    for _ in range(random.choice([random.randint(1, 20), random.randint(4, 30), random.randint(20, 150)])):
        tokens += len(str(numbers[-1] + abs(step))) + 1
        if tokens > _LONGEST_ANSWER:
            break
        numbers.append(numbers[-1] + abs(step))
    return (low, numbers[-1], step) if step > 0 else (numbers[-1], low, step)


def _write(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    first, last, step = item
    kind, stated = _kind(first, last, step, random)
    question = wordings.QUESTIONS[kind, language].choose(random, unseen)
    return single(question.format(*stated, abs(step)), written(range(first, last + step // abs(step), step)))


def written(numbers: range) -> str:
    return ", ".join(map(str, numbers))


def _kind(first: int, last: int, step: int, random: Random) -> tuple[str, tuple[int, int]]:
    """One of the kinds of question that the range answers, with the ends that it names."""
    beyond = last + random.choice([0, 0, random.randint(0, abs(step) - 1)])
    if step == 1:
        return ("to" if first == 1 and random.random() < 0.4 else "up", (first, last))
    if step == -1:
        return ("down", (first, last))
    if step < 0:
        return ("down in steps", (first, last))
    if step == 2 and random.random() < 0.6:
        return ("odd" if first % 2 else "even", (first - random.choice([0, 1]) * (first > 0), beyond))
    if step == first and random.random() < 0.5:
        return ("multiples", (first, beyond))
    return ("in steps", (first, beyond))


SKILL = Skill("counting", _draw, _write, weight=1.2, shown=frozenset({(1, 128, 1), (1, 10, 1), (1, 100, 1)}))
