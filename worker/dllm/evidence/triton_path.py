"""The read of the logits on a GPU: one kernel over all of them, a second one over what it found.

The first splits each row of the vocabulary into chunks of a fixed size, one program each, so that a few
rows fill the GPU as well and a row's result is the same whatever stands beside it. Each thread loads
groups of 16 bytes and keeps a running maximum, sum of exponentials and their mean for its groups; of the
best token it notes the group only. The mask and the penalised token are left out there. The second kernel
adds them, and looks the token up in its group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from worker.dllm.evidence import noise
from worker.dllm.evidence.values import LEAST, LEAST_TEMPERATURE, LEFT_OUT, Draw, Evidence

_LEAST = tl.constexpr(LEAST)
_LEFT_OUT = tl.constexpr(LEFT_OUT)
_LEAST_TEMPERATURE = tl.constexpr(LEAST_TEMPERATURE)
_SPREAD = tl.constexpr(noise.SPREAD)
_MULTIPLIER_0 = tl.constexpr(noise.MULTIPLIERS[0])
_MULTIPLIER_1 = tl.constexpr(noise.MULTIPLIERS[1])
_NO_TOKEN = tl.constexpr(2**31 - 1)

_LOAD_BYTES = 16  # the widest load of a thread


@dataclass(frozen=True)
class Shape:
    """How the first kernel divides a row."""

    chunk: int  # logits of a program
    tile: int  # of them, loaded at once; a power of 2
    warps: int


SHAPES = {4: Shape(chunk=8192, tile=2048, warps=4), 2: Shape(chunk=16384, tile=4096, warps=4)}
"""By the bytes of a logit. A change of the chunk changes the last bits of the sums, and nothing else."""


def read(
    logits: Tensor,
    *,
    mask_id: int,
    penalised: Tensor | None = None,
    penalty: Tensor | None = None,
    draw: Draw | None = None,
    vocab_start: int = 0,
    shape: Shape | None = None,
) -> tuple[Evidence, Tensor]:
    """As `torch_path.read`, on the GPU of `logits`.

    Raises:
        ValueError: the columns of `logits` are not contiguous.
    """
    if logits.stride(1) != 1:
        raise ValueError(f"the columns of the logits must be contiguous, their stride is {logits.stride(1)}")
    rows, vocabulary = logits.shape
    shape = shape or SHAPES[logits.element_size()]
    group = _LOAD_BYTES // logits.element_size()
    chunks = triton.cdiv(vocabulary, shape.chunk)
    found = torch.empty((4, chunks, rows), dtype=torch.float32, device=logits.device)
    found_at = torch.empty((chunks, rows), dtype=torch.int32, device=logits.device)
    token = torch.empty(rows, dtype=torch.int64, device=logits.device)
    numbers = torch.empty((5, rows), dtype=torch.float32, device=logits.device)
    common: dict[str, Any] = {
        "logits": logits,
        "row_stride": logits.stride(0),
        "found": found,
        "found_at": found_at,
        "penalised": penalised,
        "temperatures": draw.temperature if draw else None,
        "floors": draw.floor if draw else None,
        "seeds": draw.seed if draw else None,
        "rows": rows,
        "vocabulary": vocabulary,
        "vocab_start": vocab_start,
        "mask_id": mask_id - vocab_start,
        "GROUP": group,
    }
    if rows:
        _find[(chunks, rows)](
            **common,
            CHUNK=shape.chunk,
            LANES=shape.tile // group,
            num_warps=shape.warps,
        )
        _conclude[(rows,)](
            **common,
            penalty=penalty,
            token=token,
            numbers=numbers,
            chunks=chunks,
            CHUNKS=triton.next_power_of_2(chunks),
            num_warps=1,
        )
    probability, entropy, logit, normalizer, score = numbers.unbind()
    return Evidence(token, probability, entropy, logit, normalizer), score


@triton.jit
def _find(
    logits,
    row_stride,
    found,
    found_at,
    penalised,
    temperatures,
    floors,
    seeds,
    rows,
    vocabulary,
    vocab_start,
    mask_id,
    GROUP: tl.constexpr,
    CHUNK: tl.constexpr,
    LANES: tl.constexpr,
):
    """Of one chunk of one row: maximum, sum, moment, best score, and the first id of the best group."""
    TILE: tl.constexpr = LANES * GROUP
    chunk = tl.program_id(0)
    row = tl.program_id(1)
    row_logits = logits + row.to(tl.int64) * row_stride
    apart = -1
    if penalised is not None:
        apart = tl.load(penalised + row).to(tl.int32) - vocab_start
    temperature = 0.0
    if temperatures is not None:
        temperature = tl.load(temperatures + row)

    lane_start = tl.arange(0, LANES) * GROUP
    offsets = lane_start[:, None] + tl.arange(0, GROUP)[None, :]
    first = chunk * CHUNK
    best_at = first + lane_start
    maximum = tl.full([LANES], _LEAST, tl.float32)
    total = tl.zeros([LANES], tl.float32)
    moment = tl.zeros([LANES], tl.float32)
    best = maximum
    if temperature > 0:
        inverse = 1.0 / tl.maximum(temperature, _LEAST_TEMPERATURE)
        floor = tl.load(floors + row)
        seed = tl.load(seeds + row).to(tl.uint32)
        best = tl.full([LANES], float("-inf"), tl.float32)
        for start in range(first, tl.minimum(first + CHUNK, vocabulary), TILE):
            values = _load(row_logits, start, offsets, vocabulary, mask_id, apart, TILE)
            values, scores = _drawn(values, inverse, floor, seed, vocab_start + start + offsets)
            _, maximum, total, moment = _add(values, maximum, total, moment)
            best, best_at = _better(tl.max(scores, 1), start + lane_start, best, best_at)
    else:
        for start in range(first, tl.minimum(first + CHUNK, vocabulary), TILE):
            values = _load(row_logits, start, offsets, vocabulary, mask_id, apart, TILE)
            group_best, maximum, total, moment = _add(values, maximum, total, moment)
            best, best_at = _better(group_best, start + lane_start, best, best_at)

    top = tl.max(maximum, 0)
    below = maximum - top
    scale = tl.exp(below)
    top_score = tl.max(best, 0)
    at = chunk * rows + row
    plane = tl.num_programs(0) * rows
    tl.store(found + at, top)
    tl.store(found + plane + at, tl.sum(total * scale, 0))
    tl.store(found + 2 * plane + at, tl.sum((moment + total * below) * scale, 0))
    tl.store(found + 3 * plane + at, top_score)
    tl.store(found_at + at, tl.min(tl.where(best == top_score, best_at, _NO_TOKEN), 0))


@triton.jit
def _conclude(
    logits,
    row_stride,
    found,
    found_at,
    penalised,
    temperatures,
    floors,
    seeds,
    rows,
    vocabulary,
    vocab_start,
    mask_id,
    penalty,
    token,
    numbers,
    chunks,
    GROUP: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """Of one row: its chunks together, with the mask and the penalised token."""
    row = tl.program_id(0)
    row_logits = logits + row.to(tl.int64) * row_stride
    chunk = tl.arange(0, CHUNKS)
    here = chunk < chunks
    at = chunk * rows + row
    plane = chunks * rows
    maxima = tl.load(found + at, here, _LEAST)
    totals = tl.load(found + plane + at, here, 0.0)
    moments = tl.load(found + 2 * plane + at, here, 0.0)
    bests = tl.load(found + 3 * plane + at, here, float("-inf"))
    bests_at = tl.load(found_at + at, here, _NO_TOKEN)
    best_at = tl.min(tl.where(bests == tl.max(bests, 0), bests_at, _NO_TOKEN), 0)

    apart = -1
    lowered = 0.0
    if penalised is not None:
        apart = tl.load(penalised + row).to(tl.int32) - vocab_start
        lowered = tl.load(penalty + row)
        apart = tl.where(apart < vocabulary, apart, -1)
    # Of the best group, then the penalised token, then the mask: one vector, of which the last two lanes
    # may be empty.
    lane = tl.arange(0, 2 * GROUP)
    ids = tl.where(lane < GROUP, best_at + lane, -1)
    ids = tl.where((ids == mask_id) | (ids == apart), -1, ids)
    ids = tl.where(lane == GROUP, apart, ids)
    ids = tl.where(lane == GROUP + 1, mask_id, ids)
    valid = (ids >= 0) & (ids < vocabulary)
    values = tl.load(row_logits + ids, valid, 0.0).to(tl.float32)
    values = tl.maximum(tl.where(ids == apart, values - lowered, values), _LEAST)
    is_mask = ids == mask_id
    valid = valid & ((lane == GROUP + 1) | (is_mask == 0))
    values = tl.where(valid, values, _LEFT_OUT)
    scores = tl.where(is_mask, _LEFT_OUT, values)
    if temperatures is not None:
        temperature = tl.load(temperatures + row)
        if temperature > 0:
            inverse = 1.0 / tl.maximum(temperature, _LEAST_TEMPERATURE)
            seed = tl.load(seeds + row).to(tl.uint32)
            values, scores = _drawn(scores, inverse, tl.load(floors + row), seed, vocab_start + ids)

    score = tl.max(scores, 0)
    found_token = tl.min(tl.where((scores == score) & (ids >= 0), ids, _NO_TOKEN), 0)
    logit = tl.max(tl.where((ids == found_token) & (is_mask == 0), values, _LEFT_OUT), 0)
    added = tl.where(lane >= GROUP, values, _LEFT_OUT)
    top = tl.maximum(tl.max(maxima, 0), tl.max(added, 0))
    below = maxima - top
    scale = tl.exp(below)
    added_below = added - top
    added_weight = tl.exp(added_below)
    total = tl.sum(totals * scale, 0) + tl.sum(added_weight, 0)
    moment = tl.sum((moments + totals * below) * scale, 0) + tl.sum(added_weight * added_below, 0)
    log_total = tl.log(total)
    # A shard may hold nothing that a draw allows.
    tl.store(numbers + row, tl.where(total > 0, tl.exp(logit - top) / total, 0.0))
    tl.store(numbers + rows + row, tl.where(total > 0, log_total - moment / total, 0.0))
    tl.store(numbers + 2 * rows + row, logit)
    tl.store(numbers + 3 * rows + row, top + log_total)
    tl.store(numbers + 4 * rows + row, score)
    tl.store(token + row, (found_token + vocab_start).to(tl.int64))


@triton.jit
def _load(row_logits, start, offsets, vocabulary, mask_id, apart, TILE: tl.constexpr):
    ids = start + offsets
    values = tl.load(row_logits + ids, ids < vocabulary, float("-inf"), eviction_policy="evict_first")
    values = tl.maximum(values.to(tl.float32), _LEAST)
    # Few tiles hold one of these: the others are spared the comparisons.
    touched = (mask_id >= start) & (mask_id < start + TILE)
    touched = touched | (apart >= start) & (apart < start + TILE) | (start + TILE > vocabulary)
    if touched:
        values = tl.where((ids == mask_id) | (ids == apart) | (ids >= vocabulary), _LEFT_OUT, values)
    return values


@triton.jit
def _add(values, maximum, total, moment):
    """Takes groups [LANES, GROUP] into the running softmax of each lane, and gives their maxima."""
    group_maximum = tl.max(values, 1)
    new = tl.maximum(maximum, group_maximum)
    below = maximum - new
    scale = tl.exp(below)
    differences = values - new[:, None]
    weights = tl.exp(differences)
    moment = (moment + total * below) * scale + tl.sum(weights * differences, 1)
    total = total * scale + tl.sum(weights, 1)
    return group_maximum, new, total, moment


@triton.jit
def _better(score, at, best, best_at):
    better = score > best
    return tl.where(better, score, best), tl.where(better, at, best_at)


@triton.jit
def _drawn(values, inverse, floor, seed, ids):
    """The logits that a row is drawn from, and them with noise; see `noise` for the arithmetic."""
    allowed = (values > _LEFT_OUT) & (values >= floor)
    values = tl.where(allowed, tl.maximum(values * inverse, _LEAST), _LEFT_OUT)
    bits = _mix(ids.to(tl.uint32) * _SPREAD ^ seed)
    uniform = tl.minimum((bits.to(tl.float32) + 0.5) * 2.3283064365386963e-10, 1 - 5.9604644775390625e-08)
    series = 1.0 / 4 + uniform / 5
    series = 1.0 / 3 + uniform * series
    series = 1.0 / 2 + uniform * series
    series = uniform * (1 + uniform * series)
    exponential = tl.where(uniform < 1.0 / 16, series, -tl.log(1 - uniform))
    return values, values - tl.log(exponential)


@triton.jit
def _mix(words):
    words = words ^ (words >> 16)
    words = words * _MULTIPLIER_0
    words = words ^ (words >> 15)
    words = words * _MULTIPLIER_1
    return words ^ (words >> 16)
