"""The values of a values.yaml, with what the comments above them say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

_COMMENT = re.compile(r"^\s*# -- (?:\((?P<type>[^)]*)\) )?(?P<text>.*)$")
_MORE = re.compile(r"^\s*# (?!--)(?P<text>.*)$")


class ValuesError(Exception):
    """A values.yaml that cannot be read; the message names the line."""


@dataclass(frozen=True)
class Value:
    """
    Attributes:
        path: keys from the top.
        type: as its comment has it, in the words of `types`; None: as its default is.
    """

    path: tuple[str, ...]
    default: Any
    type: str | None
    text: str
    line: int

    @property
    def name(self) -> str:
        return ".".join(self.path)


def read(text: str) -> list[Value]:
    """All values that have no others below them, or a type of their own, in the file's order.

    One without a comment is what the last of the same name is: `router.extraEnv` as `gateway.extraEnv`.

    Raises:
        ValuesError: there is none.
    """
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(top, yaml.MappingNode):
        raise ValuesError("line 1: not a mapping")
    found: list[Value] = []
    _add(found, top, (), text.splitlines())
    return found


def _add(found: list[Value], mapping: yaml.MappingNode, path: tuple[str, ...], lines: list[str]) -> None:
    for key, node in mapping.value:
        here, line = (*path, str(key.value)), key.start_mark.line
        type_, words = _comment(lines, line)
        default = _plain(node)
        last = next((value for value in reversed(found) if value.path[-1] == here[-1]), None)
        if not words and last is not None and isinstance(default, type(last.default)):
            type_, words = last.type, last.text
        if isinstance(node, yaml.MappingNode) and node.value and type_ is None:
            _add(found, node, here, lines)
            continue
        if not words:
            raise ValuesError(f"line {line + 1}: {'.'.join(here)} has no comment that begins with '# -- '")
        found.append(Value(here, default, type_, words, line + 1))


def _comment(lines: list[str], line: int) -> tuple[str | None, str]:
    """Type and text of the comment that ends above this line."""
    more: list[str] = []
    for above in reversed(lines[:line]):
        if begin := _COMMENT.match(above):
            return begin["type"], " ".join([begin["text"], *reversed(more)]).strip()
        if not (further := _MORE.match(above)):
            break
        more.append(further["text"].strip())
    return None, ""


def _plain(node: yaml.Node) -> Any:
    return yaml.safe_load(yaml.serialize(node, Dumper=yaml.SafeDumper))
