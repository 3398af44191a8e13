"""What the engines are asked: the shown prompts, and held-out ones, the skills in turn."""

from __future__ import annotations

from models.demo import tokenizer
from models.demo.agreement.record import Prompt
from models.demo.data import corpus
from models.demo.data.example import LANGUAGES, single
from models.demo.evaluate import SEED_PROMPTS
from models.demo.rows import Encoder

_COUNT = 20
# Longer ones, tool descriptions mostly, would leave little of a short context to the answer.
_LONGEST = 256


def prompts() -> list[Prompt]:
    """The same ones every time, as long as the skills' data stay what they are."""
    encoder = Encoder(tokenizer.load())
    found = [Prompt(text, encoder.prompt(single(text, ""))) for text in SEED_PROMPTS]
    for language in LANGUAGES:
        for skill in corpus.SKILLS:
            ids = (encoder.prompt(example) for example in corpus.held_out(skill, language, 20))
            fitting = next(each for each in ids if len(each) <= _LONGEST)
            found.append(Prompt(f"{skill.name} {language}", fitting))
    return found[:_COUNT]
