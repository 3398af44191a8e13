"""The text of an answer under way: a function of its token ids, and which part of it may be shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_UNDECODED = "\N{REPLACEMENT CHARACTER}"
# Prompt tokens that are decoded along, because a tokenizer may treat the first token of a text specially.
# As many as SGLang takes (srt/managers/schedule_batch.py, INIT_INCREMENTAL_DETOKENIZATION_OFFSET).
_CONTEXT = 5


class Detokenizer:
    """Decodes growing token ids, each about twice instead of all of them each time.

    Args:
        decode: the text of token ids.
        prompt: what comes before, and is no part of the text.

    Attributes:
        text: of all tokens so far; an unfinished character at its end shows as replacement characters.
    """

    def __init__(self, decode: Callable[[list[int]], str], prompt: list[int]) -> None:
        self.text = ""
        self._decode = decode
        self._ids = prompt[-_CONTEXT:]
        # The text of ids[:end] is `settled`. ids[begin:end] is decoded along with what follows.
        self._settled = ""
        self._begin, self._end = 0, len(self._ids)

    def text_with(self, token_ids: list[int]) -> str:
        """The text, if these tokens came next."""
        before = self._decode(self._ids[self._begin : self._end])
        return self._settled + self._decode(self._ids[self._begin :] + token_ids)[len(before) :]

    def add(self, token_ids: list[int]) -> None:
        self.text = self.text_with(token_ids)
        self._ids += token_ids
        if self.text.endswith(_UNDECODED):
            return
        if len(self.text) > len(self._settled):
            self._settled = self.text
            self._begin, self._end = self._end, len(self._ids)
        elif self._decode(self._ids[self._begin : self._end]):
            # Special tokens, which nothing shows: thousands are not to be decoded along. Where no text
            # is before them, they may be a space that a decoder drops from a text's beginning, and stay.
            del self._ids[self._end :]


def decided(text: str) -> str:
    """The text without what may be the first bytes of a character.

    Tokenizers that fall back to bytes (Llama's, Gemma's) decode a run of bytes as a whole: while its last
    character is cut, each of its bytes is a replacement character, however many there are.
    """
    return text.rstrip(_UNDECODED)


class TextGate:
    """Turns the growing text of one answer into pieces that stay true whatever follows.

    It holds back what is not decided, and what may be the beginning of a stop string.

    Args:
        stop: the stop strings; empty ones are ignored.
        sent: how many characters of the text an earlier attempt has sent.
    """

    def __init__(self, stop: Sequence[str] = (), sent: int = 0) -> None:
        self.sent = sent
        self._stop = stop

    def push(self, text: str) -> str:
        """The next piece. `text` is the whole answer so far, without a whole stop string."""
        known = decided(text)
        end = min((self._may_begin(stop, known) for stop in self._stop), default=len(known))
        return self._beyond_sent(text[:end])

    def finish(self, text: str) -> str:
        """The last piece. `text` is the whole answer."""
        return self._beyond_sent(text)

    def _beyond_sent(self, text: str) -> str:
        piece = text[self.sent :]
        self.sent = max(self.sent, len(text))
        return piece

    def _may_begin(self, stop: str, text: str) -> int:
        """Where the longest part of `stop` at the end of the text begins."""
        for length in range(min(len(stop) - 1, len(text) - self.sent), 0, -1):
            if text.endswith(stop[:length]):
                return len(text) - length
        return len(text)
