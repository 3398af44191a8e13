"""Work that a service repeats for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

import structlog

from dllm_stack.redis import RedisError

RETRY_S = 0.2  # pause after a failure

log = structlog.get_logger()


async def forever(step: Callable[[], Awaitable[None]], **labels: str) -> NoReturn:
    """Repeats a step until cancelled, whatever it raises. An outage of Redis is logged once.

    Args:
        labels: go into each log line.
    """
    log_here = log.bind(step=step.__name__.strip("_"), **labels)
    unreachable = False
    while True:
        try:
            await step()
        except RedisError as error:
            if not unreachable:
                log_here.warning("redis is unreachable", error=repr(error))
            unreachable = True
            await asyncio.sleep(RETRY_S)
        except Exception:
            log_here.exception("step failed")
            await asyncio.sleep(RETRY_S)
        else:
            if unreachable:
                log_here.info("redis answers again")
            unreachable = False
