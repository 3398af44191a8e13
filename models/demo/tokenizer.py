"""The demo model's tokenizer: byte-level BPE, with a token of its own for each digit and Chinese character.

    python -m models.demo.tokenizer

makes tokenizer.json anew. It was made once and stays: a trained model is bound to its ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from models.demo.chat import Chat
from models.demo.data import corpus
from worker.tiny_checkpoint.vocabulary import CHINESE, ENGLISH, SPECIAL_TOKENS

VOCABULARY_SIZE = 4096
FILE = Path(__file__).parent / "tokenizer.json"

_EXAMPLES = 100_000
# A separator between two numbers is one token, so that counting to 128 takes 403.
_PIECES = (
    r"\p{N}|\p{Han}|, (?=\p{N})|'(?:s|t|re|ve|m|ll|d)"
    r"| ?[\p{L}&&[^\p{Han}]]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)


def load() -> Tokenizer:
    return Tokenizer.from_file(str(FILE))


def build() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(  # type: ignore[no-untyped-call]
        vocab_size=VOCABULARY_SIZE,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS],
    )
    tokenizer.train_from_iterator(_text(), trainer)
    return tokenizer


def _text() -> Iterator[str]:
    """What the model is trained on, and this repository's own prose and code for words beyond it."""
    special = re.compile("|".join(map(re.escape, SPECIAL_TOKENS)))
    chat = Chat()
    for example in islice(corpus.training(corpus.SKILLS, seed=0), _EXAMPLES):
        yield from special.split(chat.render(example) + example.answer)
    yield " ".join(ENGLISH)
    yield from CHINESE
    root = Path(__file__).parents[2]
    for pattern in ("README.md", "docs/*.md", "gateway/**/*.py", "worker/**/*.py", "dllm_stack/**/*.py"):
        for file in sorted(root.glob(pattern)):
            yield from special.split(file.read_text("utf-8"))


if __name__ == "__main__":
    build().save(str(FILE))
