"""What a sample is a part of."""

from __future__ import annotations

from collections import Counter

from loadtest.hotpath.sampled import Stack

# The innermost frame counts whose file some rule knows, and of its rules the first: what the standard library
# does belongs to whoever calls it.
CONCERNS = {
    "Redis protocol and connections": ("/redis/", "/dllm_stack/redis", "/dllm_stack/lua.py"),
    "queue messages": ("/dllm_stack/queue/",),
    "metrics": (
        *("/prometheus_client/", "/dllm_stack/histogram.py", "/metrics.py", "/pace.py", "/redis_metrics.py"),
        *("/gateway/record.py", "/gateway/spans.py", "/dllm_stack/tracing/"),
    ),
    "logs": ("/structlog/", "/dllm_stack/log.py"),
    "HTTP parsing and writing": ("/uvicorn/", "/gateway/http/connection.py", "/gateway/http/channel.py"),
    "HTTP routing and middleware": ("/starlette/", "/fastapi/", "/gateway/http/", "/gateway/access.py"),
    "HTTP to the engine": ("/worker/engine/",),
    "validation": ("/pydantic", "/gateway/fields/", "/gateway/chat/prompt.py", "/protocol.py"),
    "rendering": ("/rendering.py", "/message.py", "/gateway/http/sse.py", "/gateway/tools/", "/usage.py"),
    "template, tokens and text": (
        *("/jinja2/", "/transformers/", "/worker/prompt.py", "<template>"),
        *("/worker/text.py", "/worker/transcript.py"),
    ),
    "the request's own course": ("/gateway/", "/worker/", "/router/", "/dllm_stack/"),
    "asyncio": ("/asyncio/",),
}
ELSE = "else"


def concern_of(stack: Stack) -> str:
    for file, _ in stack:
        for concern, parts in CONCERNS.items():
            if any(part in file for part in parts):
                return concern
    return ELSE


def by_concern(samples: list[tuple[Stack, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for stack, count in samples:
        found[concern_of(stack)] += count
    return found


def by_function(samples: list[tuple[Stack, int]]) -> Counter[str]:
    """Of what a function does itself."""
    found: Counter[str] = Counter()
    for stack, count in samples:
        found[_named(stack[0])] += count
    return found


def with_callees(samples: list[tuple[Stack, int]]) -> Counter[str]:
    """Of what a function does, and what it calls."""
    found: Counter[str] = Counter()
    for stack, count in samples:
        for name in {_named(frame) for frame in stack}:
            found[name] += count
    return found


def _named(frame: tuple[str, str]) -> str:
    file, function = frame
    return f"{'/'.join(file.split('/')[-2:])}:{function}"
