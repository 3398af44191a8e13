"""A JSON document in pieces, so that one with many choices is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from gateway.http.sse import encode_json

_NONE = b'"choices":[]'


def in_pieces(document: msgspec.Struct, choices: Iterable[msgspec.Struct]) -> Iterator[bytes]:
    """
    Args:
        document: without any choices.
        choices: each is made when it is its turn.
    """
    # No text can hold the same: its quotation marks would be escaped.
    before, _, after = encode_json(document).partition(_NONE)
    yield before + _NONE[:-1]
    for number, choice in enumerate(choices):
        yield (b"," if number else b"") + encode_json(choice)
    yield _NONE[-1:] + after
