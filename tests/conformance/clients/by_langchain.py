"""A streamed chat and a tool call by LangChain's ChatOpenAI: `by_langchain.py <asked.json >seen.json`."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

asked = json.load(sys.stdin)


@tool  # type: ignore[untyped-decorator]
def get_weather(city: str) -> str:
    """The weather in a city"""
    return json.dumps(asked["weather"])


model = ChatOpenAI(
    base_url=asked["base_url"], api_key="none", model=asked["model"], stream_usage=True, max_retries=0
)
whole: Any = None
pieces = 0
for chunk in model.stream(asked["question"], max_tokens=asked["max_tokens"]):
    whole = chunk if whole is None else whole + chunk
    pieces += bool(chunk.content)

messages: list[Any] = [HumanMessage(asked["tool_question"])]
with_tools = model.bind_tools([get_weather])
called: Any = None
for chunk in with_tools.stream(messages):
    called = chunk if called is None else called + chunk
messages.append(called)
for call in called.tool_calls:
    messages.append(ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"]))
report = with_tools.invoke(messages)

json.dump(
    {
        "client": f"langchain-openai {version('langchain-openai')}",
        "text": whole.content,
        "pieces": pieces,
        "tokens": whole.usage_metadata["output_tokens"],
        "finish": whole.response_metadata["finish_reason"],
        "calls": [{"name": call["name"], "arguments": call["args"]} for call in called.tool_calls],
        "call_finish": called.response_metadata["finish_reason"],
        "report": report.content,
    },
    sys.stdout,
)
