"""The seed prompt "Write the number from 1 to 128", streamed by the OpenAI SDK: `python -m loadtest.count`.

Checks the numbers, and prints how long they took. Exit status 1 says that they were wrong or late.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass

from openai import AsyncOpenAI

from dllm_stack.local.greeting import QUESTION
from loadtest.local_stack import LocalStack

NUMBERS = ", ".join(map(str, range(1, 129)))
_TARGET_S = 10.0  # on two cores


@dataclass(frozen=True)
class Count:
    """
    Attributes:
        seconds: from the request to the end of the answer.
        ttft_s: from the request to the first block.
        tokens: the end token included.
    """

    text: str
    seconds: float
    ttft_s: float
    blocks: int
    tokens: int
    forwards: int

    def __str__(self) -> str:
        return (
            f"{self.tokens} tokens in {self.blocks} blocks after {self.seconds:.2f} s, the first after "
            f"{self.ttft_s:.2f} s: {self.tokens / self.seconds:.0f} tokens/s, {self.forwards} forwards, "
            f"{self.tokens / self.forwards:.1f} tokens a forward"
        )


async def count(stack: LocalStack, *, show: bool = False) -> Count:
    """Streams the answer.

    Args:
        show: print each block as it comes.
    """
    async with AsyncOpenAI(base_url=f"{stack.gateway_url}/v1", api_key="none") as client:
        model = (await client.models.list()).data[0].id
        began = time.perf_counter()
        stream = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": QUESTION}],
            stream=True,
            extra_body={"dllm": {"stats": True}},
        )
        pieces: list[str] = []
        ttft_s = seconds = 0.0
        async for chunk in stream:
            if piece := chunk.choices[0].delta.content:
                seconds = time.perf_counter() - began
                ttft_s = ttft_s or seconds
                pieces.append(piece)
                if show:
                    print(piece, end="", flush=True)
    cost: dict[str, int] = chunk.dllm  # type: ignore[attr-defined]  # not OpenAI's
    return Count("".join(pieces), seconds, ttft_s, len(pieces), cost["tokens"], cost["forwards"])


def main() -> None:
    with LocalStack() as stack:
        print(f"The stack's first answer came {stack.start_s:.1f} s after its start.\n\n> {QUESTION}")
        counted = asyncio.run(count(stack, show=True))
    print(f"\n\n{counted}")
    right, in_time = counted.text == NUMBERS, counted.seconds < _TARGET_S
    print("The numbers are right." if right else f"The numbers are wrong: it should be\n{NUMBERS}")
    if not in_time:
        print(f"It took more than {_TARGET_S:.0f} s.")
    sys.exit(not (right and in_time))


if __name__ == "__main__":
    main()
