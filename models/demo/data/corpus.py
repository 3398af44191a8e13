"""All skills together: endless training examples, and the held-out ones that are never among them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from random import Random

from models.demo.data import (
    arithmetic,
    counting,
    facts,
    json_answers,
    limits,
    lists,
    python,
    talk,
    tools,
    turns,
)
from models.demo.data.example import LANGUAGES, Example, Item, Language, Message, Skill, assistant
from models.demo.data.system_prompts import SYSTEM_PROMPTS

SKILLS = [
    module.SKILL
    for module in (counting, arithmetic, lists, python, facts, talk, limits, turns, tools, json_answers)
]

# One item in this many is held out.
_HELD_OUT_ONE_IN = 16

_SYSTEM_PROMPT_SHARE = 0.2
# Examples of these skills may follow earlier turns about something else. Not those of `turns`, which say what
# came first, nor those of `tools`, which take more room.
_CONTINUED = {"counting", "arithmetic", "lists", "python", "facts", "talk", "limits", "json"}
_CONTINUED_SHARE = 0.25
# Of these, some are asked while tools are offered that they do not need.
_BESIDE_TOOLS = {"lists", "facts", "talk"}
_BESIDE_TOOLS_SHARE = 0.08
_LONGEST = 460  # tokens of a conversation, the chat template's included
_TURN = 12  # tokens of the chat template, a turn


_EARLIER = [skill for skill in SKILLS if skill.name in _CONTINUED]
_TOKENS = re.compile(r" ?[A-Za-z]{1,4}|[^A-Za-z ]|  +")


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
        if random.random() < 0.03 and skill.shown:
            item = random.choice(sorted(skill.shown))
        else:
            item = _draw(skill, random, held_out=False)
        language = random.choice(LANGUAGES)
        example = skill.write(item, language, random, False)
        if skill.name in _CONTINUED and random.random() < _CONTINUED_SHARE:
            example.messages[:0] = _earlier_turns(example, language, random)
        elif skill.name in _BESIDE_TOOLS and random.random() < _BESIDE_TOOLS_SHARE:
            example.tools.extend(random.sample(list(tools.TOOLS.values()), random.randint(1, 2)))
        if random.random() < _SYSTEM_PROMPT_SHARE:
            prompt = {"role": "system", "content": random.choice(SYSTEM_PROMPTS[language])}
            example.messages.insert(0, prompt)
        yield example


def held_out(
    skill: Skill, language: Language, count: int, seed: int = 0, *, unseen_wordings: bool = False
) -> list[Example]:
    """Different held-out items of a skill, `count` of them or, where it has fewer, all that were found.

    Args:
        unseen_wordings: asked for in words that are never trained on.
    """
    random = Random(f"{skill.name} {language} {seed}")
    items: dict[Item, None] = {}
    for _ in range(20 * count):
        items[_draw(skill, random, held_out=True)] = None
        if len(items) == count:
            break
    return [skill.write(item, language, random, unseen_wordings) for item in items]


def _earlier_turns(example: Example, language: Language, random: Random) -> list[Message]:
    """One to three questions of any skills with their answers, as far as there is room."""
    turns: list[Message] = []
    room = _LONGEST - _length(example)
    for _ in range(random.choice([1, 1, 2, 3])):
        skill = random.choice(_EARLIER)
        earlier = skill.write(_draw(skill, random, held_out=False), language, random, False)
        room -= _length(earlier)
        if room < 0:
            break
        turns += [*earlier.messages, assistant(earlier.answer)]
    return turns


def _length(example: Example) -> int:
    """At least about as many tokens as it has, without the cost of a tokenizer."""
    texts = [*(message["content"] for message in example.messages), example.answer]
    return sum(_TURN + len(_TOKENS.findall(text)) for text in texts)


def _draw(skill: Skill, random: Random, held_out: bool) -> Item:
    while is_held_out(skill, item := skill.draw(random)) != held_out:
        pass
    return item
