"""A command on a terminal, and what it has written there."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dllm_stack.settings import RedisSettings
from tests.operator.command_line import environment


class Terminal:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.written = ""

    async def shows(self, text: str) -> bool:
        return text in self.written


@asynccontextmanager
async def on_terminal(redis: RedisSettings, *arguments: str) -> AsyncIterator[Terminal]:
    master, slave = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dllm_stack.cli", *arguments),
        env=environment(redis, TERM="xterm", COLUMNS="150", LINES="40"),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    terminal = Terminal(process)

    def read() -> None:
        try:
            terminal.written += os.read(master, 1 << 16).decode(errors="replace")
        except OSError:  # the other end is closed
            loop.remove_reader(master)

    loop = asyncio.get_running_loop()
    loop.add_reader(master, read)
    try:
        yield terminal
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        loop.remove_reader(master)
        os.close(master)
