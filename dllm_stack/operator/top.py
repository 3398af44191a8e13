"""`dllm-stack top`: pools, workers and queue as Redis has them, the pace of answers as services tell it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from functools import reduce
from operator import add

import aiohttp
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from dllm_stack.operator import overview
from dllm_stack.operator.readings import Reading, read_all
from dllm_stack.operator.session import OperatorError, Session, unreachable
from dllm_stack.operator.words import NOTHING, share, short_time
from dllm_stack.redis import RedisError
from dllm_stack.settings import Listener, Settings

_EVERY_S = 1.0
_WINDOW_S = 30.0
_HEADER = (
    "model",
    "requests",
    "failed",
    "tokens",
    "TTFT 50%",
    "95%",
    "ITL 50%",
    "95%",
    "gap 95%",
    "tok/forward",
)
_TTFT, _ITL = "dllm_time_to_first_token_seconds", "dllm_inter_token_latency_seconds"
_GAP, _TOKENS = "dllm_inter_chunk_seconds", "dllm_chunk_tokens_sum"


async def top(session: Session, urls: list[str], limit: int) -> None:
    """Anew every second until it is cancelled; once, if the output is no terminal.

    Args:
        urls: of /metrics; empty: those of the settings.
        limit: rows of a table.

    Raises:
        OperatorError: once, and neither Redis nor any service answered.
    """
    sources = urls or urls_of(session.settings)
    async with aiohttp.ClientSession() as http:
        if not session.console.is_terminal:
            await _once(session, http, sources, limit)
            return
        history: deque[tuple[float, dict[str, Reading | None]]] = deque()
        with Live(console=session.console, screen=True, auto_refresh=False) as live:
            while True:
                now, readings = time.monotonic(), await read_all(http, sources)
                history.append((now, readings))
                while now - history[0][0] > _WINDOW_S:
                    history.popleft()
                began, before = history[0]
                queues = (await _queues(session, limit))[0]
                pace = _pace(_gained(readings, before), now - began) if now > began else "\nmeasuring ..."
                live.update(Group(time.strftime("%H:%M:%S"), queues, pace, _sources(readings)), refresh=True)
                await asyncio.sleep(_EVERY_S)


async def _once(session: Session, http: aiohttp.ClientSession, sources: list[str], limit: int) -> None:
    readings = await read_all(http, sources)
    queues, reached = await _queues(session, limit)
    if not reached and not any(readings.values()):
        raise OperatorError(f"{queues}\n{_sources(readings).plain.strip()}")
    total = reduce(add, filter(None, readings.values()), Reading({}))
    session.console.print(Group(queues, _pace(total, None), _sources(readings)))


async def _queues(session: Session, limit: int) -> tuple[RenderableType, bool]:
    """What there is to show, and whether Redis answered."""
    try:
        return await overview.tables(session, None, limit), True
    except RedisError as error:
        return Text(unreachable(session.settings, error)), False


def _gained(readings: dict[str, Reading | None], before: dict[str, Reading | None]) -> Reading:
    # Of a service that did not answer then, nobody knows what is new.
    gains = (
        reading.since(before[url] or reading) for url, reading in readings.items() if reading is not None
    )
    return reduce(add, gains, Reading({}))


def _pace(reading: Reading, seconds: float | None) -> RenderableType:
    """
    Args:
        seconds: that the reading spans; None: all since the services' starts.
    """
    models = reading.values(f"{_TTFT}_count", "model") | reading.values("dllm_engine_slots", "pool")
    rows = [_row(reading, model, seconds) for model in sorted(models)]
    if not rows:
        return Text("\nNo service has told of a model yet.")
    span = "since the services' starts" if seconds is None else f"in the last {seconds:.0f} s"
    return Group(Text(f"\nanswers, {span}", "bold"), "", overview.table(_HEADER, rows))


def _row(reading: Reading, model: str, seconds: float | None) -> list[str]:
    requests = reading.sum("dllm_requests_total", model=model)
    failed = sum(
        reading.sum("dllm_requests_total", model=model, outcome=outcome) for outcome in ("failed", "expired")
    )
    forwards = reading.sum("dllm_engine_forwards_total", pool=model)
    committed = reading.sum("dllm_engine_committed_tokens_total", pool=model)
    times = [
        reading.quantile(name, of, model=model)
        for name, of in ((_TTFT, 0.5), (_TTFT, 0.95), (_ITL, 0.5), (_ITL, 0.95), (_GAP, 0.95))
    ]
    return [
        model,
        _count(requests, seconds),
        share(failed / requests) if requests else NOTHING,
        _count(reading.sum(_TOKENS, model=model), seconds),
        *(NOTHING if value is None else short_time(value) for value in times),
        f"{committed / forwards:.1f}" if forwards else NOTHING,
    ]


def _count(number: float, seconds: float | None) -> str:
    if seconds is None:
        return f"{number:.0f}" if number else NOTHING
    return f"{number / seconds:.1f}/s"


def _sources(readings: dict[str, Reading | None]) -> Text:
    silent = [url for url, reading in readings.items() if reading is None]
    return Text(f"\nno answer from {', '.join(silent)}" if silent else "", "dim")


def urls_of(settings: Settings) -> list[str]:
    """Of /metrics, where the settings say that services listen."""
    workers = [
        settings.worker.model_copy(update={"port": settings.worker.port + number})
        for number in range(max(len(settings.up.models), 1))
    ]
    return [_url(listener) for listener in (settings.gateway, settings.router, *workers) if listener.port]


def _url(listener: Listener) -> str:
    # What listens everywhere does so here too.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listener.host, listener.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.port}/metrics"
