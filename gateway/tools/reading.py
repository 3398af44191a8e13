"""One answer on its way to the client, as text and calls."""

from __future__ import annotations

from gateway.tools.events import Begin, Event, Text
from gateway.tools.offer import Offer


class Reading:
    """Without an offer all is text.

    Attributes:
        calls: that have begun, and that the client is told of.
    """

    def __init__(self, offer: Offer | None) -> None:
        self.calls = 0
        self._parser = offer.parser() if offer else None
        self._only_first = offer is not None and not offer.parallel
        self._dropping = False

    def push(self, text: str) -> list[Event]:
        if self._parser is not None:
            return self._told(self._parser.push(text))
        return [Text(text)] if text else []

    def finish(self) -> list[Event]:
        return self._told(self._parser.finish()) if self._parser is not None else []

    def finish_reason(self, reason: str) -> str:
        return "tool_calls" if self.calls and reason == "stop" else reason

    def _told(self, events: list[Event]) -> list[Event]:
        told: list[Event] = []
        for event in events:
            if isinstance(event, Begin):
                self._dropping = self._only_first and self.calls > 0
                self.calls += not self._dropping
            if isinstance(event, Text) or not self._dropping:
                told.append(event)
        return told
