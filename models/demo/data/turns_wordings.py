# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""What people tell of themselves and ask for later, and other turns that a conversation passes through."""

from __future__ import annotations

from dataclasses import dataclass

from models.demo.data.example import Language, words
from models.demo.data.json_answers import CITIES, JOBS, NAMES
from models.demo.data.talk_wordings import ANSWERS
from models.demo.data.wordings import Wordings

VALUES: dict[str, dict[Language, list[str]]] = {
    "name": {"en": NAMES["en"], "zh": NAMES["zh"]},
    "city": {"en": CITIES["en"], "zh": CITIES["zh"]},
    "job": {"en": JOBS["en"], "zh": JOBS["zh"]},
    "colour": {
        "en": words("red blue green yellow black white orange purple pink brown"),
        "zh": words("红色 蓝色 绿色 黄色 黑色 白色 橙色 紫色 粉色 棕色"),
    },
    "pet": {
        "en": words("dog cat bird fish horse rabbit hamster turtle"),
        "zh": words("狗 猫 鸟 鱼 马 兔子 仓鼠 乌龟"),
    },
    "age": {"en": [str(n) for n in range(5, 96)], "zh": [str(n) for n in range(5, 96)]},
}


@dataclass(frozen=True)
class Told:
    """What is told, how it is taken in, what is asked, what is answered."""

    statement: Wordings
    reply: str
    about: Wordings
    known: str


def _told(language: Language, statements: str, reply: str, about: tuple[str, str, str], known: str) -> Told:
    return Told(Wordings(language, questions=statements), reply, Wordings(language, *about), known)


TOLD: dict[tuple[str, Language], Told] = {
    ("name", "en"): _told(
        "en",
        "My name is {}.\nI am {}.\nCall me {}.\nI'm {}\nMy name's {}.",
        "Nice to meet you, {}.",
        (
            "tell me my name\nsay my name",
            """
            What is my name?
            What's my name?
            Do you remember my name?
            Who am I?
            What am I called?
            What did I say my name was?
            """,
            "How do my friends call me?",
        ),
        "Your name is {}.",
    ),
    ("city", "en"): _told(
        "en",
        "I live in {}.\nMy home is in {}.\nI am from {}.\nI'm living in {}.",
        "{} is a nice place.",
        (
            "tell me where I live",
            """
            Where do I live?
            In which city do I live?
            Which city am I from?
            Do you remember where I live?
            Where is my home?
            """,
            "To which city do I come back in the evening?",
        ),
        "You live in {}.",
    ),
    ("job", "en"): _told(
        "en",
        "I work as a {}.\nMy job: {}.\nI'm a {} by profession.\nI earn my money as a {}.",
        "Being a {} is good work.",
        (
            "tell me my job",
            """
            What is my job?
            What do I do for a living?
            What do I work as?
            Do you remember my job?
            What is my profession?
            """,
            "How do I earn my money?",
        ),
        "You are a {}.",
    ),
    ("colour", "en"): _told(
        "en",
        "My favourite colour is {}.\nMy favorite color is {}.\nI like {} best.\nI love the colour {}.",
        "I like {} too.",
        (
            "tell me my favourite colour",
            """
            What is my favourite colour?
            What is my favorite color?
            Which colour do I like?
            Which color do I like best?
            Do you remember my favourite colour?
            """,
            "In which colour would I paint my room?",
        ),
        "Your favourite colour is {}.",
    ),
    ("pet", "en"): _told(
        "en",
        "I have a {}.\nMy pet is a {}.\nI own a {}.\nAt home I have a {}.",
        "A {} is a good friend.",
        (
            "tell me which pet I have",
            """
            What pet do I have?
            Which animal do I have?
            What is my pet?
            Do you remember my pet?
            What animal do I own?
            """,
            "Which animal waits for me at home?",
        ),
        "You have a {}.",
    ),
    ("age", "en"): _told(
        "en",
        "I am {} years old.\nI'm {} years old.\nMy age is {}.",
        "{} is a good age.",
        (
            "tell me my age",
            "How old am I?\nWhat is my age?\nDo you remember my age?\nDo you remember how old I am?",
            "How many years have I lived?",
        ),
        "You are {} years old.",
    ),
    ("name", "zh"): _told(
        "zh",
        "我叫{}。\n我的名字是{}。\n我是{}。\n叫我{}吧。",
        "很高兴认识你，{}。",
        (
            "说出我的名字\n告诉我我的名字",
            "我叫什么名字？\n我叫什么？\n我的名字是什么？\n你记得我的名字吗？\n我是谁？",
            "朋友们怎么叫我？",
        ),
        "你叫{}。",
    ),
    ("city", "zh"): _told(
        "zh",
        "我住在{}。\n我家在{}。\n我来自{}。",
        "{}是个好地方。",
        (
            "告诉我我住在哪里",
            "我住在哪里？\n我住哪儿？\n我家在哪里？\n我在哪个城市？\n你记得我住在哪里吗？",
            "我晚上回哪个城市？",
        ),
        "你住在{}。",
    ),
    ("job", "zh"): _told(
        "zh",
        "我是一名{}。\n我的工作是{}。\n我当{}。\n我的职业是{}。",
        "{}是很好的工作。",
        (
            "告诉我我的工作",
            "我的工作是什么？\n我是做什么的？\n我的职业是什么？\n你记得我的工作吗？",
            "我靠什么挣钱？",
        ),
        "你是一名{}。",
    ),
    ("colour", "zh"): _told(
        "zh",
        "我最喜欢{}。\n我最喜欢的颜色是{}。\n我喜欢{}。",
        "我也喜欢{}。",
        (
            "说出我最喜欢的颜色",
            "我最喜欢什么颜色？\n我喜欢什么颜色？\n我最喜欢的颜色是什么？\n你记得我喜欢什么颜色吗？",
            "我会把房间刷成什么颜色？",
        ),
        "你最喜欢{}。",
    ),
    ("pet", "zh"): _told(
        "zh",
        "我养了一只{}。\n我的宠物是{}。\n我家有一只{}。",
        "{}是好朋友。",
        (
            "告诉我我的宠物是什么",
            "我养了什么宠物？\n我的宠物是什么？\n我养了什么？\n我有什么宠物？",
            "家里有什么动物等着我？",
        ),
        "你养了一只{}。",
    ),
    ("age", "zh"): _told(
        "zh",
        "我今年{}岁。\n我{}岁了。\n我的年龄是{}岁。",
        "{}岁是个好年纪。",
        ("告诉我我的年龄", "我几岁？\n我今年多大？\n我多大了？\n我的年龄是多少？", "我活了多少年？"),
        "你今年{}岁。",
    ),
}
YOU_ASKED: dict[Language, str] = {"en": 'You asked: "{}"', "zh": "你问的是：“{}”"}

# Turns that a conversation passes through; no item of another skill that might be held out there.
REMEMBERED: dict[Language, list[tuple[str, str]]] = {
    "en": [
        ("Hello!", ANSWERS["en"]["greeting"]),
        ("Who are you?", ANSWERS["en"]["identity"]),
        ("How are you?", ANSWERS["en"]["how"]),
        ("Tell me a joke.", ANSWERS["en"]["joke"]),
        ("What can you do?", ANSWERS["en"]["ability"]),
        ("Are you an AI?", ANSWERS["en"]["machine"]),
        ("Count to 10", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10"),
        ("What is your name?", ANSWERS["en"]["name"]),
        ("Thank you!", ANSWERS["en"]["thanks"]),
        ("Are you human?", ANSWERS["en"]["human"]),
        ("Who made you?", ANSWERS["en"]["maker"]),
        ("How big are you?", ANSWERS["en"]["size"]),
    ],
    "zh": [
        ("你好！", ANSWERS["zh"]["greeting"]),
        ("你是谁？", ANSWERS["zh"]["identity"]),
        ("你好吗？", ANSWERS["zh"]["how"]),
        ("讲个笑话。", ANSWERS["zh"]["joke"]),
        ("你会做什么？", ANSWERS["zh"]["ability"]),
        ("你是人工智能吗？", ANSWERS["zh"]["machine"]),
        ("数到10", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10"),
        ("你叫什么名字？", ANSWERS["zh"]["name"]),
        ("谢谢！", ANSWERS["zh"]["thanks"]),
        ("你是人吗？", ANSWERS["zh"]["human"]),
        ("谁创造了你？", ANSWERS["zh"]["maker"]),
        ("你有多大？", ANSWERS["zh"]["size"]),
    ],
}
