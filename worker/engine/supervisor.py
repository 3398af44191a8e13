"""Keeps one engine serving: loads it, watches it, starts it again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, Protocol, TypeVar

import structlog
from msgspec.structs import replace

from dllm_stack.decoding import EngineOptions
from dllm_stack.messages import Decoding, Trace
from dllm_stack.settings import WorkerSettings
from worker.engine.capabilities import Examination
from worker.engine.client import EngineClient, EngineFault, EngineInfo, EngineRefusal, Generation
from worker.engine.exposition import one_series
from worker.metrics import WorkerMetrics

log = structlog.get_logger()

_LOADING_POLL_S = 0.2
_HEALTH_EVERY_S = 10.0
_HEALTH_S = 25.0  # SGLang takes a second to say that it is healthy, and 20 s to say that it is not
_UNHEALTHY_POLL_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0  # before a restart; doubles each time
_STABLE_S = 60.0  # an engine that was ready for so long is started again after the first pause
_MOST_FAILED_STARTS = 3
_WARM_UP_TOKENS = 64

_Result = TypeVar("_Result")


class Server(Protocol):
    """An engine that was started, or that runs already."""

    url: str

    def watch_children(self) -> None: ...
    async def ended(self) -> str: ...
    async def stop(self) -> None: ...
    def tail(self) -> str: ...


class EngineGivenUp(Exception):
    """The engine cannot be brought to serve; the message says why and shows the end of its output."""


class _EngineDown(Exception):
    """The engine must be started again."""


class Engine:
    """Loading, ready, and loading again after whatever happened.

    Args:
        start: starts a server, or names one that runs.
        check: raises EngineGivenUp when the worker cannot use an engine like that.
        changed: called whenever `ready` may have changed.
    """

    def __init__(
        self,
        start: Callable[[], Awaitable[Server]],
        check: Callable[[EngineInfo], None],
        settings: WorkerSettings,
        metrics: WorkerMetrics,
        changed: Callable[[], None],
    ) -> None:
        self.info: EngineInfo | None = None  # None until an engine has told
        self.loading_since = time.monotonic()
        self._start = start
        self._check = check
        self._settings = settings
        self._metrics = metrics
        self._changed = changed
        self._examination = Examination()
        self._client: EngineClient | None = None  # while the engine is loaded
        self._suspected = asyncio.Event()
        self._condemned: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def ready(self) -> bool:
        """Whether it may be given requests."""
        return self._client is not None and not self._suspected.is_set()

    async def generate(
        self,
        token_ids: list[int],
        max_tokens: int,
        decoding: Decoding,
        options: EngineOptions,
        trace: Trace | None = None,
    ) -> Generation:
        """Raises EngineFault, EngineRefusal."""
        if self._client is None:
            raise EngineFault("The engine is not loaded.")
        return await self._client.generate(token_ids, max_tokens, decoding, options, trace)

    @property
    def silent_s(self) -> float:
        """Seconds since its last sign of life; 0 while it is not loaded."""
        return self._client.quiet_s if self._client is not None else 0.0

    async def own_metrics(self) -> bytes:
        """What the engine itself measures, in Prometheus' text; nothing while it does not say."""
        try:
            return b"" if self._client is None else one_series(await self._client.metrics())
        except EngineFault:
            return b""

    def suspect(self, reason: str) -> None:
        """A request failed: take no more until the engine has shown that it works."""
        if self.ready:
            log.warning("engine is suspected", reason=reason)
        self._suspected.set()
        self._changed()

    def condemn(self, reason: str) -> None:
        """A request cannot even be stopped: start the engine again."""
        self.suspect(reason)
        if not self._condemned.done():
            self._condemned.set_result(reason)

    async def run(self) -> NoReturn:
        """Runs until it is cancelled, and then stops the engine.

        Raises:
            EngineGivenUp: several starts in a row failed, or the engine is none that can be used.
        """
        pause_s = _FIRST_PAUSE_S
        failed_starts = 0
        while True:
            self.loading_since = time.monotonic()
            self._condemned = asyncio.get_running_loop().create_future()
            ready_for_s = 0.0
            server = await self._start()
            try:
                async with EngineClient(server.url) as client:
                    await self._unless_ended(server, self._load(client))
                    failed_starts = 0
                    loaded_at = time.monotonic()
                    self._become_ready(server, client)
                    try:
                        await self._unless_ended(server, self._watch(client))
                    finally:
                        ready_for_s = time.monotonic() - loaded_at
                        self._become_unready()
            except _EngineDown as down:
                reason = str(down)
                await server.stop()
            except BaseException:
                await server.stop()
                raise
            if not ready_for_s:
                failed_starts += 1
            if failed_starts == _MOST_FAILED_STARTS:
                raise EngineGivenUp(f"The engine {reason} before it was ready.\n{server.tail()}")
            pause_s = _FIRST_PAUSE_S if ready_for_s > _STABLE_S else pause_s
            log.error("engine is started again", reason=reason, in_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            self._metrics.restarts.inc()

    async def _load(self, client: EngineClient) -> None:
        limit_s = self._settings.start_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await _until_up(client)
                self.info = await client.info()
                self._check(self.info)
                self._metrics.prefill_fallback.set(self.info.prefill_fallback is not None)
                if self.info.prefill_fallback is not None:
                    log.warning("prompts are computed one block a round", reason=self.info.prefill_fallback)
                self._metrics.is_engine(self.info.algorithm, self.info.attention_backend, self.info.gpus)
                await self._warm_up(client, self.info)
                if self.info.algorithm is None:
                    capabilities = await self._examination.capabilities(client, self.info)
                    self.info = replace(self.info, capabilities=capabilities)
        except TimeoutError:
            raise _EngineDown(f"was not ready after {limit_s:g} s") from None
        except (EngineFault, EngineRefusal) as error:
            raise _EngineDown(f"failed its first request: {error}") from error

    async def _warm_up(self, client: EngineClient, info: EngineInfo) -> None:
        """The first generation is slow: what it compiles must not be waited for by a job."""
        prompt = [0] * min(_WARM_UP_TOKENS + 1, info.limits.prompt)
        room = min(_WARM_UP_TOKENS, info.limits.context - len(prompt))
        generation = await client.generate(prompt, room, Decoding(ignore_eos=True))
        while (await generation.next()).finish is None:
            pass
        await generation.stop()

    async def _watch(self, client: EngineClient) -> NoReturn:
        stall_s = self._settings.stall_s
        every_s = min(_HEALTH_EVERY_S, stall_s / 3)
        while True:
            await _wait_for(self._suspected, every_s)
            if not self._suspected.is_set() and client.quiet_s < every_s:
                continue
            if await client.is_healthy(within_s=_HEALTH_S):
                if self._suspected.is_set():
                    self._suspected.clear()
                    self._changed()
            elif client.quiet_s > stall_s:
                raise _EngineDown(f"gave no sign of life for {client.quiet_s:.0f} s")
            else:
                self._suspected.set()
                self._changed()
                await asyncio.sleep(min(_UNHEALTHY_POLL_S, every_s))

    def _become_ready(self, server: Server, client: EngineClient) -> None:
        server.watch_children()
        load_s = time.monotonic() - self.loading_since
        self._metrics.load_seconds.set(load_s)
        self._client = client
        self._suspected.clear()
        log.info("engine is ready", load_s=round(load_s, 1))
        self._changed()

    def _become_unready(self) -> None:
        self._client = None
        self._changed()

    async def _unless_ended(self, server: Server, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Does the work, or raises _EngineDown as soon as the server is gone or condemned."""
        ended = asyncio.create_task(server.ended())
        task = asyncio.create_task(work)
        try:
            either: list[asyncio.Future[Any]] = [ended, self._condemned, task]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            for end in either[:2]:
                if end.done():
                    raise _EngineDown(end.result())
            return task.result()
        finally:
            for each in (ended, task):
                each.cancel()
            await asyncio.wait({ended, task})


async def _until_up(client: EngineClient) -> None:
    while True:
        if await client.is_up():
            return
        await asyncio.sleep(_LOADING_POLL_S)


async def _wait_for(event: asyncio.Event, limit_s: float) -> None:
    try:
        async with asyncio.timeout(limit_s):
            await event.wait()
    except TimeoutError:
        pass
