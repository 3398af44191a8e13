"""An algorithm of one's own that does what none of the built-in ones does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dllm_stack.decoding import Decision, EngineOptions
from tests.engine.decoding.fake_scheduler import FakeRequest, FakeScheduler
from tests.engine.decoding.requests import prompt
from tests.engine.reference import Reference
from worker.dllm.algorithms.table import AlgorithmTable
from worker.dllm.decoder import Decoder
from worker.dllm.requests import FORWARDS, RequestCheck
from worker.dllm.settings import DecoderSettings

_IMPORTS = """
from typing import ClassVar
import torch
from worker.dllm.algorithms.algorithm import Algorithm, Change, fill
"""
REMASKS = f"""{_IMPORTS}
class Remasks(Algorithm):
    defaults: ClassVar = {{"mask": 0, "max_steps": 6}}

    def step(self, block, parameters, carried):
        again = ~block.masked & ~block.fixed
        ids = torch.where(again, parameters["mask"].long(), torch.where(block.masked, block.token, block.ids))
        return Change(ids, torch.zeros(len(ids), dtype=torch.bool))
"""
ONE_BY_ONE = f"""{_IMPORTS}
class OneByOne(Algorithm):
    defaults: ClassVar = {{"max_steps": 4}}

    def step(self, block, parameters, carried):
        return fill(block, block.masked & (block.masked.cumsum(1) <= 1))
"""
EDITS_AND_IS_DONE = f"""{_IMPORTS}
class EditsAndIsDone(Algorithm):
    def step(self, block, parameters, carried):
        ids = torch.where(block.masked, block.token, torch.where(block.fixed, block.ids, 7))
        return Change(ids, torch.ones(len(ids), dtype=torch.bool))
"""
WITH_A_DATACLASS = f"""from __future__ import annotations
from dataclasses import dataclass
{_IMPORTS}
@dataclass
class Span:
    begin: int

class AllAtOnce(Algorithm):
    def step(self, block, parameters, carried):
        return fill(block, block.masked)
"""
WITHOUT_A_STEP = f"""{_IMPORTS}
class Nothing(Algorithm):
    pass
"""


def decoded(reference: Reference, path: Path, code: str, **parameters: float) -> tuple[list[int], int]:
    """The answer, and the forwards of its first block."""
    path.write_text(code)
    decision = Decision(algorithm="Own", parameters=parameters)
    settings = DecoderSettings(default=decision, algorithms={"Own": str(path)}, steps_per_round=4)
    decoder = Decoder(settings, reference.config["block_size"], reference.config["mask_token_id"])
    request = FakeRequest(prompt(1, 5), EngineOptions(decision=decision), 27)
    FakeScheduler(reference, decoder.run, decoder.begin).decode([request])
    assert request.customized_info
    return request.output_ids, request.customized_info[FORWARDS][0]


@pytest.mark.parametrize("steps", [5, 6])
def test_no_mask_is_left_by_one_that_masks_again(reference: Reference, tmp_path: Path, steps: int) -> None:
    mask = reference.config["mask_token_id"]
    ids, forwards = decoded(reference, tmp_path / "own.py", REMASKS, mask=mask, max_steps=steps)
    assert mask not in ids
    assert forwards == steps + 1


def test_its_own_limit_of_steps_holds(reference: Reference, tmp_path: Path) -> None:
    _, forwards = decoded(reference, tmp_path / "own.py", ONE_BY_ONE)
    assert forwards == 5


def test_what_it_changes_at_the_end_is_computed_once_more(reference: Reference, tmp_path: Path) -> None:
    """Else the KV of the block would be that of the tokens before."""
    ids, forwards = decoded(reference, tmp_path / "own.py", EDITS_AND_IS_DONE)
    assert forwards == 3
    assert set(ids) == {7}


def test_its_file_may_define_a_dataclass(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(WITH_A_DATACLASS)
    assert type(AlgorithmTable({"Own": str(path)})["Own"]).__name__ == "AllAtOnce"


def test_one_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(WITHOUT_A_STEP)
    with pytest.raises(ValueError, match=r"algorithms: Own: .*abstract"):
        AlgorithmTable({"Own": str(path)})


@pytest.mark.parametrize("value", [0, -1, 2.5, 3e9])
def test_a_wrong_limit_of_steps_is_refused(tmp_path: Path, value: float) -> None:
    """0 would end a block with its masks, and the greatest would end the scheduler."""
    path = tmp_path / "own.py"
    path.write_text(ONE_BY_ONE)
    config: dict[str, Any] = {"default": {"algorithm": "LowConfidence"}, "algorithms": {"Own": str(path)}}
    check = RequestCheck(SimpleNamespace(algorithm="PerRequest", algorithm_config=config))
    decision = Decision(algorithm="Own", parameters={"max_steps": value})
    asked = {"dllm": msgspec.to_builtins(EngineOptions(decision=decision))}
    assert (check.problem(asked) or "").startswith("custom_params.dllm.max_steps: expected")
