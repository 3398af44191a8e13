"""What the events of an answer become in a chat: a message, or the deltas of one."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from msgspec import UNSET

from gateway.chat.protocol import CallDelta, Called, CalledFunction, Delta, FunctionDelta, ReplyMessage
from gateway.tools.events import Arguments, Begin, Event, Text

Ids = Callable[[int], str]  # the id of a message's call, by its place


def call_ids(request_id: str, choice: int) -> Ids:
    """Ids that no other message of any request has."""
    return lambda place: (
        f"call_{blake2b(f'{request_id} {choice} {place}'.encode(), digest_size=12).hexdigest()}"
    )


def message(events: list[Event], ids: Ids) -> ReplyMessage:
    text, calls = "", list[Called]()
    for event in events:
        match event:
            case Text(more):
                text += more
            case Begin(name):
                calls.append(Called(ids(len(calls)), CalledFunction(name, "")))
            case Arguments(more):
                last = calls.pop()
                function = CalledFunction(last.function.name, last.function.arguments + more)
                calls.append(Called(last.id, function))
    return ReplyMessage(None if calls and not text else text, tool_calls=calls or UNSET)


class Deltas:
    """Those of one choice. Only the first tells the role."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._calls = 0
        self._begun = False

    def of(self, event: Event) -> Delta:
        role = UNSET if self._begun else "assistant"
        match event:
            case Text(text):
                delta = Delta(role, text)
            case Begin(name):
                self._calls += 1
                call = CallDelta(self._place, FunctionDelta("", name), self._ids(self._place), "function")
                delta = Delta(role, UNSET if self._begun else None, [call])
            case Arguments(text):
                delta = Delta(role, tool_calls=[CallDelta(self._place, FunctionDelta(text))])
        self._begun = True
        return delta

    def empty(self) -> Delta:
        """One that says nothing more."""
        role = UNSET if self._begun else "assistant"
        self._begun = True
        return Delta(role)

    @property
    def _place(self) -> int:
        return self._calls - 1
