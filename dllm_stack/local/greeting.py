"""What `up` prints once the stack answers: two ways to call it, and the answer to a first request."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import aiohttp

QUESTION = "Write the number from 1 to 128"
_MAX_TOKENS = 512  # of the first answer; the demo model takes 404

_SNIPPETS = """\
Ask it with curl:

curl -N {url}/v1/chat/completions \\
  -H 'Content-Type: application/json' \\
  -d '{{"model": "{model}", "stream": true, \
"messages": [{{"role": "user", "content": "{question}"}}]}}'

or with the OpenAI SDK:

{python} - <<'PY'
from openai import OpenAI

client = OpenAI(base_url="{url}/v1", api_key="none")
stream = client.chat.completions.create(
    model="{model}",
    messages=[{{"role": "user", "content": "{question}"}}],
    stream=True,
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
PY
"""


def snippets(url: str, model: str) -> str:
    """Both work as they are pasted into a shell in the current folder."""
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    return _SNIPPETS.format(url=url, model=model, question=QUESTION, python=python)


async def first_answer(url: str, model: str) -> dict[str, Any]:
    """The body of a first chat completion.

    Raises:
        aiohttp.ClientError: when the stack does not answer, or answers with an error.
    """
    request = {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": _MAX_TOKENS,
    }
    timeout = aiohttp.ClientTimeout(total=120)
    async with (
        aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session,
        session.post(f"{url}/v1/chat/completions", json=request) as response,
    ):
        answer: dict[str, Any] = await response.json()
        return answer
