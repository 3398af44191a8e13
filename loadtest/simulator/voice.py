"""What the simulator says: for the same token ids always the same ids after them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from tokenizers import Tokenizer

BLOCK = 32  # tokens, at absolute positions, as LLaDA2 has them
_CONTEXT = 5  # prompt tokens that SGLang decodes along (INIT_INCREMENTAL_DETOKENIZATION_OFFSET)
_UNDECODED = "\N{REPLACEMENT CHARACTER}"
# Of several tokens in a byte-level vocabulary, so that blocks and answers also end inside a character.
_SPLIT_CHARACTER = "\N{RINGED PLANET}"
_SPLIT_EVERY = 16  # words


class Voice:
    """The words of a checkpoint's tokenizer."""

    def __init__(self, checkpoint: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
        vocabulary = range(self._tokenizer.get_vocab_size())
        texts = self._tokenizer.decode_batch([[id] for id in vocabulary])
        self._words = [id for id, text in enumerate(texts) if text and _UNDECODED not in text]
        self._split: list[int] = self._tokenizer.encode(_SPLIT_CHARACTER, add_special_tokens=False).ids

    def decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids)
        return text

    def word(self, choice: int) -> list[int]:
        if choice % _SPLIT_EVERY == 0:
            return self._split
        return [self._words[choice // _SPLIT_EVERY % len(self._words)]]

    def unfinished(self, ids: Sequence[int]) -> list[int]:
        """The rest of the character in which these ids end."""
        for length in range(len(self._split) - 1, 0, -1):
            if list(ids[-length:]) == self._split[:length]:
                return self._split[length:]
        return []


class Answer:
    """One answer, block by block.

    A block follows from all ids before it, wherever the prompt among them ends: so an answer that is broken
    off after a whole block goes on the same in another request, and, as with the engine, only there.

    Attributes:
        ids: the answer so far.
    """

    def __init__(self, voice: Voice, prompt: Sequence[int]) -> None:
        self.ids: list[int] = []
        self._voice = voice
        self._context = list(prompt[-_CONTEXT:])
        self._hidden = len(voice.decode(self._context))
        self._length = len(prompt)
        self._hash = blake2b(_packed(prompt), digest_size=2 * BLOCK)

    def extend(self, at_most: int) -> None:
        """Commits the next block, or as many tokens of it."""
        room = min(BLOCK - self._length % BLOCK, at_most)
        block = self._voice.unfinished(self._context + self.ids)
        for choice in struct.unpack(f"<{BLOCK}H", self._hash.copy().digest()):
            if len(block) >= room:
                break
            block += self._voice.word(choice)
        del block[room:]
        self.ids += block
        self._length += len(block)
        self._hash.update(_packed(block))

    def text(self, *, over: bool) -> str:
        """Of the answer so far, without a last character that may be unfinished."""
        text = self._voice.decode(self._context + self.ids)[self._hidden :]
        return text if over else text.rstrip(_UNDECODED)


def _packed(ids: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(ids)}I", *ids)
