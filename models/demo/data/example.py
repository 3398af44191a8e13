"""What a skill writes: a conversation, and the one answer to it that counts as right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")

# What an example is about, without its wording: (first, last, step) of a range, say.
Item = tuple[Any, ...]
Message = dict[str, Any]


@dataclass(frozen=True)
class Example:
    messages: list[Message]
    answer: str
    tools: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Skill:
    """One thing the model learns.

    Attributes:
        draw: a random item, held-out ones among them.
        write: the item as an example, in one of the skill's wordings; in one that is never trained on,
            if the last argument says so.
        weight: its share of the training text's examples, relative to the other skills.
        shown: items that are trained on whatever the split says.
    """

    name: str
    draw: Callable[[Random], Item]
    write: Callable[[Item, Language, Random, bool], Example]
    weight: float = 1.0
    shown: frozenset[Item] = frozenset()


def user(content: str) -> Message:
    return {"role": "user", "content": content}


def assistant(content: str) -> Message:
    return {"role": "assistant", "content": content}


def single(question: str, answer: str) -> Example:
    return Example([user(question)], answer)


def words(text: str) -> list[str]:
    """Of a text that is easier to read than a list."""
    return text.split()
