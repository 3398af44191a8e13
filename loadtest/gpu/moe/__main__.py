"""Tunes SGLang's kernel for a mixture of experts: `python -m loadtest.gpu.moe --out configs/moe`.

For each number of tokens in a forward it times the kernel's two GEMMs by themselves with every candidate
that has compiled (replays of a CUDA graph, medians), then whole layers with the best of each, through
SGLang's own `fused_experts` and the files that it will read. Only a layer whose result is that of SGLang's
own configuration, but for rounding, is taken. Files and table are written again after every number of
tokens, in an order in which the most used come first, and no later than `--seconds` after the start.

The roof is the faster of a copy and a sum of 4 GiB. Bytes are the least that must be moved: the weights of
the experts that have a token, and the activations. Routing is random; a trained router's is less even.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from loadtest.gpu import table
from loadtest.gpu.moe import candidates, compiled, files, layer
from loadtest.gpu.moe.candidates import Config, Gemm
from loadtest.gpu.moe.compiled import Task
from loadtest.gpu.moe.files import Pair
from loadtest.gpu.moe.layer import EXPERTS, INTERMEDIATE, TOP_K, Layer, Weights
from loadtest.kernel import Timed, roof

# Blocks of 32 tokens: 32 requests at once first, then 1, 8 and 64, then with as many rows of prompts.
SIZES = (1024, 32, 256, 2048, 4096, 512, 64, 128)
_COMPILING = 0.5  # of the time
_GEMMS = 0.5  # of the time of one number of tokens
_HOPELESS = 1.25  # times the best
_ROUNDS = 3
_LAYER_ROUNDS = 7
_FINALISTS = 6
_GAIN = 0.99  # what is no faster than this is not worth another configuration
_ROUNDING = 0.01  # of the results' norm; a bfloat16 has 8 bits


@dataclass
class Row:
    """Of one number of tokens. Seconds."""

    tokens: int
    stock: Pair
    stock_s: float
    best: Pair
    best_s: float
    known_s: float
    gemm_s: tuple[float, float]
    bytes_moved: int
    tried: int


def main() -> None:
    arguments = parser().parse_args()
    if not torch.cuda.is_available():
        sys.exit("The kernel is tuned on a GPU, and there is none.")
    deadline = time.monotonic() + arguments.seconds
    tasks = list(candidates.tasks(arguments.tokens, TOP_K, EXPERTS, arguments.candidates))
    until = time.monotonic() + _COMPILING * arguments.seconds
    ready = compiled.compiled(tasks, arguments.processes, until)
    layer.prepare()
    peak = roof(5)
    rows: list[Row] = []
    weights = Weights()
    for number, tokens in enumerate(arguments.tokens):
        now = time.monotonic()
        if number and now > deadline:
            print(f"no time left for {arguments.tokens[number:]} tokens", flush=True)
            break
        share = (deadline - now) / (len(arguments.tokens) - number)
        try:
            rows.append(tuned(tokens, weights, ready or tasks, now + _GEMMS * share, now + share))
        except Exception as error:  # one number of tokens less, not all
            print(f"{tokens} tokens: {type(error).__name__}: {str(error)[:500]}", file=sys.stderr, flush=True)
            continue
        write(arguments.out, rows, peak)
        print(f"after {arguments.seconds - deadline + time.monotonic():.0f} s: {cells(rows[-1], peak)}")
        sys.stdout.flush()
    show(rows, peak)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m loadtest.gpu.moe",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--out", type=Path, required=True, help="folder, such as configs/moe")
    made.add_argument("--seconds", type=float, default=240)
    made.add_argument(
        "--tokens", nargs="+", type=int, default=list(SIZES), help="in a forward, in this order"
    )
    made.add_argument("--candidates", type=int, default=64, help="of a GEMM for one block of rows")
    made.add_argument("--processes", type=int, default=12, help="to compile in")
    return made


def tuned(tokens: int, weights: Weights, ready: Sequence[Task], gemms_until: float, until: float) -> Row:
    """
    Args:
        gemms_until: for the GEMMs by themselves; `until` for all (time.monotonic).
    """
    asked = Layer(tokens, weights)
    best: dict[tuple[Gemm, int, bool], tuple[float, Config]] = {}
    tried = 0
    for gemm, config in _of(tokens, ready):
        if tried and time.monotonic() > gemms_until:
            break
        key = (gemm, config.block_m, config.tma)
        limit = best[key][0] if key in best else math.inf
        try:
            spent = seconds(_gemm(asked, gemm, config), asked.hidden, limit * _HOPELESS, _ROUNDS)
        except Exception as error:
            print(f"{tokens} tokens, {gemm} {config}: {str(error)[:200]}", file=sys.stderr, flush=True)
            continue
        tried += 1
        if spent < limit:
            best[key] = (spent, config)
    return _whole(asked, best, tried, until)


def _of(tokens: int, ready: Sequence[Task]) -> list[tuple[Gemm, Config]]:
    """The tasks that are for so many tokens too, the likeliest first."""
    blocks = candidates.blocks_m(tokens, TOP_K, EXPERTS)
    few = candidates.few(tokens, TOP_K, EXPERTS)
    return sorted(
        (
            (gemm, config)
            for gemm, compiled_for, config in ready
            if config.block_m in blocks and candidates.few(compiled_for, TOP_K, EXPERTS) == few
        ),
        key=lambda each: candidates.surprise(each[1]),
    )


def _whole(
    asked: Layer, best: dict[tuple[Gemm, int, bool], tuple[float, Config]], tried: int, until: float
) -> Row:
    pairs: dict[Pair, float] = {}
    for (gemm, block, _), (spent, down) in best.items():
        if gemm == "down" and ("up", block, False) in best:
            up_spent, up = best["up", block, False]
            pairs[up, down] = up_spent + spent
    finalists: list[Pair] = sorted(pairs, key=lambda pair: pairs[pair])[:_FINALISTS]
    known = candidates.known(asked.tokens)
    own = layer.stock(asked.tokens)
    buffer = torch.empty_like(asked.hidden)
    with layer.configured(asked.tokens, None):
        expected = asked.whole(buffer).clone()
        stock_s = seconds(asked.whole, buffer, math.inf, _LAYER_ROUNDS)
    found: dict[Pair, float] = {}
    for pair in dict.fromkeys([*finalists[:1], known, *finalists[1:]]):
        if found and time.monotonic() > until:
            break
        try:
            with layer.configured(asked.tokens, pair):
                wrong = difference(asked.whole(buffer), expected)
                if not wrong < _ROUNDING:
                    print(f"{asked.tokens} tokens, {_pair(pair)}: wrong by {wrong:.2%}", file=sys.stderr)
                    continue
                found[pair] = seconds(asked.whole, buffer, math.inf, _LAYER_ROUNDS)
        except Exception as error:
            print(f"{asked.tokens} tokens, {_pair(pair)}: {str(error)[:200]}", file=sys.stderr, flush=True)
    with layer.configured(asked.tokens, None):  # again, so that a clock that has changed is not a gain
        stock_s = min(stock_s, seconds(asked.whole, buffer, math.inf, _LAYER_ROUNDS))
    chosen = min(found, key=lambda pair: found[pair], default=own)
    if not found or found[chosen] > _GAIN * stock_s:
        chosen, best_s = own, stock_s
    else:
        best_s = found[chosen]
    up, down = chosen[0], chosen[1] or chosen[0]
    gemm_s = (
        seconds(_gemm(asked, "up", up), asked.hidden, math.inf, _ROUNDS),
        seconds(_gemm(asked, "down", down), asked.hidden, math.inf, _ROUNDS),
    )
    return Row(
        *(asked.tokens, own, stock_s, chosen, best_s, found.get(known, math.nan), gemm_s),
        bytes_moved=asked.bytes_moved,
        tried=tried,
    )


def _gemm(asked: Layer, gemm: Gemm, config: Config) -> Callable[[Tensor], None]:
    return lambda _: asked.gemm(gemm, config)


def seconds(call: Callable[[Tensor], object], buffer: Tensor, hopeless: float, rounds: int) -> float:
    """Of one call: the median; the first measurement where that is hopeless."""
    timed = Timed(call, [buffer])
    spent = [timed.seconds()]
    while len(spent) < rounds and spent[0] < hopeless:
        spent.append(timed.seconds())
    return statistics.median(spent)


def difference(result: Tensor, expected: Tensor) -> float:
    """Relative to the norm; not a number where the result has any that is none."""
    return float((result.float() - expected.float()).norm() / expected.float().norm())


def write(folder: Path, rows: Sequence[Row], peak: float) -> None:
    files.write(folder, EXPERTS, INTERMEDIATE, {row.tokens: row.best for row in rows})
    report = [dict(zip(_HEADS, map(str, cells(row, peak)), strict=True)) for row in rows]
    (folder / "measured.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")


_HEADS = [
    *("tokens", "SGLang's, us", "best, us", "ratio", "0.5.23's file, us", "up, us", "down, us", "MB"),
    *("of the roof before", "after", "tried", "best", "SGLang's"),
]


def cells(row: Row, peak: float) -> list[object]:
    def micro(spent: float) -> str:
        return "" if math.isnan(spent) else f"{spent * 1e6:.0f}"

    return [
        *(row.tokens, micro(row.stock_s), micro(row.best_s), f"{row.stock_s / row.best_s:.2f}"),
        *(micro(row.known_s), *map(micro, row.gemm_s), f"{row.bytes_moved / 1e6:.0f}"),
        *(f"{row.bytes_moved / spent / peak:.0%}" for spent in (row.stock_s, row.best_s)),
        *(row.tried, _pair(row.best), _pair(row.stock)),
    ]


def _pair(pair: Pair) -> str:
    return f"{pair[0]}, {pair[1] or 'the same'}"


def show(rows: Iterable[Row], peak: float) -> None:
    table.show(_HEADS, [cells(row, peak) for row in sorted(rows, key=lambda row: row.tokens)])


if __name__ == "__main__":
    main()
