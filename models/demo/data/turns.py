# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""Conversations whose last question needs an earlier turn."""

from __future__ import annotations

from random import Random

from models.demo.data.example import Example, Item, Language, Message, Skill, assistant, user, words
from models.demo.data.json_answers import CITIES, JOBS, NAMES

_VALUES = {
    "name": NAMES,
    "city": CITIES,
    "job": JOBS,
    "colour": {
        "en": words("red blue green yellow black white orange purple"),
        "zh": words("红色 蓝色 绿色 黄色 黑色 白色 橙色 紫色"),
    },
    "pet": {"en": words("dog cat bird fish horse rabbit"), "zh": words("狗 猫 鸟 鱼 马 兔子")},
}
# What is told, how it is taken in, what is asked, what is answered.
_PHRASES = {
    ("name", "en"): ("My name is {}.", "Nice to meet you, {}.", "What is my name?", "Your name is {}."),
    ("name", "zh"): ("我叫{}。", "很高兴认识你，{}。", "我叫什么名字？", "你叫{}。"),
    ("city", "en"): ("I live in {}.", "{} is a nice place.", "Where do I live?", "You live in {}."),
    ("city", "zh"): ("我住在{}。", "{}是个好地方。", "我住在哪里？", "你住在{}。"),
    ("job", "en"): ("I work as a {}.", "Being a {} is good work.", "What is my job?", "You are a {}."),
    ("job", "zh"): ("我是一名{}。", "{}是很好的工作。", "我的工作是什么？", "你是一名{}。"),
    ("colour", "en"): (
        "My favourite colour is {}.",
        "I like {} too.",
        "What is my favourite colour?",
        "Your favourite colour is {}.",
    ),
    ("colour", "zh"): ("我最喜欢{}。", "我也喜欢{}。", "我最喜欢什么颜色？", "你最喜欢{}。"),
    ("pet", "en"): ("I have a {}.", "A {} is a good friend.", "What pet do I have?", "You have a {}."),
    ("pet", "zh"): ("我养了一只{}。", "{}是好朋友。", "我养了什么宠物？", "你养了一只{}。"),
}
_PLUS = {
    "en": ("What is {} + {}?", "Now add {}.", "The answer is {}."),
    "zh": ("{} + {}等于多少？", "再加{}。", "答案是{}。"),
}


def _draw(random: Random) -> Item:
    if random.random() < 0.25:
        return ("plus", random.randint(0, 99), random.randint(0, 99), random.randint(0, 99))
    kinds = random.sample(list(_VALUES), random.randint(1, 3))
    told = [(kind, random.randrange(len(_VALUES[kind]["en"]))) for kind in kinds]
    return ("told", random.choice(kinds), *told)


def _write(item: Item, language: Language, random: Random) -> Example:
    if item[0] == "plus":
        _, a, b, c = item
        first, then, answer = _PLUS[language]
        reply = f"{a} + {b} = {a + b}\n{answer.format(a + b)}"
        messages = [user(first.format(a, b)), assistant(reply), user(then.format(c))]
        return Example(messages, f"{a + b} + {c} = {a + b + c}\n{answer.format(a + b + c)}")
    _, asked, *told = item
    turns: list[Message] = []
    answer = question = ""
    for kind, index in told:
        value = _VALUES[kind][language][index]
        statement, reply, about, known = _PHRASES[kind, language]
        turns += [user(statement.format(value)), assistant(reply.format(value))]
        if kind == asked:
            question, answer = about, known.format(value)
    return Example([*turns, user(question)], answer)


SKILL = Skill("turns", _draw, _write)
