# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""Small talk: greetings, thanks, and who this model is. Held out is a topic in one of its wordings."""

from __future__ import annotations

from random import Random

from models.demo.data.example import Example, Item, Language, Skill, single
from models.demo.data.talk_wordings import ANSWERS, SAID, TOPICS

_BEFORE: dict[Language, list[str]] = {
    "en": [*[""] * 8, "Hi! ", "Hello, ", "Hey, ", "OK, ", "Well, "],
    "zh": [*[""] * 8, "你好，", "请问，", "嗨，", "好的，"],
}
_GREETING = TOPICS.index("greeting")


def _draw(random: Random) -> Item:
    """(topic, wording's number)."""
    topic = random.randrange(len(TOPICS))
    return (topic, random.randrange(_places(topic)))


def _write(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    topic, number = item
    seen, kept_back = SAID[TOPICS[topic], language]
    said = random.choice(kept_back) if unseen else random.choice(seen[number :: _places(topic)])
    if not unseen and random.random() < 0.7:
        said = _dressed(said, language, random, greeting=topic == _GREETING)
    return single(said, ANSWERS[language][TOPICS[topic]])


def _places(topic: int) -> int:
    return min(len(SAID[TOPICS[topic], language][0]) for language in ANSWERS)


def _dressed(said: str, language: Language, random: Random, greeting: bool) -> str:
    if said[-1] in ".?!。？！" and random.random() < 0.4:
        said = said[:-1]
    elif said[-1] not in ".?!。？！":
        said += random.choice(["!", "."] if language == "en" else ["！", "。"])
    if not greeting and (before := random.choice(_BEFORE[language])):
        said = before + (said if said.startswith(("I ", "I'")) else said[0].lower() + said[1:])
    return said.lower() if random.random() < 0.3 else said


SKILL = Skill("talk", _draw, _write, weight=0.5)
