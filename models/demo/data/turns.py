"""Conversations whose last question needs an earlier turn."""

from __future__ import annotations

from random import Random

from models.demo.data import turns_wordings as wordings
from models.demo.data.arithmetic import concluded, difference_steps, product_steps, sum_steps
from models.demo.data.counting import written as counted
from models.demo.data.example import Example, Item, Language, Message, Skill, assistant, user
from models.demo.data.lists import answer as ordered
from models.demo.data.turns_following import FOLLOWING, OPENING

_KINDS = [*["told"] * 5, *["sum"] * 3, *["list"] * 3, *["count"] * 2, "first", "before"]
_FOLLOW_UPS = {"list": ["up", "down", "reverse"], "count": ["on", "back"]}
_CHANGES = {"plus": sum_steps, "minus": difference_steps, "times": product_steps}


def _draw(random: Random) -> Item:
    kind = random.choice(_KINDS)
    match kind:
        case "told":
            kinds = random.sample(list(wordings.VALUES), random.randint(1, 3))
            told = [(each, random.randrange(len(wordings.VALUES[each]["en"]))) for each in kinds]
            return (kind, random.choice(kinds), *told)
        case "sum":
            a, b = random.randint(0, 99), random.randint(0, 99)
            return (kind, a, b, *_changes(a + b, random))
        case "list":
            numbers = [random.randint(0, random.choice([9, 99])) for _ in range(random.randint(2, 7))]
            return (
                kind,
                random.choice(["up", "down", "reverse"]),
                random.choice(_FOLLOW_UPS[kind]),
                *numbers,
            )
        case "count":
            first = random.choice([1, 1, random.randint(0, 90)])
            return (
                kind,
                random.choice(_FOLLOW_UPS[kind]),
                first,
                first + random.randint(2, 12),
                random.randint(2, 12),
            )
        case _:
            return (kind, *random.sample(range(len(wordings.REMEMBERED["en"])), random.randint(2, 3)))


def _changes(total: int, random: Random) -> list[tuple[str, int]]:
    """One to three of plus, minus and times, none of which goes below zero."""
    changes = []
    for _ in range(random.choice([1, 1, 2, 3])):
        change = (
            random.choice(["plus", "plus", "minus", "times"])
            if total < 100
            else random.choice(["plus", "minus"])
        )
        c = random.randint(2, 9) if change == "times" else random.randint(0, min(99, total))
        total = {"plus": total + c, "minus": total - c, "times": total * c}[change]
        changes.append((change, c))
    return changes


def _write(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    kind = item[0]
    example = _WRITERS[kind](item, language, random, unseen)
    if kind not in ("first", "before") and random.random() < 0.2:
        example.messages[:0] = _interlude(language, random)
    return example


def _told(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    _, asked, *told = item
    turns: list[Message] = []
    answer = ""
    for kind, index in told:
        value = wordings.VALUES[kind][language][index]
        phrases = wordings.TOLD[kind, language]
        statement = phrases.statement.choose(random, unseen=False).format(value)
        turns += [user(statement), assistant(phrases.reply.format(value))]
        if kind == asked:
            answer = phrases.known.format(value)
    if random.random() < 0.25:
        turns += _interlude(language, random)
    return Example([*turns, user(wordings.TOLD[asked, language].about.choose(random, unseen))], answer)


def _sum(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    _, a, b, *changes = item
    messages = [user(OPENING["sum", language].choose(random, unseen=False).format(a, b))]
    total, steps = a + b, sum_steps(a, b)
    for number, (change, c) in enumerate(changes, start=1):
        messages.append(assistant(concluded(steps, str(total), language)))
        wording = FOLLOWING[change, language].choose(random, unseen and number == len(changes))
        messages.append(user(wording.format(c)))
        steps = _CHANGES[change](total, c)
        total = int(steps[-1].split(" = ")[1])
    return Example(messages, concluded(steps, str(total), language))


def _list(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    _, first, follow, *numbers = item
    given = [str(number) for number in numbers]
    opening = OPENING[first, language].choose(random, unseen=False).format(", ".join(given))
    reply = ordered(first, given, language)
    answer = ordered(follow, reply.strip("[]").split(", "), language)
    then = FOLLOWING[follow, language].choose(random, unseen)
    return Example([user(opening), assistant(reply), user(then)], answer)


def _count(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    _, follow, first, last, more = item
    opening = OPENING["count", language].choose(random, unseen=False).format(first, last)
    then = FOLLOWING[follow, language].choose(random, unseen).format(last + more)
    answer = range(last + 1, last + more + 1) if follow == "on" else range(last, first - 1, -1)
    return Example([user(opening), assistant(counted(range(first, last + 1))), user(then)], counted(answer))


def _asked(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    kind, *chosen = item
    turns: list[Message] = []
    for index in chosen:
        question, answer = wordings.REMEMBERED[language][index]
        turns += [user(question), assistant(answer)]
    remembered, _ = wordings.REMEMBERED[language][chosen[0] if kind == "first" else chosen[-1]]
    then = FOLLOWING[kind, language].choose(random, unseen)
    return Example([*turns, user(then)], wordings.YOU_ASKED[language].format(remembered))


def _interlude(language: Language, random: Random) -> list[Message]:
    question, answer = random.choice(wordings.REMEMBERED[language])
    return [user(question), assistant(answer)]


_WRITERS = {"told": _told, "sum": _sum, "list": _list, "count": _count, "first": _asked, "before": _asked}

SKILL = Skill("turns", _draw, _write, weight=1.3)
