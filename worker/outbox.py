"""The part of an answer that this attempt sends, kept until the answer has ended."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from dllm_stack.messages import Block, Committed, Place, TokenLogprob, Took, Work
from dllm_stack.work import NONE, parts_of, total


class Outbox:
    """A Redis that is set back loses blocks that it had: it is sent them again, each as it was, so that the
    gateway knows it, and the work it has cost, for what came before.

    Attributes:
        prompt_tokens: length of the prompt.
        end: where the last block ends.
    """

    def __init__(self, committed: Committed) -> None:
        self.prompt_tokens = 0
        self.end = Place(len(committed.token_ids), committed.characters)
        self._blocks: dict[int, tuple[Place, Block]] = {}  # by the tokens of the answer before each
        self._last = self.end.tokens  # before the last of them
        self._text = ""  # behind the last block; it goes with the next

    def add(
        self,
        token_ids: list[int],
        text: str,
        work: Work = NONE,
        logprobs: Sequence[TokenLogprob] = (),
        took: Took | None = None,
        *,
        joined: bool = False,
    ) -> None:
        """
        Args:
            joined: it becomes a part of the last block, which has not been sent.
        """
        self._text += text
        if joined:
            place, before = self._blocks[self._last]
            self._put(place, _joined(before, self._block(token_ids, work, logprobs)))
        elif token_ids:
            self._last = self.end.tokens
            self._put(self.end, self._block(token_ids, work, logprobs, took))

    def _put(self, place: Place, block: Block) -> None:
        self._blocks[place.tokens] = place, block
        self.end = Place(place.tokens + len(block.token_ids), place.characters + len(block.text))
        self._text = ""

    def reaches(self, tokens: int) -> bool:
        """Whether everything behind so many tokens of the answer can be sent from here."""
        return tokens == self.end.tokens or tokens in self._blocks

    def behind(self, tokens: int) -> tuple[Place, Block]:
        """The block that begins after so many tokens of the answer; behind the last there is only text."""
        if tokens == self.end.tokens:
            return self.end, self._block([], NONE)
        return self._blocks[tokens]

    def _block(
        self,
        token_ids: list[int],
        work: Work,
        logprobs: Sequence[TokenLogprob] = (),
        took: Took | None = None,
    ) -> Block:
        return Block(
            text=self._text,
            token_ids=token_ids,
            prompt_tokens=self.prompt_tokens,
            work=work,
            logprobs=list(logprobs),
            took=took,
        )


def _joined(one: Block, other: Block) -> Block:
    return replace(
        one,
        text=one.text + other.text,
        token_ids=one.token_ids + other.token_ids,
        work=total((one.work, other.work)),
        parts=parts_of(one) + parts_of(other) if other.token_ids else one.parts,
        logprobs=one.logprobs + other.logprobs,
    )
