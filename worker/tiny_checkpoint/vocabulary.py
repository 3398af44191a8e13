"""The tiny model's vocabulary: every byte, a few hundred whole words, and LLaDA's role tokens."""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

MASK = "<|mask|>"
END_OF_TEXT = "<|endoftext|>"
SPECIAL_TOKENS = ["<|startoftext|>", END_OF_TEXT, MASK, "<role>", "</role>", "<|role_end|>"]

# Whole tokens so that a chat's frame is short; an answer never contains them.
FRAME_WORDS = ["SYSTEM", "HUMAN", "ASSISTANT", "OBSERVATION", "detailed", " thinking", " off", " on"]

PUNCTUATION = [*",.!?;:", "\n"]

_HERE = Path(__file__).parent
# Each is one token with its leading space.
ENGLISH = (_HERE / "english.txt").read_text().split()

# One token a character, as a run of Chinese text is cut into characters before it is looked up.
CHINESE = list("".join((_HERE / "chinese.txt").read_text(encoding="utf-8").split()))


def spoken() -> list[str]:
    """Tokens that answers are made of, in order of their ids."""
    return PUNCTUATION + [f" {word}" for word in ENGLISH] + CHINESE


def tokenizer() -> Tokenizer:
    """A byte-level tokenizer in which a listed word is one token and anything else is its bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: index for index, symbol in enumerate(alphabet)}
    for word in [*FRAME_WORDS, *spoken()]:
        vocabulary.setdefault(_symbols(word), len(vocabulary))
    built = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    built.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{Han}"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    built.decoder = decoders.ByteLevel()
    built.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    return built


def _symbols(text: str) -> str:
    """Each byte of the text as the printable character that byte-level vocabularies write it with."""
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    return "".join(symbols for symbols, _ in pieces)
