"""What the engine generates of one answer, as tokens and text to be sent, up to the answer's end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

from dllm_stack.messages import Committed, Work
from dllm_stack.work import NONE, total
from worker.engine.client import Finish
from worker.text import Detokenizer, TextGate, decided


class Decode(Protocol):
    def __call__(self, token_ids: list[int], *, special: bool) -> str:
        """The text of token ids, with or without special tokens."""


class Diverged(Exception):
    """The engine generates another answer than the one that was begun."""


class Piece(NamedTuple):
    token_ids: list[int]
    text: str
    ending: Finish | None  # set once this is the last piece
    work: Work = NONE  # what these tokens have cost
    known: int = 0  # tokens before these that were told again


class Transcript:
    """Makes the same of the same tokens, however they are cut into chunks and attempts.

    Stop strings are therefore found here. The engine looks for them too, and ends most answers by itself, but
    only in what it generates now, and in a window that a stop string may be too long for.

    Args:
        prompt: its token ids.
        stop: stop strings.
        committed: what of the answer has been sent.
        kept: how many of the committed tokens the engine was given; it generates the others again.
    """

    def __init__(
        self, decode: Decode, prompt: list[int], stop: list[str], committed: Committed, kept: int
    ) -> None:
        self._committed = committed.token_ids
        self._tokens = kept
        self._unread: list[int] = []  # whose text was not asked for
        self._stop = [each for each in stop if each]
        self._visible = Detokenizer(partial(decode, special=False), prompt)
        self._searched = [self._visible]
        if self._stop:  # a stop string may name special tokens, which the text does not show
            self._searched.append(Detokenizer(partial(decode, special=True), prompt))
        for text in self._searched:
            text.add(self._committed[:kept])
        self._gate = TextGate(self._stop, committed.characters)

    def read(
        self, token_ids: list[int], finish: Finish | None, work: Sequence[Work] = (), *, later: bool = False
    ) -> Piece:
        """What is new in the tokens that come next.

        Args:
            finish: why the engine ends here.
            work: of each token; may be shorter. That of tokens which are not new has been told with them.
            later: the text may come with that of the next tokens.

        Raises:
            Diverged
        """
        token_ids, stop = self._until_stop(token_ids)
        new = self._beyond_committed(token_ids)
        known = len(token_ids) - len(new)
        cost = total(work[known : len(token_ids)])
        ending = Finish("stop", stop) if stop is not None else finish
        by_token = ending is not None and isinstance(ending.matched, int)
        self._unread += token_ids[:-1] if by_token else token_ids
        if later and ending is None and not self._stop:
            return Piece(new, "", None, cost, known)
        for text in self._searched:
            text.add(self._unread)
        self._unread = []
        if ending is None:
            return Piece(new, self._gate.push(self._visible.text), None, cost, known)
        whole = self._visible.text
        if isinstance(ending.matched, str):
            whole = whole.partition(ending.matched)[0]
        if self._tokens < len(self._committed) or len(whole) < self._gate.sent:
            raise Diverged("it is shorter")
        return Piece(new, self._gate.finish(whole), ending, cost, known)

    def _beyond_committed(self, token_ids: list[int]) -> list[int]:
        known = self._committed[self._tokens :][: len(token_ids)]
        if token_ids[: len(known)] != known:
            raise Diverged("it has other tokens")
        self._tokens += len(token_ids)
        return token_ids[len(known) :]

    def _until_stop(self, token_ids: list[int]) -> tuple[list[int], str | None]:
        """The tokens up to the first with which there is a stop string, and that."""
        if self._stop and self._stop_in(token_ids) is not None:
            for count in range(1, len(token_ids) + 1):
                if (stop := self._stop_in(token_ids[:count])) is not None:
                    return token_ids[:count], stop
        return token_ids, None

    def _stop_in(self, token_ids: list[int]) -> str | None:
        """The first stop string in the text, once these tokens are part of it."""
        longest = max(map(len, self._stop))
        for text in self._searched:
            begin = max(0, len(decided(text.text)) - longest + 1)
            grown = decided(text.text_with(token_ids))
            found = {stop: at for stop in self._stop if (at := grown.find(stop, begin)) >= 0}
            if found:
                return min(found, key=found.__getitem__)
        return None
