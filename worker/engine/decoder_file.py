"""What the engine's own decoder, `worker.dllm`, is told when it starts: SGLang's --dllm-algorithm-config."""

from __future__ import annotations

from typing import NamedTuple

import yaml

from worker.engine.catalog import Dllm, Engine


class Rounds(NamedTuple):
    """How much one round of SGLang's scheduler does; see `catalog.Engine`."""

    prompt_rows: int
    mixed_prompt_rows: int
    steps_per_round: int

    @property
    def rows(self) -> int:
        """Rows that the engine has room for beside those of its running requests."""
        return max(self.prompt_rows, self.mixed_prompt_rows)


# Where a forward's time hardly grows with its rows, many are nearly free; on a CPU each costs its own.
_OF_VENDOR = {
    "nvidia": Rounds(prompt_rows=64, mixed_prompt_rows=32, steps_per_round=64),
    "amd": Rounds(prompt_rows=16, mixed_prompt_rows=8, steps_per_round=4),
    "cpu": Rounds(prompt_rows=16, mixed_prompt_rows=8, steps_per_round=4),
}


# Only an engine of one GPU sees between two steps that somebody waits for the round to end.
STEPS_OF_SEVERAL_GPUS = 4


def rounds(engine: Engine, vendor: str, tp: int) -> Rounds:
    """As the profile says, where it says something.

    Args:
        tp: GPUs of the engine, however many the profile gives it.
    """
    usual = _OF_VENDOR[vendor]
    if tp > 1:
        usual = usual._replace(steps_per_round=min(usual.steps_per_round, STEPS_OF_SEVERAL_GPUS))
    asked = (engine.prompt_rows, engine.mixed_prompt_rows, engine.steps_per_round)
    return Rounds(*(one if own is None else own for own, one in zip(asked, usual, strict=True)))


def content(dllm: Dllm, slots: int, rounds: Rounds, *, check_ranks: bool = False) -> str:
    """The file.

    Args:
        dllm: with modes.
        slots: requests at once.
        check_ranks: see `catalog.Engine`.
    """
    assert dllm.mode is not None
    settings: dict[str, object] = {"slots": slots, **rounds._asdict()}
    if dllm.block_size is not None:
        settings["block_size"] = dllm.block_size
    settings["default"] = dllm.modes[dllm.mode].model_dump()
    if dllm.algorithms:
        settings["algorithms"] = {
            name: str(path.expanduser().resolve()) for name, path in dllm.algorithms.items()
        }
    if check_ranks:
        settings["check_ranks"] = True
    return yaml.safe_dump(settings, sort_keys=False)
