"""Scores a checkpoint on held-out items.

    python -m models.demo.evaluate CHECKPOINT --json scores.json

For each way of decoding: exact match by skill and language, and tokens per forward. Then how many wrong
tokens, planted in half-masked blocks of right answers, JointThreshold repairs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import torch

from models.demo import checkpoint, tokenizer
from models.demo.data import corpus
from models.demo.data.example import LANGUAGES, Example, Language, Skill, single
from models.demo.decoding import QUALITY, SPEED, Algorithm, Blocks, Decoder, LowConfidence
from models.demo.model import Model
from models.demo.rows import Encoder
from models.demo.shape import BLOCK_SIZE

ALGORITHMS: dict[str, Algorithm] = {
    **{f"LowConfidence {threshold}": LowConfidence(threshold) for threshold in (0.95, 0.9, 0.7, 0.5)},
    "JointThreshold speed": SPEED,
    "JointThreshold quality": QUALITY,
}
SEED_PROMPTS = [
    "Write the number from 1 to 128",
    "Write a brief introduction of the great wall",
    "What is a diffusion language model?",
    "Write quicksort in Python.",
    "Write a function for the Fibonacci numbers in Python.",
    "请介绍一下长城",
]
_AT_ONCE = 64  # sequences


@dataclass(frozen=True)
class Score:
    """Of one skill in one language, decoded in one way.

    Attributes:
        tokens: of the answers, without end tokens.
        forwards: as an engine counts them, the one that stores a block's final KV included.
    """

    algorithm: str
    skill: str
    language: str
    items: int
    exact: int
    tokens: int
    forwards: int


@dataclass(frozen=True)
class Repair:
    skill: str
    planted: int
    repaired: int


class Evaluation:
    """
    Args:
        max_tokens: of prompt and answer; longer items are passed over.
        unseen_wordings: ask in words that are never trained on.
    """

    def __init__(self, model: Model, max_tokens: int, *, unseen_wordings: bool = False) -> None:
        self._model, self._max_tokens = model, max_tokens
        self._unseen_wordings = unseen_wordings
        self._tokenizer = tokenizer.load()
        self._encoder = Encoder(self._tokenizer)

    def held_out(self, skill: Skill, language: Language, count: int) -> list[Example]:
        """Items whose prompt and answer fit into max_tokens."""
        examples = corpus.held_out(skill, language, 8 * count, unseen_wordings=self._unseen_wordings)
        fitting = (e for e in examples if len(self._encoder.document(e).ids) <= self._max_tokens)
        return [example for example, _ in zip(fitting, range(count), strict=False)]

    def scores(self, skills: Sequence[Skill], names: Sequence[str], count: int) -> Iterator[Score]:
        for name in names:
            for skill in skills:
                for language in LANGUAGES:
                    examples = self.held_out(skill, language, count)
                    answers, forwards = self._answers(examples, ALGORITHMS[name])
                    texts = [self._tokenizer.decode(answer) for answer in answers]
                    exact = sum(text == example.answer for text, example in zip(texts, examples, strict=True))
                    tokens = sum(map(len, answers))
                    yield Score(name, skill.name, language, len(examples), exact, tokens, sum(forwards))

    def repairs(self, skills: Sequence[Skill], count: int) -> Iterator[Repair]:
        """Two wrong tokens in a block of which half the other answer tokens are masked, as in the middle of
        decoding; counted as repaired if the right ones stand there when JointThreshold has finished."""
        random = Random(0)
        for skill in skills:
            examples = [
                example for language in LANGUAGES for example in self.held_out(skill, language, count)
            ]
            planted = repaired = 0
            for example in examples:
                right, blocks, places = self._plant(example, random)
                filled = Decoder(self._model, SPEED).fill(blocks).ids[0].tolist()
                planted += len(places)
                repaired += sum(filled[place] == right[place] for place in places)
            yield Repair(skill.name, planted, repaired)

    def seed_answers(self) -> dict[str, str]:
        examples = [single(prompt, "") for prompt in SEED_PROMPTS]
        answers, _ = self._answers(examples, LowConfidence())
        return dict(zip(SEED_PROMPTS, map(self._tokenizer.decode, answers), strict=True))

    def _answers(
        self, examples: Sequence[Example], algorithm: Algorithm
    ) -> tuple[list[list[int]], list[int]]:
        decoder = Decoder(self._model, algorithm)
        answers: list[list[int]] = []
        forwards: list[int] = []
        for start in range(0, len(examples), _AT_ONCE):
            prompts = [self._encoder.prompt(each) for each in examples[start : start + _AT_ONCE]]
            some, used = decoder.generate(prompts, self._max_tokens - min(map(len, prompts)))
            answers += some
            forwards += used
        return answers, forwards

    def _plant(self, example: Example, random: Random) -> tuple[list[int], Blocks, list[int]]:
        document = self._encoder.document(example)
        ids, prompt_tokens = document.ids, document.prompt_tokens
        answer_tokens = len(self._encoder.answer(example))
        start = random.randrange(prompt_tokens, prompt_tokens + answer_tokens) // BLOCK_SIZE * BLOCK_SIZE
        right = ids[start : start + BLOCK_SIZE]
        open_places = [i for i in range(BLOCK_SIZE) if start + i >= prompt_tokens]
        written = [i for i in open_places if start + i < prompt_tokens + answer_tokens]
        places = random.sample(written, min(2, len(written)))
        others = [i for i in open_places if i not in places]
        mask_id, vocab_size = self._model.config["mask_token_id"], self._model.config["vocab_size"]
        block = list(right)
        for place in random.sample(others, len(others) // 2):
            block[place] = mask_id
        for place in places:
            while block[place] in (right[place], mask_id):
                block[place] = random.randrange(vocab_size)
        device = next(self._model.parameters()).device
        is_open = torch.tensor([[i in open_places for i in range(BLOCK_SIZE)]], device=device)
        none = torch.zeros(1, dtype=torch.long, device=device)
        return right, Blocks([ids[:start]], torch.tensor([block], device=device), is_open, none), places


def _print(scores: Sequence[Score]) -> None:
    print(f"{'algorithm':24}{'skill':14}{'language':10}{'exact':>14}{'tokens/forward':>16}")
    for score in scores:
        share = f"{score.exact}/{score.items} {score.exact / max(1, score.items):.0%}"
        rate = score.tokens / max(1, score.forwards)
        print(f"{score.algorithm:24}{score.skill:14}{score.language:10}{share:>14}{rate:16.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m models.demo.evaluate", description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--json", type=Path, help="write everything there")
    parser.add_argument("--items", type=int, default=50, help="of each skill in each language")
    parser.add_argument("--skills", nargs="*", default=[], help="all, if none is named")
    parser.add_argument("--algorithms", nargs="*", default=list(ALGORITHMS), choices=list(ALGORITHMS))
    parser.add_argument("--max-tokens", type=int, default=512, help="prompt and answer; passes over longer")
    parser.add_argument("--unseen-wordings", action="store_true", help="ask in words never trained on")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()

    torch.set_float32_matmul_precision("high")  # several times faster on a GPU
    model = checkpoint.load(arguments.checkpoint).to(arguments.device)
    evaluation = Evaluation(model, arguments.max_tokens, unseen_wordings=arguments.unseen_wordings)
    skills = corpus.named(arguments.skills)
    scores = list(evaluation.scores(skills, arguments.algorithms, arguments.items))
    _print(scores)
    repairs = list(evaluation.repairs(skills, arguments.items))
    for repair in repairs:
        print(f"repaired by JointThreshold: {repair.skill:14}{repair.repaired} of {repair.planted}")
    answers = evaluation.seed_answers()
    for prompt, answer in answers.items():
        print(f"\n> {prompt}\n{answer}")
    if arguments.json:
        report = {
            "scores": [asdict(score) for score in scores],
            "repairs": [asdict(repair) for repair in repairs],
            "seed_answers": answers,
        }
        arguments.json.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
