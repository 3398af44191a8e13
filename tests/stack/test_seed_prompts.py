"""The two prompts of the SGLang dLLM announcement, sent by curl to /generate as it sends them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

from loadtest.local_stack import LocalStack

PROMPTS = [
    "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>"
    f"{question}<|role_end|><role>ASSISTANT</role>"
    for question in ("Write the number from 1 to 128", "Write a brief introduction of the great wall")
]


def test_two_texts_stream_block_by_block(
    stack: LocalStack, model: str, record: Callable[[str], None]
) -> None:
    body = {
        "model": model,  # there are two
        "text": PROMPTS,
        "stream": True,
        "sampling_params": {"temperature": 0, "max_new_tokens": 1024},
    }
    command = ["curl", "-sN", f"{stack.gateway_url}/generate", "-H", "Content-Type: application/json"]
    output = subprocess.run(
        [*command, "-d", json.dumps(body)], capture_output=True, text=True, timeout=280, check=True
    ).stdout
    lines = [line for line in output.splitlines() if line.startswith("data:")]
    assert lines[-1] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    for index in (0, 1):
        own = [event for event in events if event["index"] == index]
        lengths = [event["meta_info"]["completion_tokens"] for event in own]
        assert lengths == sorted(lengths)
        assert len(own) > 1
        assert own[-1]["text"].startswith(own[0]["text"])
        assert own[-1]["meta_info"]["finish_reason"]["type"] in ("stop", "length")
        assert all(event["meta_info"]["finish_reason"] is None for event in own[:-1])
        record(f"seed prompt {index + 1}: {lengths[-1]} tokens in {len(own)} events")
