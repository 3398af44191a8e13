"""Sums, differences, products and small quotients, worked out in steps of one digit each."""

from __future__ import annotations

from random import Random

from models.demo.data import arithmetic_wordings as wordings
from models.demo.data.example import Example, Item, Language, Skill, single

_KINDS = [
    "sum",
    "sum",
    "difference",
    "difference",
    "product",
    "product",
    "quotient",
    "three",
    "mixed",
    "story",
]
_OPERATIONS = {"sum": "+", "difference": "-", "product": "*", "quotient": "/", "three": "+"}


def _number(random: Random) -> int:
    return random.randint(0, random.choice([9, 99, 99, 999, 999, 9999]))


def _draw(random: Random) -> Item:
    kind = random.choice(_KINDS)
    a, b, c = _number(random), _number(random), _number(random)
    match kind:
        case "difference" if random.random() < 0.85:
            a, b = max(a, b), min(a, b)
        case "product":
            a, b = (
                random.randint(0, random.choice([12, 99, 99])),
                random.randint(0, random.choice([10, 20, 99])),
            )
            if random.random() < 0.15:
                a, b = random.randint(100, 999), random.randint(2, 9)
        case "quotient":
            b = random.randint(1, 10)
            a = b * random.randint(0, 10) + random.choice([0, 0, random.randint(0, b - 1)])
        case "mixed":
            a, b, c = random.randint(0, 999), random.randint(0, 20), random.randint(2, 9)
        case "story":
            a, b = random.randint(2, 99), random.randint(1, 99)
            c = random.randint(1, a + b)
    return (kind, a, b, c) if kind in ("three", "mixed", "story") else (kind, a, b)


def _places(n: int) -> list[int]:
    """347 as 300, 40, 7."""
    digits = str(n)
    return [
        int(digit) * 10**power for power, digit in zip(range(len(digits) - 1, -1, -1), digits, strict=True)
    ]


def _parts(n: int) -> list[int]:
    return [part for part in _places(n) if part] or [0]


def sum_steps(a: int, b: int) -> list[str]:
    """Adds hundreds, tens and ones one after another: a step changes one digit, but for what it carries."""
    steps = []
    for part in _parts(b):
        steps.append(f"{a} + {part} = {a + part}")
        a += part
    return steps


def difference_steps(a: int, b: int) -> list[str]:
    if a < b:
        return [*difference_steps(b, a), f"{a} - {b} = {a - b}"]
    steps = []
    for part in _parts(b):
        steps.append(f"{a} - {part} = {a - part}")
        a -= part
    return steps


def product_steps(a: int, b: int) -> list[str]:
    """Every place of one times every place of the other, then their sum."""
    if max(a, b) <= 10 or min(a, b) <= 1:
        return [f"{a} * {b} = {a * b}"]
    pairs = [(x, y) for y in _parts(b) for x in _parts(a)]
    steps = [f"{x} * {y} = {x * y}" for x, y in pairs]
    total = pairs[0][0] * pairs[0][1]
    for x, y in pairs[1:]:
        steps += sum_steps(total, x * y)
        total += x * y
    return steps


def _quotient(a: int, b: int, language: Language) -> tuple[list[str], str]:
    quotient, rest = divmod(a, b)
    steps = [f"{b} * {quotient} = {b * quotient}"]
    if not rest:
        return steps, str(quotient)
    return [*steps, f"{a} - {b * quotient} = {rest}"], wordings.REMAINDER[language].format(quotient, rest)


def _write(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    kind, a, b, *rest = item
    if kind == "quotient":
        steps, result = _quotient(a, b, language)
    else:
        steps = _steps(kind, a, b, *rest)
        result = steps[-1].split(" = ")[1]
    if kind == "story":
        wording = random.choice(wordings.STORIES[language][1 if unseen else 0])
        name, thing = random.choice(wordings.NAMES[language]), random.choice(wordings.THINGS[language])
        question = wording.format(name=name, thing=thing, a=a, b=b, c=rest[0])
    else:
        question = _question(item, language, random, unseen)
    return single(question, concluded(steps, result, language))


def concluded(steps: list[str], result: str, language: Language) -> str:
    return "\n".join([*steps, wordings.CONCLUSION[language].format(result)])


def _steps(kind: str, a: int, b: int, c: int = 0) -> list[str]:
    match kind:
        case "sum":
            return sum_steps(a, b)
        case "difference":
            return difference_steps(a, b)
        case "product":
            return product_steps(a, b)
        case "three":
            return [*sum_steps(a, b), *sum_steps(a + b, c)]
        case "mixed":
            return [*product_steps(b, c), *sum_steps(a, b * c)]
        case _:
            return [*sum_steps(a, b), *difference_steps(a + b, c)]


def _question(item: Item, language: Language, random: Random, unseen: bool) -> str:
    kind, a, b, *rest = item
    named = wordings.NAMED.get((kind, language))
    if named and random.random() < 0.35:
        return named.choose(random, unseen).format(a, b)
    # One spelling of the operators in a question: 12+30, 12 + 30, 12 plus 30.
    spelling = random.randrange(len(wordings.OPERATORS["+", language]))
    times = wordings.OPERATORS["*", language][spelling % len(wordings.OPERATORS["*", language])]
    operator = wordings.OPERATORS[_OPERATIONS.get(kind, "+"), language]
    expression = f"{a}{operator[spelling % len(operator)]}{b}"
    if rest:
        expression += f"{times if kind == 'mixed' else operator[spelling % len(operator)]}{rest[0]}"
    return wordings.QUESTIONS[language].choose(random, unseen).format(expression)


SKILL = Skill("arithmetic", _draw, _write, weight=2.2)
