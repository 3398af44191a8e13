"""The entry point in SGLang's plugin group, called early in each of its processes."""

from __future__ import annotations


def register() -> None:
    """Registers our algorithm and our hooks.

    Raises:
        SystemExit: one of them cannot be registered. SGLang logs any other exception and goes on.
    """
    try:
        # Imported here: a failing import of this module would only be logged too.
        from worker.dllm.hook import install
        from worker.dllm.hooks import add_algorithm, dispensable_hooks, hooks

        add_algorithm()
        install(hooks(), dispensable_hooks())
    except Exception as error:
        raise SystemExit(f"dllm-stack: the extension of SGLang failed: {error!r}") from error
