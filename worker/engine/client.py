"""The HTTP of one running SGLang server. Every call returns or raises in time."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from dllm_stack.decoding import EngineOptions
from dllm_stack.messages import Decoding, Trace
from dllm_stack.tracing import written
from worker.engine import ask
from worker.engine.generation import EngineFault, EngineRefusal, Generation, Progress, error_of
from worker.engine.http import Answer, Http, HttpError
from worker.engine.wire import Finish, Models, ServerInfo
from worker.prompt import Limits

_CALL_S = 10.0  # limit of a call that the HTTP server answers by itself
_METRICS_S = 2.0  # less than a scrape takes at most
_MOST_BYTES = 64 << 20  # of such a call's answer
# SGLang ends a request at its context length less 2 (srt/managers/scheduler.py, init_req_max_new_tokens).
_KEPT_BACK = 2

__all__ = ["EngineClient", "EngineFault", "EngineInfo", "EngineRefusal", "Finish", "Generation", "Progress"]

_Told = TypeVar("_Told")
_encode = msgspec.json.Encoder().encode


class EngineInfo(msgspec.Struct, frozen=True):
    limits: Limits
    slots: int  # requests that it runs at once
    algorithm: str | None  # dLLM decoding algorithm
    attention_backend: str | None
    streams_deltas: bool  # events carry what is new instead of all so far
    deterministic: bool = False  # it draws by seeds, and then not with min_p
    capabilities: list[str] | None = None  # of an autoregressive engine, once it has been asked
    gpus: int = 0  # that it computes on
    prefill_fallback: str | None = (
        None  # why prompts are computed one block a round, though more was asked for
    )


class EngineClient:
    """Use as a context manager, and ask for `info` first: how to ask for more depends on it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._autoregressive = False
        self._streams_deltas = False
        self._last_sign = time.monotonic()
        self._http = Http(url)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close("the engine has been given up")

    @property
    def quiet_s(self) -> float:
        """Seconds since the engine's last sign of life."""
        return time.monotonic() - self._last_sign

    def saw_life(self) -> None:
        self._last_sign = time.monotonic()

    async def is_up(self) -> bool:
        """Whether its HTTP server answers; it does so once the model is loaded."""
        return await self._is_ok("/model_info", _CALL_S)

    async def is_healthy(self, within_s: float) -> bool:
        """Whether it generates, which it is made to do if it is idle."""
        if not await self._is_ok("/health", within_s):
            return False
        self.saw_life()
        return True

    async def info(self) -> EngineInfo:
        """Raises EngineFault."""
        server = await self._get("/server_info", ServerInfo)
        length = (await self._get("/v1/models", Models)).data[0].max_model_len
        # A dLLM runs one request at a time unless told otherwise, whatever it says of its effective limit.
        single = server.dllm_algorithm is not None and server.max_running_requests is None
        states = server.internal_states
        self._autoregressive = server.dllm_algorithm is None
        self._streams_deltas = server.incremental_streaming_output
        return EngineInfo(
            limits=Limits(
                prompt=server.max_req_input_len - 1,
                context=min(length, server.max_total_num_tokens) - _KEPT_BACK,
            ),
            slots=1 if single else sum(state.slots for state in states),
            algorithm=server.dllm_algorithm,
            attention_backend=server.attention_backend,
            streams_deltas=server.incremental_streaming_output,
            deterministic=server.enable_deterministic_inference,
            gpus=0 if server.device == "cpu" else server.tp_size,
            prefill_fallback=next((reason for state in states if (reason := state.fallback)), None),
        )

    async def generate(
        self,
        token_ids: list[int],
        max_tokens: int,
        decoding: Decoding,
        options: EngineOptions = ask.AS_IT_DOES,
        trace: Trace | None = None,
    ) -> Generation:
        """Starts a generation.

        Args:
            options: what `decoding` chooses; only an engine that decodes per request knows them.
            trace: what the engine's own spans belong to, if it has any.

        Raises:
            EngineFault, EngineRefusal
        """
        rid = ""

        def body() -> bytes:
            nonlocal rid
            # Fresh each time: SGLang refuses one it has just seen, and aborts by prefix.
            rid = uuid.uuid4().hex
            return _encode(
                ask.body(rid, token_ids, max_tokens, decoding, options, autoregressive=self._autoregressive)
            )

        answer = await self._ask("POST", "/generate", body, written(trace), events=True)
        if answer.status != 200:
            raise await error_of(answer)
        return Generation(self, rid, answer, deltas=self._streams_deltas, merge=self._autoregressive)

    async def abort(self, rid: str) -> None:
        """Raises EngineFault. Returns when the engine has heard of it, not when it has stopped."""
        answer = await self._ask("POST", "/abort_request", lambda: _encode({"rid": rid}))
        if answer.status != 200:
            raise await error_of(answer)
        answer.leave()

    async def metrics(self) -> bytes:
        """Its own, in Prometheus' text. Raises EngineFault."""
        return await self._fetch("/metrics", _METRICS_S)

    async def _is_ok(self, path: str, within_s: float) -> bool:
        try:
            await self._fetch(path, within_s)
        except EngineFault:
            return False
        return True

    async def _get(self, path: str, kind: type[_Told]) -> _Told:
        try:
            return msgspec.json.decode(await self._fetch(path, _CALL_S), type=kind)
        except msgspec.MsgspecError as error:
            raise EngineFault(f"The engine's {path} is of no use: {error}") from error

    async def _fetch(self, path: str, within_s: float) -> bytes:
        try:
            async with asyncio.timeout(within_s):
                answer = await self._ask("GET", path)
                body = await answer.body(_MOST_BYTES)
        except (HttpError, TimeoutError) as error:
            raise EngineFault(f"The engine does not answer {path}: {error!r}") from error
        if answer.status != 200:
            raise EngineFault(f"The engine answers {path} with HTTP status {answer.status}.")
        return body

    async def _ask(
        self,
        method: str,
        path: str,
        body: Callable[[], bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        events: bool = False,
    ) -> Answer:
        if self._http.closed:
            raise EngineFault("The engine has been given up.")
        try:
            return await self._http.ask(method, path, body, headers, events=events)
        except HttpError as error:
            raise EngineFault(f"The engine cannot be reached: {error}") from error
