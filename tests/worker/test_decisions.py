"""What the engine is told of a job, by what it does unasked and by what may be asked of it."""

from __future__ import annotations

import pytest

from dllm_stack.decoding import Decision, EngineOptions, Sampling, TokenByToken
from dllm_stack.messages import Decoding, DecodingCard
from dllm_stack.outcomes import ErrorCode, RequestError
from worker.decisions import ONE_WAY, Decisions

SPEED = Decision(algorithm="JointThreshold", parameters={"threshold": 0.5})
QUALITY = Decision(algorithm="LowConfidence", parameters={"threshold": 0.95})
CARD = DecodingCard(
    default=SPEED, modes={"speed": SPEED, "quality": QUALITY}, algorithms={}, sampling=["LowConfidence"]
)
OURS = Decisions(CARD, SPEED)
ATTACHED = Decisions(CARD)
WARM = Sampling(temperature=0.7, seed=3)


@pytest.mark.parametrize(
    ("decisions", "decoding", "options"),
    [
        (OURS, Decoding(), EngineOptions()),
        (OURS, Decoding(mode="speed"), EngineOptions()),
        (OURS, Decoding(decision=SPEED), EngineOptions()),
        (OURS, Decoding(mode="quality"), EngineOptions(decision=QUALITY)),
        (OURS, Decoding(decision=QUALITY), EngineOptions(decision=QUALITY)),
        (OURS, Decoding(sampling=WARM), EngineOptions(sampling=WARM)),
        (ATTACHED, Decoding(), EngineOptions(decision=SPEED)),
        (ATTACHED, Decoding(mode="quality", sampling=WARM), EngineOptions(decision=QUALITY, sampling=WARM)),
    ],
)
def test_the_engine_is_told_what_differs(
    decisions: Decisions, decoding: Decoding, options: EngineOptions
) -> None:
    assert decisions.options(decoding, "PerRequest") == options


def test_a_mode_that_the_model_lacks() -> None:
    with pytest.raises(RequestError, match="This model has no mode 'turbo': choose speed, quality") as caught:
        OURS.options(Decoding(mode="turbo"), "PerRequest")
    assert caught.value.problem.code is ErrorCode.INVALID_VALUE


@pytest.mark.parametrize(("decisions", "algorithm"), [(OURS, "LowConfidence"), (ONE_WAY, "PerRequest")])
def test_an_engine_that_decodes_in_one_way(decisions: Decisions, algorithm: str) -> None:
    assert decisions.options(Decoding(max_tokens=5), algorithm) == EngineOptions()
    for decoding in (Decoding(mode="speed"), Decoding(decision=SPEED), Decoding(sampling=WARM)):
        with pytest.raises(RequestError, match="decoded in one way only") as caught:
            decisions.options(decoding, algorithm)
        assert caught.value.problem.code is ErrorCode.UNSUPPORTED_PARAMETER


def test_a_diffusion_model_is_not_asked_token_by_token() -> None:
    shaped = TokenByToken(min_p=0.5, logit_bias={1: 2})
    with pytest.raises(RequestError, match="cannot honour min_p, logit_bias") as caught:
        OURS.options(Decoding(token_by_token=shaped), "PerRequest")
    assert caught.value.problem.code is ErrorCode.UNSUPPORTED_PARAMETER


def test_an_autoregressive_model_has_no_modes() -> None:
    shaped = Decoding(sampling=WARM, token_by_token=TokenByToken(min_p=0.5))
    assert ONE_WAY.options(shaped, None) == EngineOptions()
    for decoding in (Decoding(mode="speed"), Decoding(decision=SPEED)):
        with pytest.raises(RequestError, match="takes no mode and no algorithm") as caught:
            ONE_WAY.options(decoding, None)
        assert caught.value.problem.code is ErrorCode.UNSUPPORTED_PARAMETER
