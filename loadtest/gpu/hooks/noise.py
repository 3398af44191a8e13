"""An entry point in SGLang's plugin group for an engine whose weights are noise, and nothing else."""

from __future__ import annotations


def register() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from loadtest.gpu.hooks import random_weights

    for target in random_weights.TARGETS:
        HookRegistry.register(target, random_weights.fill, HookType.REPLACE)
