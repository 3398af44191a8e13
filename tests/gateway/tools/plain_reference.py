"""What `tool_call_tags` means, read off a whole answer at once: slow, and without a state."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, NamedTuple

HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*"([\w-]+)"\s*,\s*"arguments"\s*:\s*(?=\{)', re.ASCII)
CLOSE = "</tool_call>"


class Read(NamedTuple):
    text: str
    calls: list[tuple[str, str]]  # name and arguments


def read(answer: str, names: Collection[str]) -> Read:
    text, calls = "", list[tuple[str, str]]()
    called = False
    while True:
        before, tag, body = answer.partition("<tool_call>")
        if not tag:
            return Read(text + ("" if called and answer.isspace() else answer), calls)
        found = _begun(body, names) or _other_form(body, names)
        if found is None:
            text += before + tag
            called = False
            answer = body
            continue
        text += before.rstrip()
        name, arguments, answer = found
        calls.append((name, arguments))
        called = True


def _begun(body: str, names: Collection[str]) -> tuple[str, str, str] | None:
    head = HEAD.match(body)
    if head is None or head[1] not in names:
        return None
    arguments, rest = _object(body[head.end() :])
    rest = re.sub(r"^(\s*\})*", "", rest)
    if rest.lstrip().startswith(","):
        rest = rest.partition(CLOSE)[2]
    elif rest.lstrip().startswith(CLOSE):
        rest = rest.lstrip().removeprefix(CLOSE)
    return head[1], arguments, rest


def _object(text: str) -> tuple[str, str]:
    """The object that a text begins with, or as much of it as there is, and what follows."""
    written, depth, string = "", 0, False
    while text:
        if text.startswith(CLOSE) and (not string or re.search(r"\n\s*$", written_raw(written))):
            break
        if string and text[0] == "\\":
            written, text = written + text[:2], text[2:]
            continue
        mark, text = text[0], text[1:]
        written += json.dumps(mark)[1:-1] if string and mark < " " else mark
        if mark == '"':
            string = not string
        elif not string:
            depth += (mark in "{[") - (mark in "}]")
            if depth == 0:
                break
    return written, text


def written_raw(written: str) -> str:
    """A line break that was written into a string; one that was escaped by the model does not count, and the
    tests' alphabet has none."""
    return written.replace("\\n", "\n")


def _other_form(body: str, names: Collection[str]) -> tuple[str, str, str] | None:
    if (head := HEAD.match(body)) is not None and head[1] not in names:
        return None
    inside, _, rest = body.partition(CLOSE)
    try:
        call: Any = json.loads(inside, strict=False)
    except ValueError:
        return None
    if not isinstance(call, dict) or call.get("name") not in list(names):
        return None
    arguments = call.get("arguments", {})
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return (call["name"], arguments, rest) if isinstance(arguments, str) else None
