"""Where the server is."""

from __future__ import annotations

from dllm_stack.bench.problem import Problem


def server_url(text: str) -> str:
    """Without the /v1 that OpenAI's SDKs want.

    Raises:
        Problem
    """
    if not text.startswith(("http://", "https://")):
        raise Problem("--base-url", f"{text!r} does not begin with http:// or https://")
    return text.rstrip("/").removesuffix("/v1")
