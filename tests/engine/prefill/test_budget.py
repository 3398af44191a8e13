"""Who gets how many rows: arithmetic, on requests and adders that have only what it reads."""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from worker.dllm.checkpoint_tokens import read_slots
from worker.dllm.prefill import budget, limits, request, self_test
from worker.dllm.prefill.budget import RowBudget
from worker.dllm.prefill.comparison import Differences
from worker.dllm.prefill.limits import Limits

BLOCK, MASK = 4, 99


def config(**more: Any) -> SimpleNamespace:
    return SimpleNamespace(block_size=BLOCK, mask_id=MASK, prompt_limits=Limits(8, 4), **more)


def older(prompt: list[int], prefix: int = 0, incomplete: tuple[int, ...] = ()) -> SimpleNamespace:
    """A request as 0.5.17 has it."""
    return SimpleNamespace(
        origin_input_ids=array("q", prompt),
        prefix_indices=torch.arange(prefix),
        dllm_incomplete_ids=incomplete,
        dllm_config=config(),
        extend_range=SimpleNamespace(end=0),
        sampling_params=SimpleNamespace(max_new_tokens=5),
    )


def newer(prompt: list[int], prefix: int = 0, incomplete: tuple[int, ...] = ()) -> SimpleNamespace:
    """A request as 0.5.23 has it."""
    return SimpleNamespace(
        origin_input_ids=array("q", prompt),
        prefix_len=prefix,
        extend_end=0,
        dllm_incomplete_ids=incomplete,
        dllm_config=config(),
        dllm_has_literal_mask=MASK in prompt,
        sampling_params=SimpleNamespace(max_new_tokens=5),
    )


def adder(**values: int) -> SimpleNamespace:
    given = {"prompt_blocks": 8, "cur_rem_tokens": 1000, "page_size": BLOCK, "rem_dllm_tokens": 1000}
    return SimpleNamespace(dllm_config=config(), **given | values)


@pytest.mark.parametrize(
    ("rows", "wanted", "granted"),
    [
        (16, [100], [16]),
        (16, [3, 100], [3, 13]),
        (16, [100, 100], [15, 1]),
        (16, [100, 1, 1, 100], [13, 1, 1, 1]),
        (4, [100] * 6, [2, 1, 1, 0, 0, 0]),
        (1, [5, 5], [1, 0]),
    ],
)
def test_rows_go_to_the_oldest_and_one_to_each_behind_it(
    rows: int, wanted: list[int], granted: list[int]
) -> None:
    shared, got = RowBudget(rows, len(wanted)), []
    for blocks in wanted:
        got.append(min(blocks, shared.share()))
        shared.spend(got[-1])
    assert got == granted


@pytest.mark.parametrize("make", [older, newer])
def test_known_blocks_are_whole_prompt_blocks_after_the_prefix(make: Any) -> None:
    assert request.known_blocks(make([1] * 11), 9) == 2
    assert request.known_blocks(make([1] * 12, prefix=4), 9) == 2
    assert request.known_blocks(make([1] * 40), 3) == 3
    assert request.known_blocks(make([1] * 8, prefix=8), 9) == 0
    assert request.known_blocks(make([1] * 8, incomplete=(1, 2, 3, 4)), 9) == 0
    assert request.known_blocks(make([1] * 8), 0) == 0


def test_a_mask_in_the_prompt_is_denoised_where_sglang_knows_no_prompt_mask() -> None:
    prompt = [1] * 9 + [MASK] + [1] * 6
    assert request.known_blocks(older(prompt), 9) == 2
    assert request.known_blocks(older(prompt, prefix=8), 9) == 0
    assert request.known_blocks(newer(prompt), 9) == 4


@pytest.mark.parametrize(("end", "is_prompt"), [(4, True), (8, True), (12, False), (6, False), (0, False)])
def test_an_extent_is_a_prompt_only_as_a_whole(end: int, is_prompt: bool) -> None:
    each = newer([1] * 10)
    each.extend_end = end
    assert request.is_prompt(each) is is_prompt


def test_tokens_to_come_reach_to_the_end_of_the_last_block() -> None:
    assert request.tokens_to_come(newer([1] * 10), 0) == 16
    assert request.tokens_to_come(newer([1] * 10), 12) == 4
    assert request.tokens_to_come(newer([1] * 10), 20) == 0


@pytest.mark.parametrize(
    ("bound", "blocks"),
    [
        ({}, 8),
        ({"prompt_blocks": 3}, 3),
        ({"rem_dllm_tokens": 2 * BLOCK}, 2),
        ({"cur_rem_tokens": 3 * BLOCK}, 2),  # a page is spare
        ({"cur_rem_tokens": BLOCK}, 0),
        ({"cur_rem_tokens": -BLOCK}, 0),
    ],
)
def test_an_extent_is_bounded_by_rows_budget_and_free_kv(bound: dict[str, int], blocks: int) -> None:
    assert budget.extent_blocks(adder(**bound), newer([1] * 100)) == blocks


@pytest.mark.parametrize(
    ("stock", "left", "whole"), [(80, 80, 4), (3, 8, 4), (4, 4, 4), (3, 3, 0), (0, 0, 0)]
)
def test_a_denoising_row_gets_a_whole_block_or_nothing(stock: int, left: int, whole: int) -> None:
    assert budget.whole_block(stock, adder(rem_dllm_tokens=left)) == whole


def test_an_older_newcomer_gets_its_blocks_and_the_adder_its_block_size_back() -> None:
    seen = []
    each = adder(dllm_block_size=BLOCK)
    budget.add_newcomer(lambda a, r, p: seen.append(a.dllm_block_size), each, older([1] * 13), 0)
    budget.add_newcomer(lambda a, r, p: seen.append(a.dllm_block_size), each, older([1] * 5), 0)
    assert (seen, each.dllm_block_size) == ([3 * BLOCK, BLOCK], BLOCK)


@pytest.mark.parametrize("wrong", [-1, 1.5, "4", True, None])
def test_a_wrong_number_of_rows_is_named(wrong: object) -> None:
    with pytest.raises(ValueError, match="mixed_prompt_rows is"):
        limits.asked_for({"prompt_rows": 1, "mixed_prompt_rows": wrong})


@pytest.mark.parametrize("wrong", [0, 9, "4", True])
def test_slots_are_at_most_what_sglang_has_buffers_for(wrong: object) -> None:
    def of(**algorithm_config: object) -> SimpleNamespace:
        return SimpleNamespace(max_running_requests=8, algorithm_config=algorithm_config)

    assert (read_slots(of()), read_slots(of(slots=3))) == (8, 3)
    with pytest.raises(ValueError, match="slots is"):
        read_slots(of(slots=wrong))


@pytest.mark.parametrize(
    ("together", "other", "words"),
    [
        ([0, 0.01, 0.2], [0, 0.6, 0.9], None),  # an expert that flipped deep in the model
        ([0, 0.2, 0.2], [0, 0.9, 0.9], "in the first layers"),
        ([0.3, 0, 0], [0, 0.9, 0.9], "in the first layers"),
        ([0, 0.02, 0.1], [0, 0.07, 0.9], "in layer 1"),
        ([0, 0.01, 0.5], [0, 0.6, 0.9], "in layer 2"),
        ([0, 0.0, 0.0], [0, 0.0, 0.0], "in layer 1"),  # nothing that it could have noticed
        ([0, float("nan"), 0.1], [0, 0.6, 0.9], "in layer 1"),
    ],
)
def test_differences_are_judged_by_what_they_could_have_shown(
    together: list[float], other: list[float], words: str | None
) -> None:
    reason = self_test.judged(4, Differences(together, other), torch.bfloat16)
    assert reason is None if words is None else reason is not None and words in reason


def test_single_precision_is_judged_by_its_own_rounding() -> None:
    assert self_test.judged(4, Differences([0, 0.01], [0, 0.6]), torch.float32) is not None
    assert self_test.judged(4, Differences([0, 1e-6], [0, 0.6]), torch.float32) is None
