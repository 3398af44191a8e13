"""Rows that draw their token: from the right distribution, and by their seed alone."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.engine.evidence_reference import Row, logits_of
from worker.dllm.evidence import Draw, filters, noise, read
from worker.dllm.evidence.values import LEAST


def draw_of(temperatures: list[float], seeds: list[int], floors: list[float] | None = None) -> Draw:
    return Draw(
        temperature=torch.tensor(temperatures),
        floor=torch.tensor(floors or [-math.inf] * len(seeds)),
        seed=torch.tensor(seeds),
    )


@settings(deadline=None)  # on a busy machine a call may take long
@given(logits=logits_of(), data=st.data())
def test_agrees_with_float64(logits: Tensor, data: st.DataObject) -> None:
    mask_id = data.draw(st.integers(0, logits.shape[1] - 1))
    temperatures = [data.draw(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0])) for _ in logits]
    seeds = [data.draw(st.integers(0, 2**32 - 1)) for _ in logits]
    floors = []
    for line in logits.float():  # at most the second highest: a token other than the mask stays
        floors.append(data.draw(st.sampled_from([-math.inf, float(line.sort().values[-2])])))
    found = read(logits, mask_id=mask_id, draw=draw_of(temperatures, seeds, floors))
    for row, line in enumerate(logits):
        Row(line, mask_id, temperature=temperatures[row], floor=floors[row], seed=seeds[row]).check(
            found, row
        )


def test_draws_tokens_as_often_as_they_are_probable() -> None:
    logits = torch.linspace(-2, 2, 12)
    mask_id, floor, temperature, draws = 11, -1.9, 0.7, 40_000
    seeds = noise.position_seeds(torch.tensor([2024]), torch.arange(draws)[None])
    found = read(
        logits.expand(draws, -1),
        mask_id=mask_id,
        draw=Draw(torch.full((draws,), temperature), torch.full((draws,), floor), seeds),
    )
    count = found.token.bincount(minlength=12).double()
    allowed = (logits >= floor) & (torch.arange(12) != mask_id)
    expected = draws * torch.where(allowed, logits / temperature, -math.inf).double().softmax(0)
    assert count[~allowed].sum() == 0
    chi_square = ((count - expected)[allowed] ** 2 / expected[allowed]).sum()
    assert chi_square < 27.88  # 99.9 % of samples of 9 degrees of freedom


def test_draws_of_neighbouring_positions_are_independent() -> None:
    draws = 20_000
    seeds = noise.position_seeds(torch.tensor([-5]), torch.arange(draws)[None])
    high = noise.uniform(seeds, torch.arange(2)) > 0.5
    # Whether two numbers are both high, of one position and of two neighbours: each pair a quarter.
    for first, second in ((high[:, 0], high[:, 1]), (high[:-1, 0], high[1:, 0])):
        pairs = (2 * first.long() + second).bincount(minlength=4).double()
        assert ((pairs - draws / 4) ** 2 / (draws / 4)).sum() < 16.27  # 99.9 %, 3 degrees of freedom


def test_the_draw_does_not_depend_on_the_batch() -> None:
    logits = torch.randn(6, 500, generator=torch.Generator().manual_seed(0))
    draw = draw_of([1.0, 0.0, 0.5, 2.0, 0.0, 1.5], [5, 6, 7, 5, 9, 10])
    together = read(logits, mask_id=3, draw=draw)
    for row in range(6):
        part = slice(row, row + 1)
        alone = read(
            logits[part], mask_id=3, draw=Draw(draw.temperature[part], draw.floor[part], draw.seed[part])
        )
        for name in ("token", "probability", "entropy", "logit", "normalizer"):
            assert torch.equal(getattr(alone, name), getattr(together, name)[part])
    greedy = read(logits, mask_id=3)
    assert torch.equal(greedy.probability[[1, 4]], together.probability[[1, 4]])


def test_seeds_are_words_that_depend_on_request_and_position_alone() -> None:
    requests = torch.tensor([0, 1, -1, 2**63 - 1, -(2**63), 2**32])
    positions = torch.arange(600, 664).expand(6, -1)
    seeds = noise.position_seeds(requests, positions)
    assert seeds.min() >= 0
    assert seeds.max() < 2**32
    assert seeds.unique().numel() == 6 * 64
    shifted = noise.position_seeds(requests[4:5], positions[:1, 10:20])
    assert torch.equal(shifted, seeds.view(6, 64)[4, 10:20])


def test_the_noise_of_a_seed_stays_as_it_is() -> None:
    """A saved seed must give the same text in the next version: these are its bits."""
    seeds = noise.position_seeds(torch.tensor([42]), torch.tensor([[0, 1]]))
    bits = (noise.uniform(seeds, torch.tensor([0, 1, 156_894])).double() * 2**32).long() >> 8
    assert seeds.tolist() == [3775335865, 1698408317]
    assert bits.tolist() == [[3441830, 7375735, 1425526], [3065083, 14667248, 6555920]]


@settings(deadline=None)  # on a busy machine a call may take long
@given(logits=logits_of(), data=st.data())
def test_floor_keeps_top_k_then_top_p(logits: Tensor, data: st.DataObject) -> None:
    vocabulary = logits.shape[1]
    mask_id = data.draw(st.integers(0, vocabulary - 1))
    rows = len(logits)
    temperature = [data.draw(st.sampled_from([0.5, 1.0, 2.0])) for _ in range(rows)]
    top_p = [data.draw(st.sampled_from([1e-50, 0.05, 0.5, 0.9, 1.0])) for _ in range(rows)]
    top_k = [data.draw(st.sampled_from([0, 1, 3, vocabulary + 5])) for _ in range(rows)]
    asking = data.draw(st.lists(st.sampled_from(range(rows)), unique=True))
    floors = filters.floor(
        logits,
        torch.tensor(temperature),
        torch.tensor(top_p),
        torch.tensor(top_k),
        mask_id=mask_id,
        rows=torch.tensor(asking, dtype=torch.int64),
    ).tolist()
    for row in range(rows):
        if row not in asking:
            assert floors[row] == -math.inf
            continue
        values = [max(float(v), LEAST) for token, v in enumerate(logits[row]) if token != mask_id]
        values.sort(reverse=True)
        values = [
            value for value in values if value >= values[min(top_k[row] or vocabulary, len(values)) - 1]
        ]
        weights = [math.exp((value - values[0]) / temperature[row]) for value in values]
        # One of these two: the float32 sum may pass top_p a token sooner or later than the exact one.
        ends = []
        for slack in (-1e-5, 1e-5):
            before = 0.0
            kept: list[float] = []
            for value, weight in zip(values, weights, strict=True):
                if not kept or before < top_p[row] + slack or top_p[row] == 1:
                    kept.append(value)
                before += weight / sum(weights)
            ends.append(kept[-1])
        assert floors[row] in ends


def test_floor_of_many_rows_is_that_of_each() -> None:
    logits = torch.randn(600, 20, generator=torch.Generator().manual_seed(0))
    arguments = torch.ones(600), torch.full((600,), 0.5), torch.zeros(600, dtype=torch.int64)
    rows = torch.arange(0, 600, 2)
    floors = filters.floor(logits, *arguments, mask_id=0, rows=rows)
    last = filters.floor(logits[598:], *(a[598:] for a in arguments), mask_id=0, rows=torch.tensor([0]))
    assert torch.equal(floors.isinf().nonzero().squeeze(1), rows + 1)
    assert floors[598] == last[0]


def test_a_drawn_token_is_never_under_the_floor() -> None:
    logits = torch.randn(200, 50, generator=torch.Generator().manual_seed(1))
    one = torch.ones(200)
    floor = filters.floor(
        logits, one, 0.6 * one, 5 * one.long(), mask_id=logits.argmax().item() % 50, rows=torch.arange(200)
    )
    seeds = noise.position_seeds(torch.tensor([1]), torch.arange(200)[None])
    found = read(logits, mask_id=logits.argmax().item() % 50, draw=Draw(2 * one, floor, seeds))
    assert (logits.gather(1, found.token[:, None]).squeeze(1) >= floor).all()
    assert found.probability.max() <= 1
    assert found.probability.min() == pytest.approx(0.2, abs=0.2)
