"""`dllm-stack queue`, or another command, as a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from dllm_stack.settings import RedisSettings


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The cells of each line, which have two spaces between them."""
        lines = (line.split("  ") for line in self.out.splitlines())
        return [[cell.strip() for cell in cells if cell.strip()] for cells in lines]


def environment(redis: RedisSettings, **more: str) -> dict[str, str]:
    own = {"DLLM_REDIS__URL": redis.url, "DLLM_REDIS__TIMEOUT_S": str(redis.timeout_s)}
    return {**os.environ, **own, "DLLM_QUEUE__HEARTBEAT_S": "0.1", **more}


@asynccontextmanager
async def started(
    redis: RedisSettings, *arguments: str, command: str = "queue"
) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dllm_stack.cli", command, *arguments),
        env=environment(redis),
        stdout=pipe,
        stderr=pipe,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def run(redis: RedisSettings, *arguments: str, command: str = "queue") -> Result:
    async with started(redis, *arguments, command=command) as process:
        out, err = await process.communicate()
        assert process.returncode is not None
        return Result(process.returncode, out.decode(), err.decode())
