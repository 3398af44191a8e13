"""The Triton kernels of `triton_path`: `find` over chunks of the vocabulary, `conclude` over its findings.

Untyped, as Triton wants them: what each argument is stands at `triton_path.read`.
"""
# mypy: ignore-errors

import triton
import triton.language as tl

from worker.dllm.evidence import noise
from worker.dllm.evidence.values import LEAST, LEAST_TEMPERATURE, LEFT_OUT

_LEAST = tl.constexpr(LEAST)
_LEFT_OUT = tl.constexpr(LEFT_OUT)
_LEAST_TEMPERATURE = tl.constexpr(LEAST_TEMPERATURE)
_SPREAD = tl.constexpr(noise.SPREAD)
_MULTIPLIER_0 = tl.constexpr(noise.MULTIPLIERS[0])
_MULTIPLIER_1 = tl.constexpr(noise.MULTIPLIERS[1])
_NO_TOKEN = tl.constexpr(2**31 - 1)


@triton.jit
def find(
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
    CHUNK: tl.constexpr,
    GROUP: tl.constexpr,
    LANES: tl.constexpr,
    DRAWN_LANES: tl.constexpr,
):
    """Of one chunk of one row: maximum, sum, moment, best score, and the first id of the best group."""
    chunk = tl.program_id(0)
    row = tl.program_id(1)
    row_logits = logits + row.to(tl.int64) * row_stride
    apart = -1
    if penalised is not None:
        apart = tl.load(penalised + row).to(tl.int32) - vocab_start

    first = chunk * CHUNK
    end = tl.minimum(first + CHUNK, vocabulary)
    inverse, floor, seed = 0.0, 0.0, 0
    temperature = 0.0
    if temperatures is not None:
        temperature = tl.load(temperatures + row)
        inverse = 1.0 / tl.maximum(temperature, _LEAST_TEMPERATURE)
        floor = tl.load(floors + row)
        seed = tl.load(seeds + row).to(tl.uint32)
    draw = (inverse, floor, seed, vocab_start)
    place = (row_logits, first, end, vocabulary, mask_id, apart)
    if temperatures is None:
        top, total, moment, score, token_at = _scan(place, draw, GROUP, LANES, False)
    elif temperature > 0:
        # A draw takes more registers: with fewer logits at once, the rows that do not draw are not slowed.
        top, total, moment, score, token_at = _scan(place, draw, GROUP, DRAWN_LANES, True)
    else:
        top, total, moment, score, token_at = _scan(place, draw, GROUP, LANES, False)

    at = chunk * rows + row
    plane = tl.num_programs(0) * rows
    tl.store(found + at, top)
    tl.store(found + plane + at, total)
    tl.store(found + 2 * plane + at, moment)
    tl.store(found + 3 * plane + at, score)
    tl.store(found_at + at, token_at)


@triton.jit
def conclude(
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
            scores = _drawn(scores, inverse, tl.load(floors + row), seed, vocab_start + ids)

    score = tl.max(scores, 0)
    found_token = tl.min(tl.where((scores == score) & (ids >= 0), ids, _NO_TOKEN), 0)
    logit = tl.max(tl.where((ids == found_token) & (is_mask == 0), values, _LEFT_OUT), 0)
    added = tl.where(lane >= GROUP, values, _LEFT_OUT)
    top = tl.maximum(tl.max(maxima, 0), tl.max(added, 0))
    below = maxima - top
    scale = _exp(below)
    added_below = added - top
    added_weight = _exp(added_below)
    total = tl.sum(totals * scale, 0) + tl.sum(added_weight, 0)
    moment = tl.sum((moments + totals * below) * scale, 0) + tl.sum(added_weight * added_below, 0)
    log_total = _log(total)
    tl.store(numbers + row, _exp(logit - top) / total)
    tl.store(numbers + rows + row, log_total - moment / total)
    tl.store(numbers + 2 * rows + row, logit)
    tl.store(numbers + 3 * rows + row, top + log_total)
    tl.store(numbers + 4 * rows + row, score)
    tl.store(token + row, (found_token + vocab_start).to(tl.int64))


@triton.jit
def _scan(place, draw, GROUP: tl.constexpr, LANES: tl.constexpr, DRAWN: tl.constexpr):
    row_logits, first, end, vocabulary, mask_id, apart = place
    lane_start = tl.arange(0, LANES) * GROUP
    offsets = lane_start[:, None] + tl.arange(0, GROUP)[None, :]
    maximum = tl.full([LANES], _LEAST, tl.float32)
    total = tl.zeros([LANES], tl.float32)
    moment = tl.zeros([LANES], tl.float32)
    best = tl.full([LANES], float("-inf"), tl.float32)
    best_at = first + lane_start
    for start in range(first, end, LANES * GROUP):
        values = _load(row_logits, start, offsets, vocabulary, mask_id, apart, LANES * GROUP)
        scores = values
        if DRAWN:
            inverse, floor, seed, vocab_start = draw
            scores = _drawn(values, inverse, floor, seed, vocab_start + start + offsets)
        # The softmax of each lane so far, and its mean distance from the maximum.
        new = tl.maximum(maximum, tl.max(values, 1))
        below = maximum - new
        scale = _exp(below)
        differences = values - new[:, None]
        weights = _exp(differences)
        moment = (moment + total * below) * scale + tl.sum(weights * differences, 1)
        total = total * scale + tl.sum(weights, 1)
        maximum = new
        score = tl.max(scores, 1)
        best_at = tl.where(score > best, start + lane_start, best_at)
        best = tl.maximum(best, score)

    top = tl.max(maximum, 0)
    below = maximum - top
    scale = _exp(below)
    top_score = tl.max(best, 0)
    token_at = tl.min(tl.where(best == top_score, best_at, _NO_TOKEN), 0)
    return top, tl.sum(total * scale, 0), tl.sum((moment + total * below) * scale, 0), top_score, token_at


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
def _drawn(values, inverse, floor, seed, ids):
    """The logits that a row is drawn from, with noise; see `noise` for the arithmetic."""
    allowed = (values > _LEFT_OUT) & (values >= floor)
    scaled = tl.where(allowed, tl.maximum(values * inverse, _LEAST), _LEFT_OUT)
    bits = _mix(ids.to(tl.uint32) * _SPREAD ^ seed)
    uniform = tl.minimum((bits.to(tl.float32) + 0.5) * 2.3283064365386963e-10, 1 - 5.9604644775390625e-08)
    series = uniform * (1 + uniform * (1 / 2 + uniform * (1 / 3 + uniform * (1 / 4 + uniform * (1 / 5)))))
    exponential = tl.where(uniform < 1 / 16, series, -_log(1 - uniform))
    return scaled - _log(exponential)


@triton.jit
def _exp(exponent):
    # tl.exp spends four instructions more to keep results under 2**-126.
    return tl.exp2(exponent * 1.4426950408889634)


@triton.jit
def _log(number):
    return tl.log2(number) * 0.6931471805599453


@triton.jit
def _mix(words):
    words = words ^ (words >> 16)
    words = words * _MULTIPLIER_0
    words = words ^ (words >> 15)
    words = words * _MULTIPLIER_1
    return words ^ (words >> 16)
