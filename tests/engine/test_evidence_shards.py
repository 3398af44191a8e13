"""The evidence of a vocabulary in shards is that of the whole."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.engine.evidence_reference import logits_of
from worker.dllm.evidence import Draw, Evidence, read, shards


def read_in_shards(logits: Tensor, cuts: list[int], mask_id: int, **options: Any) -> Evidence:
    """As GPUs with these columns would: what each hands to `gather` comes back to all, stacked."""
    handed: list[list[Tensor]] = []

    def gather(tensor: Tensor) -> Tensor:
        handed[-1].append(tensor)
        return tensor[None]

    for start, end in pairwise([0, *cuts, logits.shape[1]]):
        handed.append([])
        shards.read(logits[:, start:end], start, gather, mask_id=mask_id, **options)
    tokens, numbers = (torch.stack(tensors) for tensors in zip(*handed, strict=True))
    return shards.merge(tokens, numbers)


@settings(deadline=None)  # on a busy machine a call may take long
@given(logits=logits_of(rows=4, least_vocabulary=12), data=st.data())
def test_shards_together_are_the_whole(logits: Tensor, data: st.DataObject) -> None:
    vocabulary = logits.shape[1]
    # Between shards goes the normalizer itself, which float32 holds to 4e-6 at 90 and to 5e-4 at 10,000.
    logits = logits.masked_fill((logits.abs() > 90) & logits.isfinite(), 90)
    logits[:, 5] = 0.25
    cuts = sorted(data.draw(st.sets(st.integers(2, vocabulary - 2), min_size=1, max_size=3)))
    mask_id = data.draw(st.integers(0, vocabulary - 1))
    penalised = torch.tensor([-1, mask_id, int(logits[2].argmax()), vocabulary - 1])
    options = data.draw(
        st.sampled_from(
            [
                {},
                {"penalised": penalised, "penalty": torch.tensor([1.0, 2.0, 3.0, 0.0])},
                {
                    "draw": Draw(
                        torch.tensor([0.0, 0.5, 1.0, 2.0]),
                        # So few tokens that a shard may have none.
                        logits.float().sort(dim=1).values[:, -2],
                        torch.tensor([1, 2, 3, 4]),
                    )
                },
            ]
        )
    )
    whole = read(logits, mask_id=mask_id, **options)
    merged = read_in_shards(logits, cuts, mask_id, **options)
    assert torch.equal(merged.token, whole.token)
    assert torch.equal(merged.logit, whole.logit)
    for name in ("probability", "entropy", "normalizer"):
        torch.testing.assert_close(getattr(merged, name), getattr(whole, name), rtol=3e-6, atol=2e-5)


def test_of_equal_logits_in_two_shards_the_lowest_id() -> None:
    merged = read_in_shards(torch.tensor([[0.0, 3.0, 1.0, 3.0]]), [2], mask_id=0)
    assert merged.token.tolist() == [1]
