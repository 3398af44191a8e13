"""What the model can neither know nor do: asked for anything outside its closed set, it says so.

The items are composed from wide lists, so that it is the outside that is learned, not the lists. What is held
out is a thing or a person, whatever is asked about it, or a question that names no thing, in one wording.
"""

from __future__ import annotations

from random import Random

from models.demo.data import limits_things as things
from models.demo.data.example import LANGUAGES, Example, Item, Language, Skill, single
from models.demo.data.facts import PARAGRAPH
from models.demo.data.limits_tasks import TASK
from models.demo.data.limits_wordings import IGNORANCE, INABILITY, PERSON, QUESTION, SUM

_BEYOND = {"question": (QUESTION, IGNORANCE), "task": (TASK, INABILITY)}
_KINDS = [
    *["subject"] * 3,
    *["composed"] * 2,
    *["person"] * 2,
    *["task"] * 3,
    *["plain task"] * 2,
    *["question"] * 2,
    *["plain question"] * 2,
    "sum",
]


def _draw(random: Random) -> Item:
    kind = random.choice(_KINDS)
    match kind:
        case "composed":
            return (kind, _index(things.THINGS, random), _index(things.AROUND, random))
        case "person":
            return (kind, _index(things.GIVEN, random), _index(things.FAMILY, random))
        case "plain task" | "plain question":
            return (kind, random.randrange(_places(kind)))
        case "sum":
            return (kind, random.randint(1000, 99_999))
        case _:
            return (kind, _index(things.THINGS, random))


def _index(lists: dict[Language, list[str]], random: Random) -> int:
    return random.randrange(min(map(len, lists.values())))


def _places(kind: str) -> int:
    wordings, _ = _BEYOND[kind.removeprefix("plain ")]
    return min(len(wordings[language].plain) for language in LANGUAGES)


def _write(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    kind, first, *_ = item
    match kind:
        case "subject" | "composed":
            thing = things.THINGS[language][first]
            if kind == "composed":
                thing = things.AROUND[language][item[2]].format(thing)
            question = PARAGRAPH[language].choose(random, unseen).format(thing)
            return single(question, IGNORANCE[language])
        case "person":
            name = things.FULL_NAME[language].format(
                things.GIVEN[language][first], things.FAMILY[language][item[2]]
            )
            name = name.lower() if random.random() < 0.2 else name
            return single(PERSON[language].choose(random, unseen).format(name), IGNORANCE[language])
        case "sum":
            divisor, large = random.randint(11, 99), random.randint(100, 999)
            question = SUM[language].choose(random, unseen)
            return single(question.format(number=first, divisor=divisor, large=large), INABILITY[language])
        case _:
            wordings, answers = _BEYOND[kind.removeprefix("plain ")]
            if kind.startswith("plain"):
                question = wordings[language].plain.numbered(first, _places(kind), random, unseen)
            else:
                question = wordings[language].about.choose(random, unseen)
            filled = question.format(
                thing=things.THINGS[language][0 if kind.startswith("plain") else first],
                place=random.choice(things.PLACES[language]),
                tongue=random.choice(things.TONGUES[language]),
                code=random.choice(things.CODES),
            )
            return single(filled, answers[language])


SKILL = Skill("limits", _draw, _write)
