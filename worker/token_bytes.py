"""The bytes of single tokens. A token may be a part of a character, which no text can show."""

from __future__ import annotations

import json
import re

from tokenizers import Tokenizer

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # as vocabularies that fall back to bytes spell one


class TokenBytes:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self._added = {token_id: token.content for token_id, token in added.items()}
        self._special = {token_id for token_id, token in added.items() if token.special}
        decoder = json.loads(tokenizer.to_str()).get("decoder") or {}
        steps = [step["type"] for step in decoder.get("decoders", [decoder]) if "type" in step]
        self._of_symbol = _symbols() if "ByteLevel" in steps else None

    def is_special(self, token_id: int) -> bool:
        """Whether a text without special tokens leaves it out."""
        return token_id in self._special

    def __call__(self, token_id: int) -> bytes:
        """Empty for an id that the tokenizer does not have: models may have more of them."""
        if token_id in self._added:
            return self._added[token_id].encode()
        token: str | None = self._tokenizer.id_to_token(token_id)
        if token is None:
            return b""
        if self._of_symbol is not None:
            symbols = [self._of_symbol.get(symbol) for symbol in token]
            # One that is not spelt in them stands for itself, as it does where tokens become text.
            known = [symbol for symbol in symbols if symbol is not None]
            return bytes(known) if len(known) == len(symbols) else token.encode()
        if byte := _BYTE.fullmatch(token):
            return bytes([int(byte[1], 16)])
        return token.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode()


def _symbols() -> dict[str, int]:
    """The character by which byte-level vocabularies write each byte: itself if it can be printed, else one
    of those from U+0100 on. Source: `bytes_to_unicode` in OpenAI's GPT-2, encoder.py."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printed]
    return {chr(byte): byte for byte in printed} | {chr(0x100 + n): byte for n, byte in enumerate(others)}
