"""A child process of `up`: how it ends, and the port that it is given."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from dllm_stack.local.service import Service, free_port, listen

# Prints each signal; ends by the one named, or never.
_PROGRAM = """
import os, signal, sys
def on(number, frame):
    name = signal.Signals(number).name
    os.write(1, f"{name}\\n".encode())
    if name == sys.argv[1]:
        os._exit(3)
signal.signal(signal.SIGTERM, on)
signal.signal(signal.SIGINT, on)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""

Start = Callable[..., Awaitable[Service]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    services = []

    async def start(ends_by: str, stop_s: float = 30) -> Service:
        argv = [sys.executable, "-c", _PROGRAM, ends_by]
        service = Service("some", argv, env={}, log=tmp_path / "log", stop_s=stop_s)
        services.append(service)
        await service.start()
        while "ready" not in service.tail():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return service

    yield start
    for service in services:
        hurry = asyncio.Event()
        hurry.set()
        await service.stop(hurry)


async def test_it_ends_by_itself(start: Start) -> None:
    service = await start("SIGTERM")
    await service.stop(asyncio.Event())
    assert not service.running
    assert await service.wait() == 3
    assert service.tail() == "ready\nSIGTERM"


async def test_a_hurry_during_the_stop_is_passed_on(start: Start) -> None:
    service = await start("SIGINT")
    hurry = asyncio.Event()
    stop = asyncio.create_task(service.stop(hurry))
    while "SIGTERM" not in service.tail():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert service.running
    hurry.set()
    await stop
    assert await service.wait() == 3


async def test_a_hurry_before_the_stop_counts_too(start: Start) -> None:
    service = await start("SIGINT")
    hurry = asyncio.Event()
    hurry.set()
    await service.stop(hurry)
    assert await service.wait() == 3


@pytest.mark.parametrize("in_a_hurry", [False, True])
async def test_what_does_not_end_is_killed(start: Start, in_a_hurry: bool) -> None:
    service = await start("never", stop_s=0.2)
    hurry = asyncio.Event()
    if in_a_hurry:
        hurry.set()
    await service.stop(hurry)
    assert await service.wait() == -9


async def test_stopping_what_is_gone_or_never_was_is_no_error(start: Start, tmp_path: Path) -> None:
    service = await start("SIGTERM")
    await service.stop(asyncio.Event())
    await service.stop(asyncio.Event())
    await Service("none", ["none"], env={}, log=tmp_path / "none", stop_s=1).stop(asyncio.Event())


def test_a_port_is_given_to_nobody_else_before_its_service_listens() -> None:
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    for host in ("127.0.0.1", "127.0.0.1", "0.0.0.0"):
        listen(host, port).close()
