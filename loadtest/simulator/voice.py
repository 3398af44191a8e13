"""What the simulator says: for the same token ids always the same ids after them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from tokenizers import Tokenizer

from worker.token_bytes import TokenBytes

BLOCK = 32  # tokens, at absolute positions, as LLaDA2 has them
_CONTEXT = 5  # prompt tokens that SGLang decodes along (INIT_INCREMENTAL_DETOKENIZATION_OFFSET)
_UNDECODED = "\N{REPLACEMENT CHARACTER}"
# Of several tokens in a byte-level vocabulary, so that blocks and answers also end inside a character.
_SPLIT_CHARACTER = "\N{RINGED PLANET}"
_SPLIT_EVERY = 16  # words
_CHOICES = 1 << 16


class Voice:
    """The words of a checkpoint's tokenizer, which must be a byte-level one.

    Args:
        seed: of what is drawn beside the words; see `Answer.chance`.
    """

    def __init__(self, checkpoint: Path, seed: int = 0) -> None:
        tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
        self.key = struct.pack("<q", seed)
        vocabulary = range(tokenizer.get_vocab_size())
        known = TokenBytes(tokenizer)
        # Joining bytes is what its decoder does, and a hundred times as fast.
        self._bytes = [b"" if known.is_special(id) else known(id) for id in vocabulary]
        texts = tokenizer.decode_batch([[id] for id in vocabulary])
        words = [[id] for id, text in enumerate(texts) if text and _UNDECODED not in text]
        self._split: list[int] = tokenizer.encode(_SPLIT_CHARACTER, add_special_tokens=False).ids
        self.words = [
            words[choice // _SPLIT_EVERY % len(words)] if choice % _SPLIT_EVERY else self._split
            for choice in range(_CHOICES)
        ]

    def bytes(self, ids: Sequence[int]) -> bytes:
        """A model may have more ids than its tokenizer: those are no text."""
        every, count = self._bytes, len(self._bytes)
        return b"".join([every[id] for id in ids if id < count])

    def decode(self, ids: Sequence[int]) -> str:
        return self.bytes(ids).decode(errors="replace")

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
        self._bytes = voice.bytes(self._context)
        self._hidden = len(self._bytes.decode(errors="replace"))
        self._length = len(prompt)
        self._hash = blake2b(_packed(prompt), digest_size=2 * BLOCK)
        self._digest = self._hash.digest()

    @property
    def masked(self) -> int:
        """Positions that the block under way has still to commit."""
        return BLOCK - self._length % BLOCK

    def chance(self) -> float:
        """A number from 0 to 1 for the block under way, which follows from all ids before it and the seed."""
        drawn = blake2b(self._digest, digest_size=8, key=self._voice.key).digest()
        return int.from_bytes(drawn) / 2.0**64

    def extend(self, at_most: int) -> None:
        """Commits the next block, or as many tokens of it."""
        room = min(self.masked, at_most)
        block = self._voice.unfinished((self._context + self.ids)[-_CONTEXT:])
        words = self._voice.words
        for choice in struct.unpack(f"<{BLOCK}H", self._digest):
            if len(block) >= room:
                break
            block += words[choice]
        del block[room:]
        self.ids += block
        self._bytes += self._voice.bytes(block)
        self._length += len(block)
        self._hash.update(_packed(block))
        self._digest = self._hash.digest()

    def text(self, *, over: bool) -> str:
        """Of the answer so far, without a last character that may be unfinished."""
        text = self._bytes.decode(errors="replace")[self._hidden :]
        return text if over else text.rstrip(_UNDECODED)


def _packed(ids: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(ids)}I", *ids)
