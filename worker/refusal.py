"""Which part of a request an engine's refusal is about. It says so in words of its own."""

from __future__ import annotations

import re

from dllm_stack.messages import Decoding
from dllm_stack.outcomes import ErrorCode, Problem

# As the extension writes it: `custom_params.dllm.greed: ...`, or `...dllm.decision.parameters.greed: ...`.
_OF_DLLM = re.compile(r"custom_params\.dllm\.(?:decision\.parameters\.|decision\.|sampling\.)?(\w+)")


def refused_by_engine(reason: str, decoding: Decoding) -> Problem:
    """
    Returns:
        A problem whose `param` is the grammar's kind, `logit_bias`, or a name of `dllm` behind a dot; None
        where it cannot be told. The gateway knows what these are called in the request.
    """
    return Problem(ErrorCode.INVALID_VALUE, reason, param=_param(reason, decoding))


def _param(reason: str, decoding: Decoding) -> str | None:
    if named := _OF_DLLM.search(reason):
        return f"dllm.{named[1]}"
    shaped = decoding.token_by_token
    if shaped.logit_bias and "logit_bias" in reason:
        return "logit_bias"
    return None if shaped.grammar is None else str(shaped.grammar.kind)
