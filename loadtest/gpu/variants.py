"""What is compared: the two algorithms that stock SGLang has, in its own hands and in ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from dllm_stack.decoding import Decision, EngineOptions
from loadtest.gpu.engine import Variant
from worker.engine.decoder_file import STEPS_OF_SEVERAL_GPUS

SLOTS = 64
PROMPT_ROWS = 64
MIXED_PROMPT_ROWS = 32
_STEPS_PER_ROUND = 64

# As they are served: SGLang's own defaults for the first, the speed mode of LLaDA2.1 for the second.
ALGORITHMS: dict[str, dict[str, Any]] = {
    "LowConfidence": {"threshold": 0.95},
    "JointThreshold": {"threshold": 0.5, "edit_threshold": 0.0},
}


def stock(algorithm: str, slots: int = SLOTS, **parameters: Any) -> Variant:
    """
    Args:
        parameters: of the algorithm, in place of those in `ALGORITHMS`.
    """
    name = "-".join(["stock", algorithm, *parameters])
    return Variant(name, algorithm, ALGORITHMS[algorithm] | parameters, rows=slots)


def one_at_a_time(**parameters: Any) -> Variant:
    """Stock SGLang with one running request, as LLaDA2's makers serve it and have measured it."""
    return replace(stock("LowConfidence", 1, **parameters), name="one-at-a-time", served=True)


def ours(
    slots: int = SLOTS,
    prompt_rows: int = PROMPT_ROWS,
    mixed_prompt_rows: int = MIXED_PROMPT_ROWS,
    *,
    deterministic: bool = False,
    moe: Path | None = None,
    gpus: int = 1,
) -> Variant:
    """
    Args:
        gpus: that share the model.
    """
    parameters = {
        "slots": slots,
        "prompt_rows": prompt_rows,
        "mixed_prompt_rows": mixed_prompt_rows,
        "steps_per_round": _STEPS_PER_ROUND if gpus == 1 else STEPS_OF_SEVERAL_GPUS,
        "default": {"algorithm": "LowConfidence", **ALGORITHMS["LowConfidence"]},
    }
    rows = slots + max(prompt_rows, mixed_prompt_rows)
    name = "deterministic" if deterministic else "ours"
    return Variant(name, "PerRequest", parameters, rows, extension=True, deterministic=deterministic, moe=moe)


def decided(algorithm: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Sampling parameters of a request to our engine that says how it is decoded."""
    decision = Decision(algorithm=algorithm, parameters=dict(parameters))
    return {"custom_params": {"dllm": msgspec.to_builtins(EngineOptions(decision=decision))}}
