# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""Lists of numbers or words: sorted up or down, reversed, or their largest or smallest number named."""

from __future__ import annotations

from random import Random

from models.demo.data import lists_wordings as wordings
from models.demo.data.example import Example, Item, Language, Skill, single

_ORDERS = [*["up"] * 4, *["down"] * 3, *["reverse"] * 3, "largest", "smallest"]
_SEPARATORS: dict[Language, list[str]] = {
    "en": [*[", "] * 4, ",", " ", " ", "; ", " and "],
    "zh": [*[", "] * 2, "，", "，", "、", "、", ",", " ", "和"],
}
_WORDS = min(map(len, wordings.WORDS.values()))


def _draw(random: Random) -> Item:
    order = random.choice(_ORDERS)
    length = random.choice([random.randint(2, 5), random.randint(3, 10)])
    if order == "reverse" and random.random() < 0.5:
        return (order, "words", *random.sample(range(_WORDS), length))
    if order == "up" and random.random() < 0.25:
        return ("alphabet", "words", *random.sample(range(_WORDS), length))
    largest = random.choice([9, 20, 99, 99, 999])
    return (order, "numbers", *(random.randint(0, largest) for _ in range(length)))


def _write(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    order, kind, *values = item
    if kind == "words":
        # English words even in a Chinese question, where they are to be sorted.
        known = wordings.WORDS["en" if order == "alphabet" else language]
        given = [known[value] for value in values]
    else:
        given = [str(value) for value in values]
    asked = order if kind == "numbers" or order == "alphabet" else "reverse words"
    question = wordings.QUESTIONS[asked, language].choose(random, unseen)
    return single(question.format(_listed(given, language, random)), answer(order, given, language))


def answer(order: str, given: list[str], language: Language) -> str:
    match order:
        case "reverse":
            return written(given[::-1])
        case "alphabet":
            return written(sorted(given))
        case "largest" | "smallest":
            chosen = max(given, key=int) if order == "largest" else min(given, key=int)
            return wordings.CHOSEN[order, language].format(chosen)
        case _:
            return written(sorted(given, key=int, reverse=order == "down"))


def written(elements: list[str]) -> str:
    """As every answer writes a list, however the question did."""
    return f"[{', '.join(elements)}]"


def _listed(elements: list[str], language: Language, random: Random) -> str:
    """As people write lists."""
    if random.random() < 0.3:
        return written(elements)
    separator = random.choice(_SEPARATORS[language])
    if separator == ", " and len(elements) > 2 and random.random() < 0.3:
        last = " and " if language == "en" else "和"
        return f"{separator.join(elements[:-1])}{last}{elements[-1]}"
    listed = separator.join(elements)
    match random.random():
        case share if share < 0.1:
            return f"[{listed}]"
        case share if share < 0.15:
            return f"({listed})"
        case share if share < 0.2:
            return f'"{listed}"' if language == "en" else f"“{listed}”"
        case _:
            return listed


SKILL = Skill("lists", _draw, _write, weight=1.7)
