"""How many prompt blocks a forward may carry. Stock behaviour until the self-test has passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_FEW_ROWS = 7
"""With the one that is denoised they fill a captured graph of 8."""


@dataclass(frozen=True)
class Limits:
    alone: int = 0  # prompt rows of a forward that denoises nothing; 0: stock, one block of each prompt
    mixed: int = 0  # prompt rows beside denoising rows at most; 0: stock, never side by side

    def __bool__(self) -> bool:
        return self.most > 0

    @property
    def most(self) -> int:
        return max(self.alone, self.mixed)

    def beside(self, answers: int) -> int:
        """Prompt rows beside so many denoising rows.

        A forward takes an H200 3.3 ms with 1 row, 9 with 8, 19 with 32 and 24 with 64: twice as many prompt
        rows as denoising ones make a step of any batch at most twice as long, 7 beside one three times.
        """
        return min(self.mixed, max(_FEW_ROWS, 2 * answers)) if answers else self.alone


STOCK = Limits()


def asked_for(algorithm_config: dict[str, Any]) -> Limits:
    """`prompt_rows` and `mixed_prompt_rows` of the algorithm's file, whatever the algorithm.

    Raises:
        ValueError: a sentence that names the wrong one.
    """
    return Limits(_count(algorithm_config, "prompt_rows"), _count(algorithm_config, "mixed_prompt_rows"))


def _count(config: dict[str, Any], name: str) -> int:
    value = config.get(name, 0)
    if type(value) is not int or value < 0:
        raise ValueError(f"--dllm-algorithm-config: {name} is {value!r}, not a number of blocks")
    return value


def of(dllm_config: Any) -> Limits:
    """Those in force for a scheduler, by the DllmConfig that it shares with its requests and batches."""
    limits: Limits = getattr(dllm_config, "prompt_limits", STOCK)
    return limits


def put_in_force(dllm_config: Any, limits: Limits) -> None:
    dllm_config.prompt_limits = limits
