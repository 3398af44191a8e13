"""The admin API in the gateway's process: it starts and ends with it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import httpx

from dllm_stack.keys import KeyStore
from dllm_stack.local.service import free_port
from dllm_stack.settings import Settings
from tests.gateway.served import until
from tests.gateway.test_gateway_process import MAIN, running


async def status(port: int, secret: str) -> int:
    """0: nobody listens."""
    headers = {"authorization": f"Bearer {secret}"}
    try:
        async with httpx.AsyncClient(timeout=120) as http:
            return (await http.get(f"http://127.0.0.1:{port}/admin/pools", headers=headers)).status_code
    except httpx.TransportError:
        return 0


async def test_it_starts_and_ends_with_the_gateway(settings: Settings, secret: str, store: KeyStore) -> None:
    port = free_port()
    environment = {"DLLM_ACCESS__KEYS": "redis", "DLLM_ADMIN__PORT": str(port)}
    async with running(settings.redis, **environment) as gateway:
        assert await status(port, secret) == 200
        assert await status(port, "nothing") == 401
        # A connection kept open does not hold up its end.
        async with httpx.AsyncClient(timeout=120) as http:
            await http.get(f"http://127.0.0.1:{port}/admin/pools")
            gateway.terminate()
            assert await gateway.exit_code() == 0
    assert await status(port, secret) == 0


async def test_it_is_there_while_the_gateway_drains(
    settings: Settings, secret: str, store: KeyStore, user: dict[str, str]
) -> None:
    port = free_port()
    environment = {"DLLM_ACCESS__KEYS": "redis", "DLLM_ADMIN__PORT": str(port), "DLLM_GATEWAY__DRAIN_S": "60"}
    async with running(settings.redis, **environment) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.http.base_url.port)
        writer.write(
            b"POST /v1/completions HTTP/1.1\r\nHost: gateway\r\nContent-Length: 10\r\n"
            b"Authorization: %s\r\n\r\n" % user["authorization"].encode()
        )

        async def is_open() -> bool:
            metrics = (await gateway.http.get("/metrics")).text
            return 'dllm_open_requests{endpoint="completions"} 1.0' in metrics

        await until(is_open)
        gateway.terminate()

        async def not_ready() -> bool:
            return await gateway.status("/readyz") == 503

        await until(not_ready)
        assert await status(port, secret) == 200
        writer.write(b"{}        ")
        assert (await reader.readline()).startswith(b"HTTP/1.1 ")
        writer.close()
        assert await gateway.exit_code() == 0


async def test_without_keys_its_port_is_not_opened(settings: Settings, secret: str) -> None:
    port = free_port()
    async with running(settings.redis, DLLM_ADMIN__PORT=str(port)) as gateway:
        assert await status(port, secret) == 0
        assert (await gateway.http.get("/admin/pools")).status_code == 404


async def test_a_taken_port_is_named(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        env = {
            **os.environ,
            "DLLM_GATEWAY__PORT": "0",
            "DLLM_ACCESS__KEYS": "redis",
            "DLLM_ADMIN__PORT": str(taken.getsockname()[1]),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", MAIN, env=env, stderr=asyncio.subprocess.PIPE
        )
        _, output = await process.communicate()
    assert process.returncode == 2
    assert output.startswith(b"admin.port: Address already in use")
    assert output.count(b"\n") == 1
