"""Parameters of a request that some engines honour and others do not, by OpenAI's and SGLang's names."""

from __future__ import annotations

from enum import StrEnum


class Capability(StrEnum):
    EBNF = "ebnf"
    FREQUENCY_PENALTY = "frequency_penalty"
    LOGIT_BIAS = "logit_bias"
    LOGPROBS = "logprobs"
    MIN_P = "min_p"
    MIN_TOKENS = "min_tokens"
    PRESENCE_PENALTY = "presence_penalty"
    REGEX = "regex"
    REPETITION_PENALTY = "repetition_penalty"
    RESPONSE_FORMAT = "response_format"
    SEED = "seed"
    STRICT = "strict"  # of tools
    TEMPERATURE = "temperature"
    TOP_K = "top_k"
    TOP_P = "top_p"


DRAWING = frozenset({Capability.SEED, Capability.TEMPERATURE, Capability.TOP_K, Capability.TOP_P})
"""What a diffusion model honours whose algorithm can draw a token."""
