"""Where the server is."""

from __future__ import annotations

from urllib.parse import urlsplit

from dllm_stack.bench.problem import Problem


def server_url(text: str) -> str:
    """Without the /v1 that OpenAI's SDKs want.

    Raises:
        Problem
    """
    if not text.startswith(("http://", "https://")):
        raise Problem("--base-url", f"{text!r} does not begin with http:// or https://")
    try:
        found = urlsplit(text)
        if not found.hostname or found.port == 0:
            raise ValueError
    except ValueError:  # of a port that is no number, or too large a one
        raise Problem("--base-url", f"{text!r} has no host, or a port that there is not") from None
    return text.rstrip("/").removesuffix("/v1")
