"""The benchmark's entry point in SGLang's plugin group."""

from __future__ import annotations

import os

# What the engine's environment says to it.
FOLDER = "GPU_BENCHMARK_FOLDER"
EXTENSION = "GPU_BENCHMARK_EXTENSION"
DETERMINISTIC = "GPU_BENCHMARK_DETERMINISTIC"


def register() -> None:
    from pathlib import Path

    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from loadtest.gpu.hooks import random_weights
    from loadtest.gpu.hooks.rounds import Recorder

    for target in random_weights.TARGETS:
        HookRegistry.register(target, random_weights.fill, HookType.REPLACE)
    recorder = Recorder(Path(os.environ[FOLDER]))
    run = "worker.dllm.per_request.PerRequest.run" if EXTENSION in os.environ else _STOCK_RUN
    HookRegistry.register(run, recorder.around_run, HookType.AROUND)
    HookRegistry.register(_FORWARD, recorder.around_forward, HookType.AROUND)
    if DETERMINISTIC in os.environ:
        HookRegistry.register(_ALIGNMENT, _no_alignment, HookType.AFTER)


_STOCK_RUN = "sglang.srt.dllm.algorithm.base.DllmAlgorithm.run"
_FORWARD = "sglang.srt.model_executor.model_runner.ModelRunner.forward"
_ALIGNMENT = "sglang.srt.managers.scheduler.Scheduler.init_deterministic_inference_config"


def _no_alignment(_: None, scheduler: object) -> None:
    """AFTER hook. Deterministic inference aligns where prompts are cut, in a path that block decoding never
    takes; SGLang's scheduler dies on the alignment at its first request for a diffusion language model."""
    scheduler.truncation_align_size = None  # type: ignore[attr-defined]
