"""What is asked, and what must be answered."""

from __future__ import annotations

import json
from functools import cache

import msgspec

from dllm_stack.messages import ChatPrompt
from loadtest.fleet import POOL
from loadtest.simulator.__main__ import CHECKPOINT
from loadtest.simulator.voice import BLOCK, Answer, Voice
from loadtest.versus import connection
from worker.prompt import Renderer

_DONE = b"[DONE]"


@cache
def _renderer() -> Renderer:
    config = json.loads((CHECKPOINT / "config.json").read_text())
    return Renderer.load(str(CHECKPOINT), None, config["vocab_size"])


@cache
def _voice() -> Voice:
    return Voice(CHECKPOINT)


class Chat:
    """A prompt of whole blocks, so that its answer comes in blocks of 32 tokens."""

    def __init__(self, content: str, ids: list[int]) -> None:
        self._content = content
        self._ids = ids

    @classmethod
    async def numbered(cls, number: int) -> Chat:
        content = f"Request {number}:"
        while True:
            ids = await _renderer().render(ChatPrompt([{"role": "user", "content": content}]))
            if len(ids) % BLOCK == 0:
                return cls(content, list(ids))
            content += " a"

    def request(self, blocks: int, *, stream: bool, tenant: str = "peers") -> bytes:
        body = {
            "model": POOL,
            "messages": [{"role": "user", "content": self._content}],
            "max_tokens": blocks * BLOCK,
            "stream": stream,
        }
        content = json.dumps(body).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nhost: peers\r\ncontent-type: application/json\r\n"
            f"x-tenant-id: {tenant}\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        return head.encode() + content

    def answer(self, blocks: int) -> str:
        """That the simulator gives."""
        answer = Answer(_voice(), self._ids)
        for _ in range(blocks):
            answer.extend(BLOCK)
        return answer.text(over=True)


def text(answer: connection.Answer, *, stream: bool) -> str | None:
    """Of a whole answer; None: it is lost, refused or broken off."""
    if not answer.whole or answer.status != 200:
        return None
    if not stream:
        content = msgspec.json.decode(answer.body)["choices"][0]["message"]["content"]
        return content if isinstance(content, str) else None
    pieces, ended = [], False
    for line in answer.body.split(b"\n"):
        event = line.removeprefix(b"data:").strip()
        if event == line.strip() or event == _DONE:
            continue
        document = msgspec.json.decode(event)
        if "error" in document:
            return None
        for choice in document.get("choices", []):
            pieces.append(choice.get("delta", {}).get("content") or "")
            ended |= choice.get("finish_reason") is not None
    return "".join(pieces) if ended else None
