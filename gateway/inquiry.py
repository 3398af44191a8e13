"""A request that a worker answers beside its jobs: it needs no slot and waits in no queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dllm_stack.messages import Detokenize, Information, Tokenize
from gateway.fields.terms import TermsInBody

NO_TERMS = TermsInBody()


@dataclass(frozen=True)
class Inquiry:
    """`document` is the body of the answer."""

    pool: str
    asks: Tokenize | Detokenize
    document: Callable[[Information], bytes]
    terms: TermsInBody = NO_TERMS
