"""All skills together: endless training examples, and the held-out ones that are never among them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from random import Random

from models.demo.data import arithmetic, counting, facts, json_answers, lists, python, tools, turns
from models.demo.data.example import LANGUAGES, Example, Item, Language, Skill

SKILLS = [module.SKILL for module in (counting, arithmetic, lists, python, facts, turns, tools, json_answers)]

# One item in this many is held out.
_HELD_OUT_ONE_IN = 16

_SYSTEM_PROMPTS: dict[Language, list[str]] = {
    "en": ["You are a helpful assistant.", "Be brief.", "Answer as well as you can."],
    "zh": ["你是一个有用的助手。", "请简短回答。"],
}
_SYSTEM_PROMPT_SHARE = 0.15


def named(names: Sequence[str]) -> list[Skill]:
    """The skills of these names; all, if there are none.

    Raises:
        ValueError: a name that no skill has.
    """
    known = {skill.name: skill for skill in SKILLS}
    if unknown := set(names) - known.keys():
        raise ValueError(f"{', '.join(sorted(unknown))}: no such skill; there are {', '.join(known)}")
    return [known[name] for name in names] or SKILLS


def is_held_out(skill: Skill, item: Item) -> bool:
    """Decided by the item alone, so that no wording or language of it is ever trained on."""
    if item in skill.shown:
        return False
    digest = hashlib.blake2b(repr((skill.name, item)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) % _HELD_OUT_ONE_IN == 0


def training(skills: Sequence[Skill], seed: int) -> Iterator[Example]:
    """Endless; the same seed gives the same examples."""
    random = Random(seed)
    weights = [skill.weight for skill in skills]
    while True:
        (skill,) = random.choices(skills, weights)
        if random.random() < 0.02 and skill.shown:
            item = random.choice(sorted(skill.shown))
        else:
            item = _draw(skill, random, held_out=False)
        language = random.choice(LANGUAGES)
        example = skill.write(item, language, random)
        if random.random() < _SYSTEM_PROMPT_SHARE:
            prompt = {"role": "system", "content": random.choice(_SYSTEM_PROMPTS[language])}
            example.messages.insert(0, prompt)
        yield example


def held_out(skill: Skill, language: Language, count: int, seed: int = 0) -> list[Example]:
    """Different held-out items of a skill, `count` of them or, where it has fewer, all that were found."""
    random = Random(f"{skill.name} {language} {seed}")
    items: dict[Item, None] = {}
    for _ in range(20 * count):
        items[_draw(skill, random, held_out=True)] = None
        if len(items) == count:
            break
    return [skill.write(item, language, random) for item in items]


def _draw(skill: Skill, random: Random, held_out: bool) -> Item:
    while is_held_out(skill, item := skill.draw(random)) != held_out:
        pass
    return item
