"""What the text of an answer turns out to be, in the order of the answer."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Text(NamedTuple):
    """More of what is said to the user."""

    text: str


class Begin(NamedTuple):
    """A call begins."""

    name: str


class Arguments(NamedTuple):
    """More of the arguments of the call that began last."""

    text: str


Event = Text | Begin | Arguments


class Parser(Protocol):
    """Reads one answer. However its text is cut into pieces, what is read is the same in sum: the text, the
    calls, and the arguments of each."""

    def push(self, text: str) -> list[Event]:
        """What is certain now, whatever follows."""

    def finish(self) -> list[Event]:
        """The rest. To be called once, when the answer has ended."""
