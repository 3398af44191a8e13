"""What a client was told of one request, whatever endpoint and SDK, at once or in a stream."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Choice:
    text: str = ""
    finish: str | None = None
    matched: Any = None  # only /generate tells
    token_ids: list[int] = field(default_factory=list)
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    role: str | None = None


@dataclass
class Seen:
    """
    Attributes:
        events: all that came; one if it was not streamed.
        error: class, status, code, param and type as the SDK tells them.
        usage: of /generate, its counts under OpenAI's names.
    """

    events: list[Any]
    streamed: bool
    error: dict[str, Any] | None
    choices: list[Choice]
    usage: dict[str, Any] | None

    @property
    def text(self) -> str:
        return self.choices[0].text

    @property
    def finish(self) -> str | None:
        return self.choices[0].finish

    @property
    def tokens(self) -> int | None:
        return self.usage["completion_tokens"] if self.usage else None

    @property
    def last(self) -> Any:
        """Where a stream tells what a document tells beside its choices."""
        return self.events[-1]

    def gist(self) -> object:
        """What has to be the same at once and streamed, and by every client."""
        usage = self.usage and {
            name: self.usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")
        }
        return [(each.text, each.finish, each.tool_calls and _gist(each)) for each in self.choices], usage


def _gist(choice: Choice) -> object:
    return [call["function"] for call in choice.tool_calls]


def read(raw: dict[str, Any]) -> Seen:
    """
    Args:
        raw: as the programs in clients/ write it.
    """
    streamed = "events" in raw
    events = raw["events"] if streamed else [raw["document"]] if "document" in raw else []
    choices: dict[int, Choice] = defaultdict(Choice)
    usage: dict[str, Any] | None = None
    flat = [each for event in events for each in (event if isinstance(event, list) else [event])]
    for number, event in enumerate(flat):
        if "meta_info" in event:
            index = event.get("index", 0 if streamed else number)
            _generated(choices[index], event)
        for choice in event.get("choices", []):
            _add(choices[choice["index"]], choice)
        usage = event.get("usage") or usage
    if any("meta_info" in event for event in flat):
        last = {
            event.get("index", number if not streamed else 0): event["meta_info"]
            for number, event in enumerate(flat)
        }
        prompt = sum(meta["prompt_tokens"] for meta in last.values())
        completion = sum(meta["completion_tokens"] for meta in last.values())
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
    ordered = [choices[index] for index in sorted(choices)]
    return Seen(events, streamed, raw.get("error"), ordered, usage)


def _generated(choice: Choice, event: dict[str, Any]) -> None:
    """Each event holds all of the answer so far."""
    assert event["text"].startswith(choice.text)
    choice.text, choice.token_ids = event["text"], event["output_ids"]
    if finish := event["meta_info"]["finish_reason"]:
        choice.finish, choice.matched = finish["type"], finish.get("matched")


def _add(choice: Choice, told: dict[str, Any]) -> None:
    message = told.get("message") or told.get("delta") or {}
    choice.text += told.get("text") or message.get("content") or ""
    choice.role = message.get("role") or choice.role
    choice.finish = told.get("finish_reason") or choice.finish
    choice.token_ids += told.get("token_ids") or []
    if logprobs := told.get("logprobs"):
        choice.logprobs.append(logprobs)
    for number, call in enumerate(message.get("tool_calls") or []):
        _add_call(choice, call.get("index", number), call)


def _add_call(choice: Choice, index: int, call: dict[str, Any]) -> None:
    """A first delta of a call has its id and name, and each some of its arguments."""
    if index == len(choice.tool_calls):
        choice.tool_calls.append(
            {
                "id": call["id"],
                "type": call["type"],
                "function": {"name": call["function"]["name"], "arguments": ""},
            }
        )
    choice.tool_calls[index]["function"]["arguments"] += call["function"].get("arguments") or ""
