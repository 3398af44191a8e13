"""POST /detokenize, as SGLang's own: what it takes and what it answers."""

from __future__ import annotations

import msgspec

from gateway.fields.prompts import AnyTokenIds
from gateway.fields.validation import Honoured, Rules


class DetokenizeRequest(Honoured):
    model: str | None = None  # needed where there are several models
    tokens: AnyTokenIds
    skip_special_tokens: bool | None = None


RULES = Rules(DetokenizeRequest, neutral={}, ignored=frozenset())


class Detokenized(msgspec.Struct, frozen=True):
    """Of a list of lists, a list."""

    text: str | list[str]
