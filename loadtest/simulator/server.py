"""The simulator's HTTP: SGLang's, as far as workers and routers use it, and OpenAI's chat."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from dllm_stack.messages import ChatPrompt, Prompt, TextPrompt, TokenPrompt
from dllm_stack.outcomes import RequestError
from loadtest.simulator.engine import Finish, Request, SimulatedEngine
from loadtest.simulator.http import Call
from worker.prompt import Renderer

NAME = "simulator"
MODEL = "simulated"  # where it is one of several, requests are sent to it by this name
_KEPT_BACK = 8  # tokens of the context that no prompt may have, about as in SGLang
_DEFAULT_MAX_TOKENS = 128
_CHATS_KEPT = 4096
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
    messages: msgspec.Raw
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None


class _Abort(msgspec.Struct):
    rid: str


class _Refusal(Exception):
    pass


class Server:
    """An application for `http.listen`.

    Args:
        context: tokens, prompt and answer together.
        shared_by: workers that are attached to it; each is told of its share of the slots.
        algorithm: as it says; what a request says of its decoding is passed over.
    """

    def __init__(
        self,
        engine: SimulatedEngine,
        renderer: Renderer,
        context: int,
        shared_by: int = 1,
        algorithm: str = "LowConfidence",
    ) -> None:
        self._algorithm = algorithm
        self._engine = engine
        self._shared_by = shared_by
        self._renderer = renderer
        self._context = context
        self._chats: dict[bytes, list[int]] = {}  # what chats were rendered to: a load repeats its own
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
        self._actions: dict[str, Callable[[Call], Coroutine[Any, Any, None]]] = {
            "/generate": self._generate,
            "/v1/chat/completions": self._chat,
            "/abort_request": self._abort,
        }

    async def __call__(self, call: Call) -> None:
        if call.method == "GET" and (document := self._documents.get(call.path)):
            call.answer(_encode(document()))
        elif call.method == "POST" and (action := self._actions.get(call.path)):
            try:
                await action(call)
            except (_Refusal, RequestError, msgspec.MsgspecError) as error:
                call.answer(_error(str(error)), 400)
        else:
            call.answer(_error(f"The {NAME} has no {call.method} {call.path}."), 404)

    def _model(self) -> object:
        return {"model_path": MODEL, "tokenizer_path": MODEL, "is_generation": True}

    def _models(self) -> object:
        return {"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": self._context}]}

    def _info(self) -> object:
        slots = self._engine.slots // self._shared_by
        return {
            "model_path": MODEL,
            "served_model_name": MODEL,
            "version": NAME,
            "tp_size": 1,
            "dp_size": 1,
            "dllm_algorithm": self._algorithm,
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
        return {"slots": self._engine.slots, **msgspec.to_builtins(self._engine.totals())}

    async def _abort(self, call: Call) -> None:
        self._engine.abort(msgspec.json.decode(call.body, type=_Abort).rid)
        call.answer(b"{}")

    async def _generate(self, call: Call) -> None:
        asked = msgspec.json.decode(call.body, type=_Generate)
        sampling = asked.sampling_params
        if any(sampling.stop) or sampling.stop_token_ids:
            raise _Refusal(f"The {NAME} knows no stops.")
        prompt: Prompt = TextPrompt(asked.text) if asked.text else TokenPrompt(asked.input_ids or [])
        ids = await self._renderer.render(prompt)
        rid = asked.rid or uuid.uuid4().hex

        def shown(request: Request, finish: Finish | None) -> object:
            answer = request.answer
            reason = {
                None: None,
                "length": {"type": "length", "length": len(answer.ids)},
                "abort": {"type": "abort", "message": "Aborted"},
            }[finish]
            meta = {
                "id": rid,
                "finish_reason": reason,
                "prompt_tokens": request.prompt_tokens,
                "completion_tokens": len(answer.ids),
                "cached_tokens": 0,
            }
            text = answer.text(over=finish is not None)
            return {"text": text, "output_ids": answer.ids, "meta_info": meta | _work(request)}

        self._run(call, rid, ids, sampling.max_new_tokens, asked.stream, shown, shown)

    async def _chat(self, call: Call) -> None:
        asked = msgspec.json.decode(call.body, type=_Chat)
        ids = await self._rendered(bytes(asked.messages))
        rid, created, sent = uuid.uuid4().hex, int(time.time()), 0

        def usage(request: Request) -> dict[str, int]:
            prompt, tokens = request.prompt_tokens, len(request.answer.ids)
            return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}

        def chunk(request: Request, finish: Finish | None) -> object:
            nonlocal sent
            text = request.answer.text(over=finish is not None)
            delta, sent = {"role": "assistant", "content": text[sent:]}, len(text)
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            head = {"id": rid, "object": "chat.completion.chunk", "created": created, "model": MODEL}
            options = asked.stream_options
            shown = {"usage": usage(request)} if finish and options and options.include_usage else {}
            return head | {"choices": [choice]} | shown

        def document(request: Request, finish: Finish | None) -> object:
            message = {"role": "assistant", "content": request.answer.text(over=True)}
            choice = {"index": 0, "message": message, "finish_reason": finish}
            head = {"id": rid, "object": "chat.completion", "created": created, "model": MODEL}
            return head | {"choices": [choice], "usage": usage(request)}

        max_tokens = asked.max_completion_tokens or asked.max_tokens or _DEFAULT_MAX_TOKENS
        self._run(call, rid, ids, max_tokens, asked.stream, chunk, document)

    async def _rendered(self, messages: bytes) -> list[int]:
        if (known := self._chats.get(messages)) is not None:
            return known
        decoded = msgspec.json.decode(messages, type=list[dict[str, Any]])
        ids = await self._renderer.render(ChatPrompt(decoded))
        if len(self._chats) >= _CHATS_KEPT:
            self._chats.clear()
        self._chats[messages] = ids
        return ids

    def _run(
        self,
        call: Call,
        rid: str,
        ids: list[int],
        max_tokens: int,
        stream: bool,
        event: Callable[[Request, Finish | None], object],
        document: Callable[[Request, Finish | None], object],
    ) -> None:
        if len(ids) + max_tokens > self._context:
            raise _Refusal(f"{len(ids)} + {max_tokens} tokens are more than the context of {self._context}.")
        if max_tokens < 1:
            raise _Refusal("max_new_tokens must be at least 1.")

        def tell(request: Request, finish: Finish | None) -> None:
            if finish is None:
                if stream:
                    call.event(_encode(event(request, None)))
            elif stream:
                call.last_event(_encode(event(request, finish)))
            else:
                call.answer(_encode(document(request, finish)))

        try:
            request = self._engine.submit(rid, ids, max_tokens, tell)
        except KeyError:
            raise _Refusal(f"There is a request {rid} already.") from None
        if call.lost:  # while its prompt was rendered
            self._engine.drop(request)
            return
        call.gone = lambda: self._engine.drop(request)
        if stream:
            call.begin_events()


def _work(request: Request) -> dict[str, list[int]]:
    """What the extension tells of an answer's blocks, in `worker.dllm.requests`' words; see there."""
    tokens = len(request.answer.ids)
    if not request.forwards or not tokens:
        return {}
    forwards, none = [0] * tokens, [0] * tokens
    steps = none.copy()
    for begin, count in request.forwards.items():
        if begin < tokens:
            forwards[begin], steps[begin] = count, count - 1
    return {"dllm_forwards": forwards, "dllm_steps": steps, "dllm_edits": none}


def _error(message: str) -> bytes:
    return _encode({"error": {"message": message}})
