"""Which part of an unfinished answer's text may be shown already."""

from __future__ import annotations

from collections.abc import Sequence

_UNDECODED = "\N{REPLACEMENT CHARACTER}"
_LONGEST_CUT = 3  # a UTF-8 character has at most 4 bytes, so at most 3 of them wait for the rest


class TextGate:
    """Turns the growing text of one answer into pieces that stay true whatever follows.

    Two kinds of ends are held back: replacement characters that may be the first bytes of a character,
    and what may be, or is, a stop string, which the engine cuts off when the answer ends.

    Args:
        stop: the stop strings; empty ones are ignored.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._stop = [each for each in stop if each]
        self._sent = 0

    def push(self, text: str) -> str:
        """The next piece. `text` is the whole answer so far."""
        end = max(self._shown_until(text), self._sent)
        piece = text[self._sent : end]
        self._sent = end
        return piece

    def finish(self, text: str) -> str:
        """The last piece. `text` is the whole answer."""
        piece = text[self._sent :]
        self._sent = len(text)
        return piece

    def _shown_until(self, text: str) -> int:
        decoded = len(text)
        while decoded > max(0, len(text) - _LONGEST_CUT) and text[decoded - 1] == _UNDECODED:
            decoded -= 1
        return min((self._stop_begins(stop, text, decoded) for stop in self._stop), default=decoded)

    def _stop_begins(self, stop: str, text: str, end: int) -> int:
        """Where the first whole `stop` in the unsent text[:end] begins, or the part of one at its end."""
        found = text.find(stop, self._sent, end)
        if found >= 0:
            return found
        for length in range(min(len(stop) - 1, end - self._sent), 0, -1):
            if text.endswith(stop[:length], self._sent, end):
                return end - length
        return end
