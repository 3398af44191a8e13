"""A streamed chat and a tool call by LiteLLM's client: `by_litellm.py <asked.json >seen.json`."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a list of prices
import litellm

asked = json.load(sys.stdin)
how: dict[str, Any] = {
    "model": f"openai/{asked['model']}",
    "api_base": asked["base_url"],
    "api_key": "none",
    "num_retries": 0,
}
question = [{"role": "user", "content": asked["question"]}]
chunks = list(
    litellm.completion(
        messages=question,
        max_tokens=asked["max_tokens"],
        stream=True,
        stream_options={"include_usage": True},
        **how,
    )
)
whole: Any = litellm.stream_chunk_builder(chunks, messages=question)

messages: list[Any] = [{"role": "user", "content": asked["tool_question"]}]
told = litellm.completion(messages=messages, tools=[asked["tool"]], stream=True, **how)
called: Any = litellm.stream_chunk_builder(list(told), messages=messages)
calls = called.choices[0].message.tool_calls or []
messages.append(called.choices[0].message.model_dump(exclude_none=True))
for call in calls:
    content = json.dumps(asked["weather"])
    messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
report: Any = litellm.completion(messages=messages, tools=[asked["tool"]], **how)

json.dump(
    {
        "client": f"litellm {version('litellm')}",
        "text": whole.choices[0].message.content,
        "pieces": sum(bool(chunk.choices and chunk.choices[0].delta.content) for chunk in chunks),
        "tokens": whole.usage.completion_tokens,
        "finish": whole.choices[0].finish_reason,
        "calls": [
            {"name": call.function.name, "arguments": json.loads(call.function.arguments)} for call in calls
        ],
        "call_finish": called.choices[0].finish_reason,
        "report": report.choices[0].message.content,
    },
    sys.stdout,
)
