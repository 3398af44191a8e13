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
{header}\
  -d '{{"model": "{model}", "stream": true, \
"messages": [{{"role": "user", "content": "{question}"}}]}}'

or with the OpenAI SDK:

{python} - <<'PY'
from openai import OpenAI

client = OpenAI(base_url="{url}/v1"{argument})
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


_HEADER = """\
  -H "Authorization: Bearer {key}" \\
"""
KEY_IN_ENVIRONMENT = "$OPENAI_API_KEY"  # where the SDK looks by itself


def snippets(url: str, model: str, key: str | None) -> str:
    """Both work as they are pasted into a shell in the current folder.

    Args:
        key: an API key, or KEY_IN_ENVIRONMENT; None: none is needed.
    """
    header = "" if key is None else _HEADER.format(key=key)
    argument = "" if key == KEY_IN_ENVIRONMENT else f', api_key="{key or "none"}"'
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    parts = {"header": header, "argument": argument, "python": python}
    return _SNIPPETS.format(url=url, model=model, question=QUESTION, **parts)


async def first_answer(url: str, model: str, key: str | None) -> dict[str, Any]:
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
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with (
        aiohttp.ClientSession(headers=headers, timeout=timeout, raise_for_status=True) as session,
        session.post(f"{url}/v1/chat/completions", json=request) as response,
    ):
        answer: dict[str, Any] = await response.json()
        return answer
