"""Run by test_evidence_kernel.py in a process of its own: the kernel, interpreted, against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from worker.dllm.evidence import Draw, torch_path, triton_path

TYPES = [torch.float32, torch.bfloat16, torch.float16]


def agree(logits: torch.Tensor, **options: Any) -> None:
    shape = triton_path.Shape(chunk=256, tile=128, warps=4)
    ours, our_score = triton_path.read(logits, **options, shape=shape)
    theirs, their_score = torch_path.read(logits, **options)
    assert torch.equal(ours.token, theirs.token)
    close = {"rtol": 2e-6, "atol": 1e-5}
    torch.testing.assert_close(our_score, their_score, **close)
    for name in ("probability", "entropy", "logit", "normalizer"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), **close)


def some_logits(rows: int, vocabulary: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(vocabulary)
    return (4 * torch.randn(rows, vocabulary, generator=generator)).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("vocabulary", [5, 600])
def test_the_most_probable(vocabulary: int, dtype: torch.dtype) -> None:
    logits = some_logits(4, vocabulary, dtype)
    logits[0, :-1] = -torch.inf
    logits[1] = 3  # all tie
    logits[2, 4] = 1e4
    for mask_id in (4, vocabulary - 1):
        agree(logits, mask_id=mask_id)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_penalised(dtype: torch.dtype) -> None:
    logits = some_logits(5, 400, dtype)
    penalised = torch.tensor([-1, 399, int(logits[2].argmax()), 31, 0])
    agree(logits, mask_id=31, penalised=penalised, penalty=torch.tensor([9.0, -30, 2, 1, 0.5]))


@pytest.mark.parametrize("dtype", TYPES)
def test_the_drawn(dtype: torch.dtype) -> None:
    logits = some_logits(5, 400, dtype)
    floors = [-torch.inf, -torch.inf, 0.0, float(logits[3].max()), -1.0]
    draw = Draw(
        torch.tensor([0.0, 0.7, 1.0, 2.0, 0.3]),
        torch.tensor(floors),
        torch.tensor([0, 1, 2**32 - 1, 77, 123456789]),
    )
    agree(logits, mask_id=31, draw=draw)
    penalised = torch.tensor([-1, 3, 31, int(logits[3].argmax()), 9])
    floor = draw.floor.clone()
    floor[3] = 0  # the highest alone would leave nothing to draw once it is penalised
    draw = Draw(draw.temperature, floor, draw.seed)
    agree(logits, mask_id=31, penalised=penalised, penalty=torch.full((5,), 1.5), draw=draw)


def test_a_part_of_the_vocabulary() -> None:
    logits = some_logits(3, 300, torch.float32)
    draw = Draw(torch.tensor([0.0, 1.0, 0.5]), torch.zeros(3), torch.tensor([1, 2, 3]))
    penalised = torch.tensor([650, 10, 899])
    for mask_id in (5, 700, 1000):
        agree(logits, mask_id=mask_id, vocab_start=600, draw=draw)
        agree(logits, mask_id=mask_id, vocab_start=600, penalised=penalised, penalty=torch.ones(3))


def test_rows_with_space_between_them() -> None:
    agree(some_logits(4, 400, torch.float32)[1:, 16:316], mask_id=0)


def test_a_row_is_read_the_same_alone_and_beside_drawn_ones() -> None:
    logits = some_logits(3, 600, torch.float32)
    draw = Draw(torch.tensor([1.0, 0.0, 1.0]), torch.zeros(3), torch.tensor([1, 2, 3]))
    together, _ = triton_path.read(logits, mask_id=1, draw=draw)
    alone, _ = triton_path.read(logits[1:2], mask_id=1)
    for name in ("token", "probability", "entropy", "logit", "normalizer"):
        assert torch.equal(getattr(together, name)[1:2], getattr(alone, name))


def test_columns_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        triton_path.read(torch.zeros(8, 4).T, mask_id=0)
