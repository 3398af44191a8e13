"""Server-sent events."""

from __future__ import annotations

from typing import Any

import msgspec

encode_json = msgspec.json.Encoder().encode

DONE = b"data: [DONE]\n\n"

HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # nginx would collect events otherwise
}


def event(payload: Any) -> bytes:
    return b"data: " + encode_json(payload) + b"\n\n"
