"""Comparing the answers of two engines, here the plain decoder's; and what an engine is started with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import distributions
from itertools import islice
from pathlib import Path

import pytest
import torch

from models.demo import checkpoint, tokenizer
from models.demo.agreement import compare, replay
from models.demo.agreement.compare import Difference
from models.demo.agreement.engine import Setup
from models.demo.agreement.record import Prompt, Record
from models.demo.decoding import Decoder, LowConfidence
from models.demo.shape import BLOCK_SIZE
from tests.demo.random_model import random_model

MAX_TOKENS = 70


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    checkpoint.save(random_model(), tokenizer.load(), folder)
    return folder


@pytest.fixture(scope="module")
def answered(folder: Path) -> Record:
    torch.manual_seed(1)
    prompts = [torch.randint(3, 4096, (length,)).tolist() for length in (5, 40)]
    answers, _ = Decoder(checkpoint.load(folder), LowConfidence(0.5)).generate(prompts, MAX_TOKENS)
    assert min(map(len, answers)) > 2 * BLOCK_SIZE
    named = [Prompt(f"number {number}", ids) for number, ids in enumerate(prompts)]
    return Record({"version": "none"}, "0" * 64, 0.5, MAX_TOKENS, named, answers, answers, {})


Compare = Callable[[Record, Record], subprocess.CompletedProcess[str]]


@pytest.fixture
def compared(folder: Path, tmp_path: Path) -> Compare:
    def run(one: Record, other: Record) -> subprocess.CompletedProcess[str]:
        files = [tmp_path / "one.json", tmp_path / "other.json"]
        for record, file in zip((one, other), files, strict=True):
            record.write(file)
        command = [sys.executable, "-m", "models.demo.agreement", "compare", folder, *files]
        return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)

    return run


def test_equal_answers(answered: Record, compared: Compare) -> None:
    done = compared(answered, answered)
    assert done.returncode == 0
    assert "the model in float32 writes 2 of 2" in done.stdout
    assert "alone: 2 of 2 equal" in done.stdout
    assert "together: 2 of 2 equal" in done.stdout


def test_a_difference_is_shown_with_the_models_own_margins(answered: Record, compared: Compare) -> None:
    changed = [list(answer) for answer in answered.together]
    changed[1][30] = (changed[1][30] + 1) % 4096
    done = compared(answered, replace(answered, together=changed))
    assert done.returncode == 1
    assert "alone: 2 of 2 equal" in done.stdout
    assert "together: 1 of 2 equal\n- number 1" in done.stdout
    assert "at answer token 30, block 1:" in done.stdout  # the prompt has 40, so the block begins at 24
    assert "follows first" in done.stdout


def test_records_of_different_questions_are_refused(answered: Record, compared: Compare) -> None:
    done = compared(answered, replace(answered, threshold=0.9))
    assert done.returncode == 2
    assert "threshold" in done.stderr


def test_a_file_that_is_no_record_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"prompts": []}')
    with pytest.raises(ValueError, match=r"other\.json"):
        Record.read(file)


def test_the_first_difference_counts() -> None:
    prompts = [[3] * 40] * 4
    ours = [[5, 6, 7], [5] * 60, [5, 6], []]
    theirs = [[5, 6, 7], [5] * 55 + [6] * 5, [5, 6, 7], [4]]
    assert compare.differences(prompts, ours, theirs) == [
        Difference(1, 55, 1),  # positions 64 to 95 of the sequence
        Difference(2, 2, 0),
        Difference(3, 0, 0),
    ]


def test_the_replay_is_the_decoder(answered: Record, folder: Path) -> None:
    model = checkpoint.load(folder)
    for prompt, answer in zip(answered.prompts, answered.alone, strict=True):
        sequence = prompt.ids + answer
        start = len(prompt.ids) // BLOCK_SIZE * BLOCK_SIZE
        for block in islice(replay.retrace(model, prompt.ids, answer, answered.threshold), 2):
            assert block.ids == sequence[start : start + BLOCK_SIZE]
            filled = [place for place in range(BLOCK_SIZE) if start + place >= len(prompt.ids)]
            assert [place for place, step in enumerate(block.committed) if step >= 0] == filled
            assert all(decision.margin >= block.narrowest.margin >= 0 for decision in block.decisions)
            certain = block.probabilities[filled, [block.ids[place] for place in filled]]
            assert torch.equal(certain, block.probabilities[filled].max(-1).values)
            start += BLOCK_SIZE


@pytest.mark.parametrize(
    ("device", "dtype", "plugins"),
    [
        ("cpu", "float32", {"dllm_stack"}),
        ("cuda", "bfloat16", {"dllm_stack"}),
        ("cuda", "float32", {"dllm_stack", "plain_kernels"}),
    ],
)
def test_the_engine_finds_its_plugins(
    device: str, dtype: str, plugins: set[str], folder: Path, tmp_path: Path
) -> None:
    setup = Setup(folder, device, dtype, "triton", 0.9, slots=20, start_s=1)  # type: ignore[arg-type]
    path = setup.environment(tmp_path)["PYTHONPATH"].split(":")
    (found,) = distributions(name="engine-plugins", path=path[:1])
    assert {entry.name for entry in found.entry_points} == plugins
    for entry in found.entry_points:
        assert callable(entry.load())
