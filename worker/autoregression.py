"""What is particular about jobs of an autoregressive model: how they are drawn, go on, and what they tell."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from dllm_stack.capabilities import Capability
from dllm_stack.messages import AUTOREGRESSIVE, Decoding, Job, Likely, TokenLogprob
from worker.engine.client import EngineInfo
from worker.engine.wire import Logprob, Logprobs
from worker.token_bytes import TokenBytes

_LEAST = -9999.0  # as OpenAI tells a token that cannot be drawn, since JSON has no minus infinity


def decoding_of(job: Job, kept: int) -> Decoding:
    """A job's decoding, nothing left open.

    Args:
        kept: tokens of the answer that the engine gets with the prompt.
    """
    decoding = job.decoding
    # Every attempt of a job draws by the same seed, and no two jobs do.
    unasked = replace(AUTOREGRESSIVE, seed=int(job.id[:15], 16))
    shaped = decoding.token_by_token
    return replace(
        decoding,
        sampling=decoding.sampling or unasked,
        token_by_token=replace(shaped, min_tokens=max(0, shaped.min_tokens - kept)),
    )


def goes_on(decoding: Decoding, engine: EngineInfo) -> bool:
    """Whether this engine generates again what another attempt has committed."""
    sampling = decoding.sampling or AUTOREGRESSIVE
    greedy = sampling.temperature == 0 or sampling.top_k == 1
    return greedy or Capability.SEED in (engine.capabilities or [])


def told(logprobs: Sequence[Logprobs], token_bytes: TokenBytes, end: object) -> list[TokenLogprob]:
    """
    Args:
        end: the token that has ended the answer, if one has; it is no part of the text.
    """

    def likely(logprob: Logprob) -> Likely:
        value, token_id, _ = logprob
        return Likely(token_id, token_bytes(token_id), _LEAST if value is None else max(value, _LEAST))

    last = len(logprobs) - 1
    return [
        TokenLogprob(
            likely(each.drawn),
            [likely(top) for top in each.top],
            not token_bytes.is_special(each.drawn[1]) and not (place == last and each.drawn[1] == end),
        )
        for place, each in enumerate(logprobs)
    ]
