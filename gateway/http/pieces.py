"""A JSON document in pieces, so that one with many choices is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from gateway.http.sse import encode_json

_NONE = b'"choices":[]'


def document_of(whole: msgspec.Struct, choices: Iterable[msgspec.Struct]) -> Iterator[bytes]:
    """A piece for each choice, which is made when it is its turn.

    Args:
        whole: the document, without any choices.
    """
    # No text can hold the same: its quotation marks would be escaped.
    before, _, after = encode_json(whole).partition(_NONE)
    return array_of(choices, before + _NONE[:-2], after)


def array_of(items: Iterable[msgspec.Struct], before: bytes = b"", after: bytes = b"") -> Iterator[bytes]:
    """A piece for each item."""
    piece = before + b"["
    for number, item in enumerate(items):
        if number:
            yield piece
            piece = b","
        piece += encode_json(item)
    yield piece + b"]" + after
