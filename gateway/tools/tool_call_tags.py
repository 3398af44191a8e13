"""The format `tool_call_tags`, of LLaDA2, Qwen and others:

    some text
    <tool_call>
    {"name": "get_weather", "arguments": {"city": "Paris"}}
    </tool_call>

and as many calls as the model likes, with text between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any

from gateway.tools.events import Arguments, Begin, Event, Text
from gateway.tools.strict import Frame

OPEN, CLOSE = "<tool_call>", "</tool_call>"
MOST_FAILURES = 100  # tags without a call; behind them all is text. Each costs a look at all that follows

# As models write it: then the arguments can be passed on while they are written.
_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*"([A-Za-z0-9_-]+)"\s*,\s*"arguments"\s*:\s*(?=\{)')
_NO_OBJECT = re.compile(r'\s*(?:[^\s{]|\{\s*[^\s"])')
_AFTER_ARGUMENTS = re.compile(r"((?:\s*\})*)(\s*)")
_IN_JSON = re.compile(r'["{}\[\]<]')
_IN_STRING = re.compile(r'["\\<\x00-\x1f]')


def frame(name: str) -> Frame:
    return Frame(OPEN, f'{OPEN}\n{{"name": "{name}", "arguments": ', f"}}\n{CLOSE}")


class ToolCallTags:
    """
    What is no call is text, as the model wrote it, tags included: a name that is not among `names`, something
    else than an object with a name and arguments, an object that is cut before its arguments begin. A call
    whose arguments have begun stays one, also if they are cut or turn out to be no JSON: they are passed on
    already. White space before a call, and after the last, is dropped.

    Attributes:
        names: of the functions there are.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._held = ""  # what has been pushed, and is not decided
        self._events: list[Event] = []
        self._step: Callable[[bool], bool] = self._text
        self._failures = 0  # tags that were no calls
        self._after_call = False  # nothing but white space has come since the last call
        # Of arguments under way
        self._depth = 0  # brackets
        self._in_string = False
        self._line_begins = False  # nothing but white space has come since a line break inside a string

    def push(self, text: str) -> list[Event]:
        return self._read(text, whole=False)

    def finish(self) -> list[Event]:
        return self._read("", whole=True)

    def _read(self, text: str, *, whole: bool) -> list[Event]:
        self._held += text
        # A step says whether it has come to another step. `whole`: nothing follows what is held.
        while self._step(whole):
            pass
        events, self._events = self._events, []
        return events

    def _text(self, whole: bool) -> bool:
        held = self._held
        at = held.find(OPEN) if self._failures < MOST_FAILURES else -1
        if at >= 0:
            end = len(held[:at].rstrip())
            self._say(held[:end])
            self._held, self._body_at = held[end:], at - end + len(OPEN)
            self._step = self._head
            return True
        end = len(held) if whole else len(held[: _before_part_of(OPEN, held)].rstrip())
        if not (whole and self._after_call and held.isspace()):
            self._say(held[:end])
        self._held = held[end:]
        return False

    def _head(self, whole: bool) -> bool:
        """`_held` is white space, the tag, and what follows it from `_body_at` on."""
        body = self._held[self._body_at :]
        if (head := _HEAD.match(body)) is not None:
            if head[1] not in self._names:
                return self._no_call()
            self._events.append(Begin(head[1]))
            self._held = body[head.end() :]
            self._step = self._arguments
            return True
        if _NO_OBJECT.match(body):
            return self._no_call()
        end = body.find(CLOSE)
        if end < 0 and not whole:
            return False
        call = _call(body if end < 0 else body[:end], self._names)
        if call is None:
            return self._no_call()
        self._events += call
        return self._call_ended("" if end < 0 else body[end + len(CLOSE) :])

    def _no_call(self) -> bool:
        self._failures += 1
        self._say(self._held[: self._body_at])
        self._held = self._held[self._body_at :]
        self._step = self._text
        return True

    def _call_ended(self, rest: str) -> bool:
        self._held = rest
        self._after_call = True
        self._step = self._text
        return True

    def _arguments(self, whole: bool) -> bool:
        held, at = self._held, 0
        written: list[str] = []
        ended = False
        while not ended:
            found = (_IN_STRING if self._in_string else _IN_JSON).search(held, at)
            stop = len(held) if found is None else found.start()
            self._line_begins = self._line_begins and not held[at:stop].strip()
            written.append(held[at:stop])
            at = stop
            if found is None:
                break
            mark = held[at]
            if mark == "<" and (not self._in_string or self._line_begins):
                if held.startswith(CLOSE, at):  # the object was not complete
                    ended = True
                    break
                if not whole and CLOSE.startswith(held[at:]):
                    break
            if mark == "\\":
                if at + 1 == len(held) and not whole:
                    break
                written.append(held[at : at + 2])
                at += 2
            else:
                written.append(self._as_json(mark))
                at += 1
            self._line_begins = self._in_string and mark < " " and (mark == "\n" or self._line_begins)
            if mark == '"':
                self._in_string = not self._in_string
            elif not self._in_string and mark in "{[":
                self._depth += 1
            elif not self._in_string and mark in "}]":
                self._depth -= 1
                ended = self._depth == 0
        if text := "".join(written):
            self._events.append(Arguments(text))
        self._held = held[at:]
        if ended or whole:
            self._depth, self._in_string, self._line_begins = 0, False, False
            self._step = self._tail
        return ended or whole

    def _as_json(self, mark: str) -> str:
        """Models write line breaks into their strings, which JSON does not allow."""
        return json.dumps(mark)[1:-1] if self._in_string and mark < " " else mark

    def _tail(self, whole: bool) -> bool:
        """What follows the arguments: the end of the object, and the tag."""
        found = _AFTER_ARGUMENTS.match(self._held)
        assert found is not None
        rest = self._held[found.end() :]
        if rest.startswith(CLOSE):
            return self._call_ended(rest[len(CLOSE) :])
        if rest.startswith(","):  # members that nobody asked for
            end = rest.find(CLOSE)
            if end >= 0 or whole:
                return self._call_ended("" if end < 0 else rest[end + len(CLOSE) :])
            return False
        if CLOSE.startswith(rest) and not whole:
            return False
        return self._call_ended(found[2] + rest)

    def _say(self, text: str) -> None:
        if text:
            self._events.append(Text(text))
            self._after_call = False


def _before_part_of(tag: str, text: str) -> int:
    """Where the longest part of a tag at the end of the text begins."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:length]):
            return len(text) - length
    return len(text)


def _call(body: str, names: Collection[str]) -> list[Event] | None:
    """A whole call in another form than the usual; None: it is none."""
    try:
        call: Any = json.loads(body, strict=False, parse_constant=_refuse)
        name, arguments = call["name"], call.get("arguments", {})
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments, ensure_ascii=False)
        arguments.encode()  # which halves of characters cannot be
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(name, str) or name not in names:
        return None
    return [Begin(name), Arguments(arguments)]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
