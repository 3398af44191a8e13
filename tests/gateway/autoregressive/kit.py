"""What tests of requests to an autoregressive model share."""

from __future__ import annotations

import asyncio
from typing import Any

from dllm_stack.capabilities import Capability
from dllm_stack.messages import (
    Decoding,
)
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served

Ask = dict[str, Any]
CHAT: Ask = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
COMPLETION: Ask = {"model": "tiny", "prompt": "Hi"}
GENERATE: Ask = {"model": "tiny", "text": "Hi"}
INVALID, UNSUPPORTED, MISSING = "invalid_value", "unsupported_parameter", "missing_required_parameter"
ALL = [str(each) for each in Capability]


async def told(served: Served, worker: FakeWorker, path: str, body: Ask) -> Decoding:
    """What the worker is told of a request's decoding."""
    request = asyncio.create_task(served.http.post(path, json=body))
    run = await worker.claimed()
    await run.finish()
    response = await request
    assert response.status_code == 200, response.text
    return run.job.decoding


async def refused(served: Served, path: str, body: Ask) -> tuple[int, str | None, str]:
    """Status, param and code."""
    response = await served.http.post(path, json=body)
    error = response.json()["error"]
    return response.status_code, error["param"], error["code"]
