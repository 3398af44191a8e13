# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""Lists of numbers or words: sorted up or down, or reversed."""

from __future__ import annotations

from random import Random

from models.demo.data.example import Example, Item, Language, Skill, single, words

# Words are only reversed: in Chinese they have no order that a small model could know.
WORDS = {
    "en": words(
        "apple bear cloud door eagle fish glass horse island jacket kite lemon moon night ocean paper queen "
        "river stone tree umbrella village water yellow zebra"
    ),
    "zh": words("山 水 火 木 土 日 月 花 鸟 鱼 马 牛 羊 门 车 船 书 雨 雪 风 云 星 河 海 树"),
}
_QUESTIONS = {
    ("up", "en"): ["Sort this list: {}", "Sort {} in ascending order.", "Please sort this list: {}"],
    ("down", "en"): ["Sort {} in descending order.", "Sort this list from largest to smallest: {}"],
    ("reverse", "en"): ["Reverse this list: {}", "Write {} in reverse order."],
    ("up", "zh"): ["把这个列表排序：{}", "请从小到大排序：{}", "将{}按升序排列。"],
    ("down", "zh"): ["请从大到小排序：{}", "将{}按降序排列。"],
    ("reverse", "zh"): ["把这个列表倒过来：{}", "请倒序写出{}。"],
}


def _draw(random: Random) -> Item:
    order = random.choice(["up", "up", "down", "reverse"])
    length = random.randint(3, 10)
    if order == "reverse" and random.random() < 0.5:
        return (order, "words", *random.sample(range(len(WORDS["en"])), length))
    largest = random.choice([20, 99, 99, 999])
    return (order, "numbers", *(random.randint(0, largest) for _ in range(length)))


def _write(item: Item, language: Language, random: Random) -> Example:
    order, kind, *values = item
    ordered = values[::-1] if order == "reverse" else sorted(values, reverse=order == "down")
    question = random.choice(_QUESTIONS[order, language])
    return single(question.format(_written(values, kind, language)), _written(ordered, kind, language))


def _written(values: list[int], kind: str, language: Language) -> str:
    words = map(str, values) if kind == "numbers" else (WORDS[language][value] for value in values)
    return f"[{', '.join(words)}]"


SKILL = Skill("lists", _draw, _write, weight=1.5)
