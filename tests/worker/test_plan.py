"""What a worker knows of an engine before that runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dllm_stack.settings import WorkerSettings
from worker import plan

MODEL = """
name: mine
checkpoint: "tiny:"
dllm:
  algorithm: LowConfidence
  config: {parameters}
"""


def attached(folder: Path, parameters: str = "{}") -> plan.Plan:
    file = folder / "mine.yaml"
    file.write_text(MODEL.format(parameters=parameters))
    settings = WorkerSettings(model=str(file), engine_url="http://127.0.0.1:30000")
    return plan.make(settings, created=0)


@pytest.mark.parametrize(("parameters", "size"), [("{threshold: 0.9}", 32), ("{block_size: 16}", 16)])
def test_the_block_size_of_an_attached_engine_is_the_model_files(
    tmp_path: Path, parameters: str, size: int
) -> None:
    assert attached(tmp_path, parameters).model.block_size == size


@pytest.mark.parametrize(
    ("architecture", "follow"),
    [("LLaDA2MoeModelLM", False), ("DiffusionGemmaForBlockDiffusion", True), ("GptOssForCausalLM", False)],
)
def test_where_blocks_begin_depends_on_the_architecture(
    tmp_path: Path, architecture: str, follow: bool
) -> None:
    made = attached(tmp_path)
    facts = made.facts.model_copy(update={"architecture": architecture})
    assert replace(made, facts=facts).blocks_follow_prompt is follow
