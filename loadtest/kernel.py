"""The read of the logits on a GPU, against torch and the memory: `python -m loadtest.kernel`.

For each number of rows and type of logits: the time of a call on the GPU (replays of a CUDA graph that
reads several buffers in turn, so that no call finds its logits in the cache; median of the rounds, in
which the sides alternate), the bytes that must be read, and what share of the measured memory bandwidth
that is. Before it, how the results differ from float64's, and which division of the rows is the fastest.
Needs torch and Triton alone. Without a GPU it compares the interpreted kernel with torch and times nothing.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from worker.dllm.evidence import Draw, noise, torch_path

VOCABULARY = 157184  # LLaDA2's
MASK_ID = 156895
ROWS = (32, 1024, 3200)
DATA_SHEET_TB_S = 4.8  # H200: https://www.nvidia.com/en-us/data-center/h200/
CACHE_BYTES = 256 * 2**20  # several times the H200's L2 of 60 MB

Call = Callable[[Tensor], Any]


def argmax_softmax_gather(logits: Tensor) -> tuple[Tensor, Tensor]:
    """What SGLang's LowConfidence does."""
    token = torch.argmax(logits, dim=-1)
    probability = torch.nn.functional.softmax(logits, dim=-1)
    return token, torch.gather(probability, -1, token[:, None]).squeeze(-1)


class Timed:
    """One call over several buffers in turn, captured once; `seconds` is the time of one call."""

    def __init__(self, call: Call, buffers: list[Tensor]) -> None:
        self._call, self._buffers = call, buffers
        self._calls = max(len(buffers), 8)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                call(buffers[0])
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._run()

    def _run(self) -> None:
        for number in range(self._calls):
            self._call(self._buffers[number % len(self._buffers)])

    def seconds(self) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._graph.replay()
        begin.record()
        self._graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000 / self._calls

    def host_seconds(self) -> float:
        """Of Python alone, to start one call."""
        torch.cuda.synchronize()
        begin = time.perf_counter()
        self._run()
        spent = time.perf_counter() - begin
        torch.cuda.synchronize()
        return spent / self._calls


def medians(sides: dict[str, Timed], rounds: int) -> dict[str, float]:
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        order = list(sides)
        for name in order if number % 2 else reversed(order):
            spent[name].append(sides[name].seconds())
    return {name: statistics.median(values) for name, values in spent.items()}


def logits_like(rows: int, dtype: torch.dtype, device: str, vocabulary: int = VOCABULARY) -> Tensor:
    """Normal noise with a few likely tokens in each row, as a model's are."""
    logits = torch.randn(rows, vocabulary, device=device, dtype=torch.float32).mul_(2.5)
    likely = torch.randint(vocabulary, (rows, 4), device=device)
    return logits.scatter_add_(1, likely, 16 * torch.rand(rows, 4, device=device)).to(dtype)


def draw_like(rows: int, device: str) -> Draw:
    return Draw(
        temperature=torch.full((rows,), 0.8, device=device),
        floor=torch.full((rows,), -torch.inf, device=device),
        seed=noise.position_seeds(
            torch.full((1,), 7, device=device), torch.arange(rows, device=device)[None]
        ),
    )


def penalty_like(rows: int, vocabulary: int, device: str) -> dict[str, Tensor]:
    return {
        "penalised": torch.randint(-1, vocabulary, (rows,), device=device),
        "penalty": torch.full((rows,), 2.0, device=device),
    }


def roof(rounds: int) -> float:
    """Bytes a second: the better of a copy (read and written) and a sum (read) of 4 GiB."""
    source = torch.randn(2**30, device="cuda")
    target = torch.empty_like(source)
    sides = {
        "copy": Timed(target.copy_, [source]),
        "sum": Timed(lambda values: values.view(2**14, -1).sum(1), [source]),
    }
    spent = medians(sides, rounds)
    speeds = {"copy": 2 * source.nbytes / spent["copy"], "sum": source.nbytes / spent["sum"]}
    print("memory: " + ", ".join(f"{name} {speed / 1e12:.2f} TB/s" for name, speed in speeds.items()))
    print(f"roof: the faster; the data sheet of the H200 says {DATA_SHEET_TB_S} TB/s")
    return float(max(speeds.values()))


def buffers_of(rows: int, dtype: torch.dtype) -> list[Tensor]:
    first = logits_like(rows, dtype, "cuda")
    return [first, *(first.roll(n, 1) for n in range(1, 1 + -(-CACHE_BYTES // first.nbytes)))]


def compare(rows: int, dtype: torch.dtype, peak: float, rounds: int, tuned: Any) -> None:
    """Prints a line for each side. tuned: the `Shape` that `sweep` found, or none."""
    from worker.dllm.evidence import triton_path

    buffers = buffers_of(rows, dtype)
    draw, penalty = draw_like(rows, "cuda"), penalty_like(rows, VOCABULARY, "cuda")
    calls: dict[str, Call] = {
        "ours": lambda logits: triton_path.read(logits, mask_id=MASK_ID),
        "ours, penalty": lambda logits: triton_path.read(logits, mask_id=MASK_ID, **penalty),
        "ours, drawn": lambda logits: triton_path.read(logits, mask_id=MASK_ID, draw=draw),
        "torch": argmax_softmax_gather,
        "torch.compile": torch.compile(argmax_softmax_gather, dynamic=False),
    }
    if tuned is not None:
        calls["ours, tuned"] = lambda logits: triton_path.read(logits, mask_id=MASK_ID, shape=tuned)
    sides: dict[str, Timed] = {}
    for name, call in calls.items():
        try:
            sides[name] = Timed(call, buffers)
        except Exception as error:
            if name != "torch.compile":
                raise
            print(f"torch.compile does not work here: {type(error).__name__}: {str(error)[:200]}")
    needed = buffers[0].nbytes
    spent = medians(sides, rounds)
    for name, seconds in spent.items():
        speed = needed / seconds
        print(
            f"{rows:5} rows {str(dtype)[6:]:8} {name:14} {seconds * 1e6:9.1f} us  {needed / 1e6:7.1f} MB"
            f"  {speed / 1e12:5.2f} TB/s  {speed / peak:6.1%} of the roof  x{spent['torch'] / seconds:5.2f}"
            f"  host {sides[name].host_seconds() * 1e6:6.1f} us"
        )


def check(rows: int, dtype: torch.dtype, device: str, vocabulary: int, mask_id: int) -> None:
    """Against float64, 256 rows at a time; wrong tokens end the run."""
    from worker.dllm.evidence import triton_path

    logits = logits_like(rows, dtype, device, vocabulary)
    ours, _ = triton_path.read(logits, mask_id=mask_id)
    wrong, ours_off, torch_off, entropy_off = 0, 0.0, 0.0, 0.0
    for start in range(0, rows, 256):
        part = slice(start, min(start + 256, rows))
        exact = logits[part].double()
        probability = exact.softmax(1)
        entropy = -(probability * exact.log_softmax(1)).sum(1)
        exact[:, mask_id] = -torch.inf
        token = exact.argmax(1, keepdim=True)
        expected = probability.gather(1, token).squeeze(1)
        theirs = logits[part].softmax(1).gather(1, token).squeeze(1)
        wrong += int((ours.token[part] != token.squeeze(1)).sum())
        ours_off = max(ours_off, float((ours.probability[part] - expected).abs().max()))
        torch_off = max(torch_off, float((theirs - expected).abs().max()))
        entropy_off = max(entropy_off, float((ours.entropy[part] - entropy).abs().max()))
    print(
        f"{rows:5} rows {str(dtype)[6:]:8} tokens that differ from float64: {wrong};  probability off by at"
        f" most {ours_off:.1e} (torch's softmax {torch_off:.1e}), entropy {entropy_off:.1e}"
    )
    if wrong or ours_off > 1e-5 or entropy_off > 1e-4:
        raise SystemExit("the kernel's results are wrong")

    few = min(rows, 64)
    draw, penalty = draw_like(few, device), penalty_like(few, vocabulary, device)
    for name, options in {"penalty": penalty, "drawn": {"draw": draw}}.items():
        got, _ = triton_path.read(logits[:few], mask_id=mask_id, **options)
        expected, _ = torch_path.read(logits[:few], mask_id=mask_id, **options)
        same = int((got.token == expected.token).sum())
        off = float((got.probability - expected.probability).abs()[got.token == expected.token].max())
        print(f"      {name}: {same} of {few} tokens as torch's, probability off by at most {off:.1e}")
        if same < few - (name == "drawn"):  # two drawn tokens may be equal but for a logarithm's last bit
            raise SystemExit("the kernel's results are wrong")
    mixed = draw_like(rows, device)
    mixed.temperature[::2] = 0
    beside, _ = triton_path.read(logits, mask_id=mask_id, draw=mixed)
    alone, _ = triton_path.read(logits[:1], mask_id=mask_id)
    same_bits = all(
        bool((getattr(one, name)[rows_of] == getattr(ours, name)[rows_of]).all())
        for one, rows_of in ((alone, slice(0, 1)), (beside, slice(0, rows, 2)))
        for name in ("token", "probability", "entropy", "normalizer")
    )
    print(f"      a row alone and beside drawn rows: {'the same bits' if same_bits else 'OTHER BITS'}")


def sweep(dtype: torch.dtype, peak: float, rounds: int) -> Any:
    """Prints the share of the roof of each `Shape`, and gives the one that is best where it is worst."""
    from worker.dllm.evidence import triton_path

    def timed(shape: triton_path.Shape, buffers: list[Tensor]) -> Timed:
        return Timed(lambda logits: triton_path.read(logits, mask_id=MASK_ID, shape=shape), buffers)

    width = torch.empty((), dtype=dtype).element_size()
    shapes = [
        triton_path.Shape(chunk, tile, warps)
        for chunk, tile, warps in itertools.product(
            (4096, 8192, 16384, 32768), (1024, 2048, 4096, 8192), (2, 4, 8)
        )
        if tile <= chunk and 32 <= tile // (32 * warps) * width <= 128  # bytes of a thread at once
    ]
    shares: dict[triton_path.Shape, dict[int, float]] = {shape: {} for shape in shapes}
    for rows in ROWS:
        buffers = buffers_of(rows, dtype)
        sides = {shape: timed(shape, buffers) for shape in shapes}
        for shape, side in sides.items():
            seconds = statistics.median(side.seconds() for _ in range(rounds))
            shares[shape][rows] = buffers[0].nbytes / seconds / peak
        share, best = max(((shares[shape][rows], shape) for shape in shapes), key=lambda pair: pair[0])
        print(f"{str(dtype)[6:]:8} best at {rows:4} rows: {share:6.1%} {best}")
    # 32 rows are all but over before the memory is at full speed: they decide nothing.
    ranked = sorted(shapes, key=lambda shape: -min(shares[shape][rows] for rows in ROWS[1:]))
    for shape in ranked[:8]:
        figures = "  ".join(f"{rows}: {shares[shape][rows]:6.1%}" for rows in ROWS)
        print(f"{str(dtype)[6:]:8} {figures}  {shape}")
    return ranked[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="of which the median is printed")
    parser.add_argument("--no-sweep", action="store_true", help="leave out the search for a faster division")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    types = (torch.float32, torch.bfloat16)
    if not torch.cuda.is_available():
        print("No GPU here: the kernel runs in Triton's interpreter, on small shapes, and nothing is timed.")
        os.environ["TRITON_INTERPRET"] = "1"  # read when the kernel is imported, which is below
        for dtype in types:
            check(3, dtype, "cpu", 20000, 19999)
        return
    import triton  # type: ignore[import-untyped]

    properties = torch.cuda.get_device_properties(0)
    print(f"{properties.name}, {properties.multi_processor_count} SMs, torch {torch.__version__}", end=", ")
    print(f"Triton {triton.__version__}, vocabulary {VOCABULARY}, {arguments.rounds} rounds")
    peak = roof(arguments.rounds)
    for dtype, rows in itertools.product(types, ROWS):
        check(rows, dtype, "cuda", VOCABULARY, MASK_ID)
    tuned = {} if arguments.no_sweep else {t: sweep(t, peak, max(3, arguments.rounds // 4)) for t in types}
    for dtype, rows in itertools.product(types, ROWS):
        compare(rows, dtype, peak, arguments.rounds, tuned.get(dtype))


if __name__ == "__main__":
    main()
