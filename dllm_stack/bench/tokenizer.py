"""A tokenizer in a folder of this machine: prompts of a given number of tokens, and texts counted again."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as _Tokenizer

from dllm_stack.bench.problem import Problem

_UNDECODED = "\N{REPLACEMENT CHARACTER}"
_ATTEMPTS = 8


class Tokenizer:
    """
    Args:
        folder: with a tokenizer.json, such as a checkpoint's.

    Raises:
        Problem: there is none, or it cannot be read.
    """

    def __init__(self, folder: Path, option: str = "--tokenizer") -> None:
        file = folder / "tokenizer.json" if folder.is_dir() else folder
        if not file.is_file():
            raise Problem(option, f"there is no {file}; name a folder with a tokenizer.json")
        try:
            self._tokenizer = _Tokenizer.from_file(str(file))
        except Exception as error:  # its own exceptions have no common type
            raise Problem(option, f"{file} is no tokenizer: {error}") from None

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def count(self, texts: list[str]) -> list[int]:
        """Tokens of each."""
        return [len(each.ids) for each in self._tokenizer.encode_batch(texts, add_special_tokens=False)]

    def decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids)
        return text

    @cached_property
    def words(self) -> NDArray[np.int64]:
        """Ids that are text by themselves: no special tokens, no parts of characters."""
        special = set(self._tokenizer.get_added_tokens_decoder())
        ids = [id for id in range(self._tokenizer.get_vocab_size()) if id not in special]
        texts = self._tokenizer.decode_batch([[id] for id in ids])
        plain = [id for id, text in zip(ids, texts, strict=True) if text and _UNDECODED not in text]
        return np.array(plain)

    def text_of(self, ids: list[int]) -> tuple[str, int]:
        """A text of these words that has as many tokens, or nearly so, and how many it has.

        Words beside each other may make up fewer tokens: then further ones, from the beginning, follow.
        """
        wanted, given = len(ids), list(ids)
        text = self.decode(given)
        found = self.encode(text)
        for _ in range(_ATTEMPTS):
            if len(found) == wanted:
                break
            given = found[:wanted] if len(found) > wanted else found + ids[: wanted - len(found)]
            text = self.decode(given)
            found = self.encode(text)
        return text, len(found)
