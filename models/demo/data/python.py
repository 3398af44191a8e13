"""Small Python functions: those of a grammar (keep, change, gather), and some that everybody asks for."""

from __future__ import annotations

from random import Random

from models.demo.data.example import Example, Item, Language, Skill, single
from models.demo.data.python_programs import PROGRAMS
from models.demo.data.python_wordings import PROGRAM_QUESTIONS, QUESTIONS

# keep: which numbers. Name, test, English, Chinese; {k} is a number.
_KEEP = {
    "all": ("", "", "the numbers", "所有数字"),
    "even": ("even", "n % 2 == 0", "the even numbers", "偶数"),
    "odd": ("odd", "n % 2 == 1", "the odd numbers", "奇数"),
    "positive": ("positive", "n > 0", "the positive numbers", "正数"),
    "negative": ("negative", "n < 0", "the negative numbers", "负数"),
    "above": ("above_{k}", "n > {k}", "the numbers above {k}", "大于{k}的数字"),
    "below": ("below_{k}", "n < {k}", "the numbers below {k}", "小于{k}的数字"),
    "multiples": ("multiples_of_{k}", "n % {k} == 0", "the multiples of {k}", "{k}的倍数"),
}
# change: what becomes of each.
_CHANGE = {
    "same": ("", "n", "", ""),
    "square": ("squares", "n * n", "the squares of ", "的平方"),
    "cube": ("cubes", "n ** 3", "the cubes of ", "的立方"),
    "double": ("doubles", "n * 2", "the doubles of ", "的两倍"),
    "half": ("halves", "n / 2", "the halves of ", "的一半"),
    "negate": ("negatives", "-n", "the negatives of ", "的相反数"),
}
# gather: name, call around a comprehension, loop's start, loop's line, English, Chinese.
_GATHER = {
    "list": ("list", "[{}]", "[]", "result.append({})", "a list of ", "的列表"),
    "sum": ("sum", "sum({})", "0", "result += {}", "the sum of ", "之和"),
    "count": ("count", "len([{}])", "0", "result += 1", "the count of ", "的个数"),
    "product": ("product", "math.prod({})", "1", "result *= {}", "the product of ", "之积"),
    "largest": ("largest", "max({})", "None", "", "the largest of ", "的最大值"),
    "smallest": ("smallest", "min({})", "None", "", "the smallest of ", "的最小值"),
}
_PLACES = min(map(len, PROGRAM_QUESTIONS.values()))


def _draw(random: Random) -> Item:
    """("program", name, wording), or (style, keep, k, change, gather) with k 0 where nothing needs it."""
    if random.random() < 0.3:
        return ("program", random.choice(list(PROGRAMS)), random.randrange(_PLACES))
    keep = random.choice(list(_KEEP))
    k = random.randint(2, 20) if "{k}" in _KEEP[keep][1] else 0
    gather = random.choice(list(_GATHER))
    style = random.choice(["comprehension", "loop"]) if _GATHER[gather][3] else "comprehension"
    return (style, keep, k, random.choice(list(_CHANGE)), gather)


def _write(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    if item[0] == "program":
        _, name, wording = item
        program = PROGRAMS[name]
        question = PROGRAM_QUESTIONS[language].numbered(wording, _PLACES, random, unseen)
        question = question.format(random.choice(program.called[language]))
        return single(question, fenced(program.code))
    style, keep, k, change, gather = item
    column = 2 if language == "en" else 3
    parts = [_GATHER[gather][column + 2], _CHANGE[change][column], _KEEP[keep][column].format(k=k)]
    question = QUESTIONS[style, language].choose(random, unseen).format(*parts)
    return single(question, fenced(code(style, keep, k, change, gather)))


def fenced(source: str) -> str:
    return f"```python\n{source}\n```"


def code(style: str, keep: str, k: int, change: str, gather: str) -> str:
    """A grammar function's source; the function is its only one and takes a list."""
    keep_name, test, *_ = (part.format(k=k) for part in _KEEP[keep])
    change_name, changed, *_ = _CHANGE[change]
    gather_name, call, start, line, *_ = _GATHER[gather]
    name = "_".join(part for part in (gather_name, change_name, keep_name) if part)
    name = f"{name}_numbers" if name == gather_name else name
    head = f"def {name}(numbers):\n"
    if style == "loop":
        body = line.format(changed)
        inner = f"        if {test}:\n            {body}\n" if test else f"        {body}\n"
        return f"{head}    result = {start}\n    for n in numbers:\n{inner}    return result"
    comprehension = f"{changed} for n in numbers" + (f" if {test}" if test else "")
    imports = "import math\n\n" if gather == "product" else ""
    return f"{imports}{head}    return {call.format(comprehension)}"


SKILL = Skill(
    "python", _draw, _write, shown=frozenset(("program", name, 0) for name in ("quicksort", "fibonacci"))
)
