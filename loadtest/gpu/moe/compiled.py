"""Candidates compiled by many processes at once, into Triton's cache on the disk."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING

from loadtest.gpu.moe.candidates import Config, Gemm

if TYPE_CHECKING:
    from loadtest.gpu.moe.layer import Layer

Task = tuple[Gemm, int, Config]

_layers: dict[int, Layer] = {}


def compiled(tasks: Iterable[Task], processes: int, deadline: float) -> list[Task]:
    """Those that compiled, and ran, by then (time.monotonic). Each process takes 4 GB of the GPU."""
    done: list[Task] = []
    waiting: dict[Future[None], Task] = {}
    failed = 0
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_begin)
    try:
        for task in tasks:
            waiting[pool.submit(_run, *task)] = task
        for future in as_completed(waiting, timeout=max(0.0, deadline - time.monotonic())):
            if error := future.exception():
                failed += 1
                if failed <= 5:
                    print(f"{waiting[future]}: {str(error)[:300]}", file=sys.stderr, flush=True)
            else:
                done.append(waiting[future])
    except (TimeoutError, BrokenExecutor) as error:
        print(f"no more candidates are compiled: {error!r}", file=sys.stderr, flush=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.kill()
            process.join(10)  # its memory on the GPU is free then
    print(f"{len(done)} of {len(waiting)} candidates compiled, {failed} failed", flush=True)
    return done


def _begin() -> None:
    from loadtest.gpu.moe import layer

    layer.prepare()


def _run(gemm: Gemm, tokens: int, config: Config) -> None:
    import torch

    from loadtest.gpu.moe.layer import Layer, Weights

    if tokens not in _layers:
        weights = next(iter(_layers.values())).weights if _layers else Weights()
        _layers[tokens] = Layer(tokens, weights)
    _layers[tokens].gemm(gemm, config)
    torch.cuda.synchronize()
