"""LangChain, LiteLLM and Vercel's AI SDK on the demo model: a streamed chat, and a tool call."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from loadtest.local_stack import LocalStack
from tests.conformance import programs
from tests.conformance.samples import WEATHER

pytestmark = pytest.mark.skipif(
    "DLLM_TEST_CLIENTS" not in os.environ, reason="make show-clients-of-others installs what it needs"
)

TOKENS = 80
PROGRAMS = ["by_langchain.py", "by_litellm.py", "by_ai_sdk.mjs"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_chat_and_a_tool(
    stack: LocalStack, model: str, program: str, record: Callable[[str], None]
) -> None:
    asked = {
        "base_url": f"{stack.gateway_url}/v1",
        "model": model,
        "question": "Write the number from 1 to 128",
        "max_tokens": TOKENS,
        "tool": WEATHER,
        "tool_question": "What is the weather in Paris?",
        "weather": {"weather": "sunny", "degrees": 21},
    }
    seen = programs.run("others", program, asked)
    assert seen["text"].startswith("1, 2, 3, 4, 5, 6, 7, 8, 9, 10")
    assert seen["pieces"] > 1
    assert (seen["tokens"], seen["finish"]) == (TOKENS, "length")
    assert seen["calls"] == [{"name": "get_weather", "arguments": {"city": "Paris"}}]
    assert seen["call_finish"].replace("-", "_") == "tool_calls"
    assert seen["report"] == "It is sunny in Paris, 21 degrees."
    record(f"{seen['client']}: {TOKENS} tokens in {seen['pieces']} pieces, a tool called and its result told")
