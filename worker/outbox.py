"""The part of an answer that this attempt sends, kept until the answer has ended."""

from __future__ import annotations

from dllm_stack.messages import Block, Committed, Place


class Outbox:
    """A Redis that is set back loses blocks that it had: it is sent them again.

    Attributes:
        prompt_tokens: length of the prompt.
        end: what is to be sent, and what was sent before, ends here.
    """

    def __init__(self, committed: Committed) -> None:
        self.prompt_tokens = 0
        self.end = self._begin = Place(len(committed.token_ids), committed.characters)
        self._token_ids: list[int] = []
        self._text = ""
        self._characters = {self._begin.tokens: self._begin.characters}  # at the end of each block

    def add(self, token_ids: list[int], text: str) -> None:
        self._token_ids += token_ids
        self._text += text
        self.end = Place(self.end.tokens + len(token_ids), self.end.characters + len(text))
        if token_ids:
            self._characters[self.end.tokens] = self.end.characters

    def reaches(self, tokens: int) -> bool:
        """Whether everything behind so many tokens of the answer can be sent from here."""
        return tokens in self._characters

    def since(self, tokens: int) -> tuple[Place, Block]:
        """Everything behind the block that ends after so many tokens of the answer; it may be nothing."""
        after = Place(tokens, self._characters[tokens])
        token_ids = self._token_ids[tokens - self._begin.tokens :]
        text = self._text[after.characters - self._begin.characters :]
        return after, Block(text=text, token_ids=token_ids, prompt_tokens=self.prompt_tokens)
