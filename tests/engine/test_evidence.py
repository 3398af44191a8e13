"""The evidence of rows that take the most probable token, against float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.engine.evidence_reference import Row, logits_of
from worker.dllm import evidence


@settings(deadline=None)  # on a busy machine a call may take long
@given(logits=logits_of(), data=st.data())
def test_agrees_with_float64(logits: Tensor, data: st.DataObject) -> None:
    mask_id = data.draw(st.integers(0, logits.shape[1] - 1))
    before = logits.clone()
    found = evidence.read(logits, mask_id=mask_id)
    for row, line in enumerate(logits):
        Row(line, mask_id).check(found, row)
    assert torch.equal(logits, before)


@settings(deadline=None)  # on a busy machine a call may take long
@given(logits=logits_of(), data=st.data())
def test_takes_the_penalty_first(logits: Tensor, data: st.DataObject) -> None:
    vocabulary = logits.shape[1]
    mask_id = data.draw(st.integers(0, vocabulary - 1))
    # The likeliest token as well, so that the penalty decides.
    tokens = [data.draw(st.sampled_from([-1, int(line.argmax()), mask_id, 1])) for line in logits]
    penalty = data.draw(st.sampled_from([0.0, 0.5, 3.25, 100.0]))
    found = evidence.read(
        logits,
        mask_id=mask_id,
        penalised=torch.tensor(tokens),
        penalty=torch.full((len(tokens),), penalty),
    )
    for row, line in enumerate(logits):
        Row(line, mask_id, tokens[row], penalty).check(found, row)


def test_the_mask_is_never_the_token_and_counts_in_the_probability() -> None:
    found = evidence.read(torch.tensor([[0.0, 5.0, 9.0]]), mask_id=2)
    assert found.token.tolist() == [1]
    expected = math.exp(5) / (1 + math.exp(5) + math.exp(9))
    assert found.probability.tolist() == [pytest.approx(expected, rel=1e-6)]


def test_of_equal_logits_the_lowest_id() -> None:
    assert evidence.read(torch.tensor([[1.0, 4.0, 4.0, 4.0]]), mask_id=1).token.tolist() == [2]


def test_a_row_without_a_finite_logit_still_has_a_token() -> None:
    found = evidence.read(torch.tensor([[-math.inf] * 4, [math.nan] * 4]), mask_id=0)
    assert found.token.tolist() == [1, 1]
    assert found.probability.tolist() == [0.25, 0.25]
    assert found.entropy.tolist() == pytest.approx([math.log(4)] * 2)


def test_reads_a_slice_of_padded_rows() -> None:
    padded = torch.randn(5, 80, generator=torch.Generator().manual_seed(0))
    padded[:, 70:] = 100
    sliced = evidence.read(padded[1:4, :70], mask_id=3)
    copied = evidence.read(padded[1:4, :70].clone(), mask_id=3)
    assert torch.equal(sliced.token, copied.token)
    assert torch.equal(sliced.probability, copied.probability)
    assert (sliced.token < 70).all()


def test_of_no_rows_nothing() -> None:
    assert evidence.read(torch.empty(0, 16), mask_id=0).token.shape == (0,)
