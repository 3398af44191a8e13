"""What the demo model is asked, all of it held out from its training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from models.demo import tokenizer
from models.demo.data import corpus
from models.demo.data.example import LANGUAGES, Example, Language, Skill
from models.demo.rows import Encoder

CHECKPOINT = Path(tokenizer.__file__).parent / "checkpoint"
_DOCUMENT_TOKENS = 512  # the longest that the model was trained on: prompt, answer and end

# Algorithm and parameters by name. Speed and quality are LLaDA2.1's.
MODES: dict[str, tuple[str, dict[str, Any]]] = {
    "LowConfidence 0.95": ("LowConfidence", {"threshold": 0.95}),
    "LowConfidence 0.7": ("LowConfidence", {"threshold": 0.7}),
    "LowConfidence 0.5": ("LowConfidence", {"threshold": 0.5}),
    "JointThreshold speed": ("JointThreshold", {"threshold": 0.5, "edit_threshold": 0.0}),
    "JointThreshold quality": ("JointThreshold", {"threshold": 0.7, "edit_threshold": 0.5}),
    "EntropyBounded": ("EntropyBounded", {}),
    "Hierarchical": ("Hierarchical", {}),
    "Credit": ("Credit", {}),
}


@dataclass(frozen=True)
class Question:
    skill: str
    language: Language
    prompt: list[int]
    answer: str
    answer_tokens: int


class Questions:
    def __init__(self) -> None:
        self._tokenizer: Tokenizer = tokenizer.load()
        self._encoder = Encoder(self._tokenizer)
        self._end: int = json.loads((CHECKPOINT / "config.json").read_text())["eos_token_id"]

    def held_out(self, count: int) -> list[Question]:
        """So many of every skill in either language."""
        return list(chain.from_iterable(self._all(count)))

    def long(self, count: int, tokens: int) -> list[Question]:
        """With answers of at least so many tokens, of the skills that have such in turn."""
        in_turn = chain.from_iterable(zip_longest(*self._all(count)))
        return [each for each in in_turn if each is not None and each.answer_tokens >= tokens][:count]

    def answer(self, ids: list[int]) -> list[int]:
        """What comes before the answer's end. SGLang 0.5.17 goes on to the end of the block, if that is the
        last one that there is room for."""
        return ids[: ids.index(self._end)] if self._end in ids else ids

    def text(self, answer: list[int]) -> str:
        found: str = self._tokenizer.decode(answer)
        return found

    def _all(self, count: int) -> Iterator[list[Question]]:
        for skill in corpus.SKILLS:
            for language in LANGUAGES:
                examples = corpus.held_out(skill, language, 8 * count)
                fitting = filter(self._fits, examples)
                yield [
                    self._question(skill, language, example)
                    for example, _ in zip(fitting, range(count), strict=False)
                ]

    def _fits(self, example: Example) -> bool:
        return len(self._encoder.document(example).ids) <= _DOCUMENT_TOKENS

    def _question(self, skill: Skill, language: Language, example: Example) -> Question:
        answer = self._encoder.answer(example)
        return Question(skill.name, language, self._encoder.prompt(example), example.answer, len(answer))
