"""What an engine is to be told of how a job is decoded."""

from __future__ import annotations

from dataclasses import dataclass

from dllm_stack.decoding import Decision, EngineOptions
from dllm_stack.messages import DIFFUSION, Decoding, DecodingCard
from dllm_stack.outcomes import ErrorCode, Problem, RequestError
from worker.engine.architectures import PER_REQUEST

_REFUSAL = "This model is decoded in one way only: it takes no mode, no algorithm and no temperature."
_AUTOREGRESSIVE = "This model is autoregressive: it takes no mode and no algorithm."
_DIFFUSION = "A diffusion model cannot honour {}."


@dataclass(frozen=True)
class Decisions:
    """
    Attributes:
        card: what the model file lets requests choose; None: nothing.
        default: what the engine does unasked; None where somebody else has started it.
    """

    card: DecodingCard | None = None
    default: Decision | None = None

    def card_with(self, algorithm: str | None) -> DecodingCard | None:
        """What requests may choose of an engine with this --dllm-algorithm."""
        return self.card if algorithm == PER_REQUEST else None

    def options(self, decoding: Decoding, algorithm: str | None) -> EngineOptions:
        """What differs from what an engine with this --dllm-algorithm does unasked.

        Raises:
            RequestError: the engine cannot, or the model has no such mode.
        """
        card = self.card_with(algorithm)
        if algorithm is None:
            if decoding.mode or decoding.decision:
                raise RequestError(Problem(ErrorCode.UNSUPPORTED_PARAMETER, _AUTOREGRESSIVE))
            return EngineOptions()
        if unhonoured := decoding.token_by_token.asked:
            message = _DIFFUSION.format(", ".join(unhonoured))
            raise RequestError(Problem(ErrorCode.UNSUPPORTED_PARAMETER, message))
        sampling = decoding.sampling or DIFFUSION
        if card is None:
            if decoding.mode or decoding.decision or sampling != DIFFUSION:
                raise RequestError(Problem(ErrorCode.UNSUPPORTED_PARAMETER, _REFUSAL))
            return EngineOptions()
        decision = decoding.decision or card.default
        if decoding.mode is not None:
            if decoding.mode not in card.modes:
                message = f"This model has no mode {decoding.mode!r}: choose {', '.join(card.modes)}."
                raise RequestError(Problem(ErrorCode.INVALID_VALUE, message))
            decision = card.modes[decoding.mode]
        return EngineOptions(decision=None if decision == self.default else decision, sampling=sampling)


ONE_WAY = Decisions()
