# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""Short paragraphs about a closed set of subjects.

The subjects are all trained on: what is held out is a subject in one of its wordings.
"""

from __future__ import annotations

from random import Random

from models.demo.data.example import Example, Item, Language, Skill, single
from models.demo.data.subjects import ALIASES, SUBJECTS
from models.demo.data.wordings import Wordings

# The unknown are asked for in the same words.
PARAGRAPH: dict[Language, Wordings] = {
    "en": Wordings(
        "en",
        """
        write a brief introduction of {}
        write a brief introduction to {}
        write a short introduction of {}
        write a short paragraph about {}
        write a paragraph about {}
        write something about {}
        write a few sentences about {}
        write about {}
        tell me about {}
        tell me something about {}
        tell me more about {}
        describe {}
        describe {} briefly
        introduce {}
        explain {}
        explain {} briefly
        explain what {} is
        give me an overview of {}
        give me a short introduction to {}
        give me some information about {}
        say something about {}
        """,
        """
        What is {}?
        What's {}?
        What do you know about {}?
        What can you tell me about {}?
        I want to know more about {}.
        I would like to learn about {}.
        Do you know {}?
        Do you know anything about {}?
        {}?
        A few words on {}, please.
        """,
        """
        My child asks about {}, what should I say?
        Let me have a little text on {}.
        """,
    ),
    "zh": Wordings(
        "zh",
        """
        介绍一下{}
        介绍{}
        简单介绍{}
        简单介绍一下{}
        描述一下{}
        描述{}
        解释一下{}
        简单解释{}
        写一段关于{}的短文
        写一段{}的介绍
        写一个{}的简短介绍
        讲讲{}
        给我讲讲{}
        说说{}
        谈谈{}
        告诉我关于{}的知识
        告诉我什么是{}
        """,
        """
        什么是{}？
        {}是什么？
        我想多了解{}。
        我想了解{}。
        你知道{}吗？
        你了解{}吗？
        关于{}，你知道什么？
        有关{}的介绍
        我对{}感兴趣。
        关于{}的短文
        """,
        """
        孩子问我{}的事，我该怎么说？
        来一小段文字，主题是{}。
        """,
    ),
}
_SENTENCE: dict[Language, Wordings] = {
    "en": Wordings(
        "en",
        """
        describe {} in one sentence
        explain {} in one sentence
        tell me about {} in one sentence
        write one sentence about {}
        summarize {} in one sentence
        define {} in one sentence
        """,
        """
        What is {}, in one sentence?
        What is {} in one sentence?
        One sentence about {}, please.
        In one sentence, what is {}?
        """,
        "I have time for a single sentence: what about {}?",
    ),
    "zh": Wordings(
        "zh",
        """
        用一句话介绍{}
        用一句话描述{}
        用一句话说说{}
        用一句话解释{}
        写一句关于{}的话
        """,
        """
        {}是什么？用一句话回答。
        一句话，什么是{}？
        """,
        "我只有听一句话的时间：{}怎么样？",
    ),
}
_KINDS = {"paragraph": PARAGRAPH, "sentence": _SENTENCE}


def _draw(random: Random) -> Item:
    """(kind, subject, wording's number)."""
    kind = random.choices(list(_KINDS), [4, 1])[0]
    return (kind, random.choice(list(SUBJECTS)), random.randrange(_places(kind)))


def _write(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    kind, subject, wording = item
    name, text = SUBJECTS[subject][language]
    if kind == "sentence":
        stop = "." if language == "en" else "。"
        text = text.split(stop)[0] + stop
    if random.random() < 0.3:
        name = random.choice([name, name.lower(), *ALIASES.get(subject, {}).get(language, [])])
    return single(_KINDS[kind][language].numbered(wording, _places(kind), random, unseen).format(name), text)


def _places(kind: str) -> int:
    return min(map(len, _KINDS[kind].values()))


SKILL = Skill(
    "facts",
    _draw,
    _write,
    weight=1.1,
    shown=frozenset(
        ("paragraph", subject, wording)
        for subject in ("great_wall", "diffusion_language_model")
        for wording in map(PARAGRAPH["en"].place, ("write a brief introduction of {}", "What is {}?"))
    ),
)
