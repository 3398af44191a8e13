"""The simulator's HTTP: SGLang's, as far as workers and routers use it, and OpenAI's chat."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from dllm_stack.messages import ChatPrompt, Prompt, TextPrompt, TokenPrompt
from dllm_stack.outcomes import RequestError
from loadtest.simulator.engine import Progress, SimulatedEngine
from worker.prompt import Renderer

NAME = "simulator"
_KEPT_BACK = 8  # tokens of the context that no prompt may have, about as in SGLang
_DEFAULT_MAX_TOKENS = 128
_encode = msgspec.json.encode


class _Sampling(msgspec.Struct):
    max_new_tokens: int = _DEFAULT_MAX_TOKENS
    stop: list[str] = []
    stop_token_ids: list[int] = []


class _Generate(msgspec.Struct):
    rid: str | None = None
    input_ids: list[int] | None = None
    text: str | None = None
    stream: bool = False
    sampling_params: _Sampling = msgspec.field(default_factory=_Sampling)


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Chat(msgspec.Struct):
    messages: list[dict[str, Any]]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None


class _Abort(msgspec.Struct):
    rid: str


class _Refusal(Exception):
    pass


class Server:
    """An ASGI application.

    Args:
        context: tokens, prompt and answer together.
        shared_by: workers that are attached to it; each is told of its share of the slots.
    """

    def __init__(self, engine: SimulatedEngine, renderer: Renderer, context: int, shared_by: int = 1) -> None:
        self._engine = engine
        self._shared_by = shared_by
        self._renderer = renderer
        self._context = context
        self._documents: dict[str, Callable[[], object]] = {
            "/health": dict,
            "/health_generate": dict,
            "/model_info": self._model,
            "/get_model_info": self._model,
            "/server_info": self._info,
            "/get_server_info": self._info,
            "/v1/models": self._models,
            "/v1/loads": lambda: {"loads": [self._load()]},
            "/get_load": lambda: [self._load()],
            "/totals": self._totals,
        }
        self._actions: dict[str, Callable[[bytes, _Exchange], Awaitable[None]]] = {
            "/generate": self._generate,
            "/v1/chat/completions": self._chat,
            "/abort_request": self._abort,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(receive, send)
        path, method = scope["path"], scope["method"]
        if method == "GET" and path in self._documents:
            await exchange.answer(self._documents[path]())
        elif method == "POST" and path in self._actions:
            try:
                await self._actions[path](await exchange.body(), exchange)
            except (_Refusal, RequestError, msgspec.MsgspecError) as error:
                await exchange.answer({"error": {"message": str(error)}}, status=400)
        else:
            await exchange.answer({"error": {"message": f"The {NAME} has no {method} {path}."}}, status=404)

    def _model(self) -> object:
        return {"model_path": NAME, "tokenizer_path": NAME, "is_generation": True}

    def _models(self) -> object:
        return {"object": "list", "data": [{"id": NAME, "object": "model", "max_model_len": self._context}]}

    def _info(self) -> object:
        slots = self._engine.pace.slots // self._shared_by
        return {
            "model_path": NAME,
            "served_model_name": NAME,
            "version": NAME,
            "tp_size": 1,
            "dp_size": 1,
            "dllm_algorithm": "LowConfidence",
            "attention_backend": "torch_native",
            "max_running_requests": slots,
            "max_req_input_len": self._context - _KEPT_BACK,
            "max_total_num_tokens": slots * self._context,
            "internal_states": [{"effective_max_running_requests_per_dp": slots}],
        }

    def _load(self) -> dict[str, int]:
        running, waiting = self._engine.running, self._engine.waiting
        return {
            "dp_rank": 0,
            "num_running_reqs": running,
            "num_waiting_reqs": waiting,
            "num_reqs": running + waiting,
            "num_tokens": 0,
        }

    def _totals(self) -> object:
        return {"slots": self._engine.pace.slots, **msgspec.to_builtins(self._engine.totals())}

    async def _abort(self, body: bytes, exchange: _Exchange) -> None:
        self._engine.abort(msgspec.json.decode(body, type=_Abort).rid)
        await exchange.answer({})

    async def _generate(self, body: bytes, exchange: _Exchange) -> None:
        asked = msgspec.json.decode(body, type=_Generate)
        sampling = asked.sampling_params
        if any(sampling.stop) or sampling.stop_token_ids:
            raise _Refusal(f"The {NAME} knows no stops.")
        prompt: Prompt = TextPrompt(asked.text) if asked.text else TokenPrompt(asked.input_ids or [])
        ids = await self._renderer.render(prompt)
        rid = asked.rid or uuid.uuid4().hex

        def shown(progress: Progress) -> dict[str, object]:
            answer, finish = progress.answer, progress.finish
            reason = {
                None: None,
                "length": {"type": "length", "length": len(answer.ids)},
                "abort": {"type": "abort", "message": "Aborted"},
            }[finish]
            meta = {
                "id": rid,
                "finish_reason": reason,
                "prompt_tokens": len(ids),
                "completion_tokens": len(answer.ids),
                "cached_tokens": 0,
            }
            return {"text": answer.text(over=finish is not None), "output_ids": answer.ids, "meta_info": meta}

        await self._run(rid, ids, sampling.max_new_tokens, asked.stream, exchange, shown, shown)

    async def _chat(self, body: bytes, exchange: _Exchange) -> None:
        asked = msgspec.json.decode(body, type=_Chat)
        ids = await self._renderer.render(ChatPrompt(asked.messages))
        rid, created, sent = uuid.uuid4().hex, int(time.time()), 0

        def usage(progress: Progress) -> dict[str, int]:
            tokens = len(progress.answer.ids)
            return {
                "prompt_tokens": len(ids),
                "completion_tokens": tokens,
                "total_tokens": len(ids) + tokens,
            }

        def chunk(progress: Progress) -> dict[str, object]:
            nonlocal sent
            text = progress.answer.text(over=progress.finish is not None)
            delta, sent = {"role": "assistant", "content": text[sent:]}, len(text)
            choice = {"index": 0, "delta": delta, "finish_reason": progress.finish}
            head = {"id": rid, "object": "chat.completion.chunk", "created": created, "model": NAME}
            options = asked.stream_options
            shown = (
                {"usage": usage(progress)} if progress.finish and options and options.include_usage else {}
            )
            return head | {"choices": [choice]} | shown

        def document(progress: Progress) -> dict[str, object]:
            message = {"role": "assistant", "content": progress.answer.text(over=True)}
            choice = {"index": 0, "message": message, "finish_reason": progress.finish}
            head = {"id": rid, "object": "chat.completion", "created": created, "model": NAME}
            return head | {"choices": [choice], "usage": usage(progress)}

        max_tokens = asked.max_completion_tokens or asked.max_tokens or _DEFAULT_MAX_TOKENS
        await self._run(rid, ids, max_tokens, asked.stream, exchange, chunk, document)

    async def _run(
        self,
        rid: str,
        ids: list[int],
        max_tokens: int,
        stream: bool,
        exchange: _Exchange,
        event: Callable[[Progress], object],
        document: Callable[[Progress], object],
    ) -> None:
        if len(ids) + max_tokens > self._context:
            raise _Refusal(f"{len(ids)} + {max_tokens} tokens are more than the context of {self._context}.")
        if max_tokens < 1:
            raise _Refusal("max_new_tokens must be at least 1.")
        gone = asyncio.create_task(exchange.gone())
        gone.add_done_callback(lambda _: self._engine.abort(rid))
        try:
            async with aclosing(self._engine.generate(rid, ids, max_tokens)) as generation:
                if stream:
                    await exchange.stream(event(progress) async for progress in generation)
                else:
                    *_, last = [progress async for progress in generation]
                    await exchange.answer(document(last))
        finally:
            gone.cancel()


class _Exchange:
    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    async def body(self) -> bytes:
        body, more = b"", True
        while more:
            message = await self._receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        return body

    async def gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def answer(self, document: object, status: int = 200) -> None:
        await self._start(status, b"application/json")
        await self._write(_encode(document), more=False)

    async def stream(self, events: AsyncIterator[object]) -> None:
        await self._start(200, b"text/event-stream")
        async for event in events:
            await self._write(b"data: " + _encode(event) + b"\n\n", more=True)
        await self._write(b"data: [DONE]\n\n", more=False)

    async def _start(self, status: int, kind: bytes) -> None:
        await self._send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]}
        )

    async def _write(self, body: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
