"""A hook on SGLang, and the certainty that it landed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sglang.srt.plugins.hook_registry import HookRegistry, HookType


@dataclass(frozen=True)
class Hook:
    target: str  # dotted path of a function or method
    function: Callable[..., Any]
    type: HookType


def install(hooks: Sequence[Hook], dispensable: Sequence[Hook] = ()) -> None:
    """Hands the hooks to SGLang, which applies them once all plugins have registered theirs.

    SGLang only logs a hook that it could not apply. Half an extension decodes wrong tokens or hangs, so
    then the process exits instead, with the target's name.

    Args:
        dispensable: hooks whose owner looks itself whether they landed, and does without. On a shared
            target they are the inner ones: one that does not call the original skips none of `hooks`.
    """
    for hook in (*dispensable, *hooks):
        HookRegistry.register(hook.target, hook.function, hook.type)
    apply = HookRegistry.apply_hooks

    def apply_or_exit() -> None:
        apply()
        missing = [hook.target for hook in hooks if hook.target not in HookRegistry._patched]
        if missing:
            raise SystemExit(f"dllm-stack: this SGLang has no place for the hooks on {', '.join(missing)}")

    HookRegistry.apply_hooks = apply_or_exit
