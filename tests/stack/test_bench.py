"""`dllm-stack bench` against the real engine: what it says of blocks is what the engine did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dllm_stack.bench import plan, session
from dllm_stack.bench.endpoints import CHAT, COMPLETIONS, GENERATE, Endpoint
from dllm_stack.bench.plan import Options
from dllm_stack.bench.session import Setup
from loadtest.local_stack import LocalStack

PROMPTS, TOKENS = 4, 48


@pytest.mark.parametrize("endpoint", [CHAT, COMPLETIONS, GENERATE], ids=lambda endpoint: str(endpoint.name))
async def test_blocks_are_told(
    stack: LocalStack, model: str, endpoint: Endpoint, record: Callable[[str], None]
) -> None:
    asked: dict[str, Any] = {"random_input_len": 40, "random_output_len": TOKENS, "random_range_ratio": 1.0}
    setup = Setup(
        base_url=stack.gateway_url,
        endpoint=endpoint,
        model=f"{model}:speed",
        stream=True,
        ignore_eos=True,
        stats=None,
        extra={},
        concurrency=2,
        warm_up=1,
        timeout_s=100.0,
        progress=False,
    )
    options = Options(tokenizer=Path(stack.checkpoint), num_prompts=PROMPTS, **asked)
    found = (await session.run(options, plan.make(options), setup, Console())).figures
    assert (found.completed, found.output_tokens) == (PROMPTS, PROMPTS * TOKENS)
    assert (found.uncounted, found.unnumbered) == (0, 0)
    blocks = found.blocks
    assert blocks.chunk_tokens is not None
    assert blocks.blocks is not None
    assert blocks.forwards is not None
    assert blocks.tokens_per_forward == pytest.approx(PROMPTS * TOKENS / blocks.forwards)
    # A block without text, such as one of end tokens, has no event of its own.
    assert blocks.blocks >= blocks.chunk_tokens.count >= PROMPTS
    assert blocks.blocks >= PROMPTS * 2
    record(
        f"dllm-stack bench --backend {endpoint.name}: {found.output_rate:.0f} tok/s, {blocks.blocks} blocks, "
        f"{blocks.tokens_per_forward:.1f} tokens a forward"
    )
