"""One request: sent, read as it comes, timed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import aiohttp
import msgspec

from dllm_stack.bench.asks import Ask
from dllm_stack.bench.endpoints import Answer, Endpoint, Manner, refusal
from dllm_stack.bench.records import INTERRUPTED, Chunk, Record

_DONE = b"[DONE]"
_encode = msgspec.json.encode


class Client:
    """Sends to one server, over connections that it keeps.

    Args:
        url: of the server, without a path.
        began: of the run, by `time.perf_counter()`.
    """

    def __init__(
        self, http: aiohttp.ClientSession, url: str, endpoint: Endpoint, manner: Manner, began: float
    ) -> None:
        self._http = http
        self._url = url + endpoint.path
        self._endpoint = endpoint
        self._manner = manner
        self._began = began

    async def send(self, ask: Ask) -> Record:
        """What became of it; it raises nothing. If it is cancelled, its record says INTERRUPTED."""
        body = _encode(self._endpoint.body(ask, self._manner))
        headers = {"Content-Type": "application/json"} | ask.tenant.headers
        answer = Answer()
        sent = time.perf_counter()
        record = Record(
            number=ask.number,
            tenant=ask.tenant.name,
            model=self._manner.model_of(ask),
            due_s=ask.due_s,
            sent_s=sent - self._began,
            local_prompt_tokens=ask.prompt.tokens,
            asked_tokens=ask.prompt.output_tokens,
            chunks=[],
        )
        try:
            async with self._http.post(self._url, data=body, headers=headers) as response:
                if response.status != 200:
                    code, record.detail = refusal(await response.read())
                    record.error = f"{response.status} {code}".rstrip()
                elif self._manner.stream:
                    await self._read_stream(response, sent, answer, record)
                else:
                    self._endpoint.read(await response.read(), answer)
                    answer.over = True
                    self._note(time.perf_counter() - sent, "", None, answer, record)
        except asyncio.CancelledError:
            record.error = INTERRUPTED
        except TimeoutError:
            record.error = "timeout"
        except (aiohttp.ClientError, OSError) as error:
            record.error, record.detail = type(error).__name__, str(error)
        except msgspec.MsgspecError as error:
            record.error, record.detail = "unreadable answer", str(error)
        self._close(time.perf_counter() - sent, answer, record)
        return record

    async def _read_stream(
        self, response: aiohttp.ClientResponse, sent: float, answer: Answer, record: Record
    ) -> None:
        events = _Events()
        async for data in response.content.iter_any():
            now = time.perf_counter() - sent
            record.latency_s = now
            for event in events.of(data):
                if event == _DONE:
                    answer.over = True
                    continue
                text, tokens = answer.text, answer.tokens
                self._endpoint.read(event, answer)
                self._note(now, text, tokens, answer, record)

    @staticmethod
    def _note(now: float, text: str, tokens: int | None, answer: Answer, record: Record) -> None:
        """Counts the event as a chunk, if it brought tokens; or text, where the server tells no tokens."""
        if answer.tokens is None:
            if len(answer.text) > len(text):
                record.chunks.append(Chunk(now, None))
        elif answer.tokens > (tokens or 0):
            sum_at_the_end = tokens is None and record.chunks
            if not sum_at_the_end:
                record.chunks.append(Chunk(now, answer.tokens - (tokens or 0)))
        record.latency_s = now

    def _close(self, ended: float, answer: Answer, record: Record) -> None:
        record.latency_s = record.latency_s or ended
        record.text, record.finish, record.blocks = answer.text, answer.finish, answer.blocks
        record.prompt_tokens, record.output_tokens = answer.prompt_tokens, answer.tokens
        if record.error is not None:
            return
        if answer.error is not None:
            code, record.detail = answer.error
            record.error = f"stream {code}".rstrip()
        elif not answer.over:
            record.error, record.detail = "stream cut", "the answer ended without [DONE]"


class _Events:
    """The data of server-sent events, out of bytes as they come."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, data: bytes) -> Iterator[bytes]:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()
