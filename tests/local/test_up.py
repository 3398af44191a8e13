"""`dllm-stack up` without an engine: a start that fails or is interrupted, and services that die.

The worker is to attach to an engine that never comes, so that nothing here waits for SGLang to load.
"""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from dllm_stack.local import stack as stack_module
from dllm_stack.local.service import free_port, listen
from dllm_stack.local.workers import workers
from dllm_stack.settings import (
    GatewaySettings,
    RedisSettings,
    RouterSettings,
    Settings,
    UpSettings,
    WorkerSettings,
)
from loadtest.fleet import MODEL, ready, simulator
from loadtest.local_stack import LocalStack
from tests.stack.conditions import runs

NO_ENGINE = {"DLLM_WORKER__ENGINE_URL": "http://127.0.0.1:1"}


def up(**env: str) -> subprocess.CompletedProcess[str]:
    """A start that is to fail."""
    ports = {f"DLLM_{name}__PORT": "0" for name in ("GATEWAY", "ROUTER", "WORKER")}
    environment = dict(psutil.Process().environ()) | NO_ENGINE | ports | env
    return subprocess.run(
        [sys.executable, "-m", "dllm_stack.cli", "up"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def eventually(condition: Callable[[], bool], within_s: float = 120.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def stack() -> Iterator[LocalStack]:
    """Everything but the worker is ready."""
    with LocalStack(until="gateway  ready", **NO_ENGINE) as stack:
        yield stack


async def test_keys_are_on(tmp_path: Path) -> None:
    """Its own Valkey is empty, so `up` makes a key; it shows it, and it works."""
    model = tmp_path / "model.yaml"
    model.write_text(MODEL)
    engine, url = simulator("simulator", [], tmp_path)
    await engine.start()
    try:
        await ready(engine)
        env = {"DLLM_ACCESS__KEYS": "redis", "DLLM_ADMIN__PORT": "0"}
        env |= {"DLLM_WORKER__ENGINE_URL": url, "DLLM_WORKER__MODEL": str(model)}
        with LocalStack(**env) as stack:
            [secret] = set(re.findall(r"dk-[\w-]{60}", stack.output()))
            async with httpx.AsyncClient(base_url=stack.gateway_url, timeout=120) as http:
                assert (await http.get("/v1/models")).status_code == 401
                bearer = {"Authorization": f"Bearer {secret}"}
                assert (await http.get("/v1/models", headers=bearer)).status_code == 200
    finally:
        await engine.stop(asyncio.Event())


def children(stack: LocalStack) -> list[psutil.Process]:
    return [stack.service(name) for name in ("router", "worker", "gateway", "valkey")]


def test_a_service_that_cannot_start_says_why() -> None:
    ended = up(DLLM_WORKER__MODEL="no-such-model")
    assert ended.returncode == 1
    assert "The stack did not start. The worker ended with status 2:\nno 'no-such-model'" in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_taken_port_is_named() -> None:
    port = free_port()
    with listen("127.0.0.1", port):
        ended = up(DLLM_GATEWAY__PORT=str(port))
    assert ended.returncode == 1
    assert f"The gateway cannot listen on 127.0.0.1:{port}: Address already in use." in ended.stdout
    assert "DLLM_GATEWAY__PORT" in ended.stdout


def test_one_port_for_two_services_is_refused() -> None:
    port = str(free_port())
    ended = up(DLLM_GATEWAY__PORT=port, DLLM_ROUTER__PORT=port)
    assert ended.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in ended.stdout


def test_a_redis_that_does_not_answer_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stack_module, "_REDIS_START_S", 0.0)
    settings = Settings(
        redis=RedisSettings(url="redis://someone:secret@127.0.0.1:1/0?client_name=me"),
        gateway=GatewaySettings(port=0),
        router=RouterSettings(port=0),
        worker=WorkerSettings(port=0),
    )
    assert stack_module.run(settings) == 1
    output = capsys.readouterr().out
    assert "Redis at redis://127.0.0.1:1/0 does not answer: Error 111 connecting" in output
    assert "secret" not in output
    assert "Stopping" not in output


def test_a_wrong_redis_url_is_a_wrong_setting() -> None:
    command = [sys.executable, "-m", "dllm_stack.cli", "up", "--redis-url", "localhost:6379"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "redis.url" in ended.stderr


def test_what_is_of_one_model_cannot_be_for_several() -> None:
    ended = up(DLLM_UP__MODELS='["dllm-demo", "tiny-qwen3"]')
    assert ended.returncode == 1
    assert "worker.engine_url is of one model, and up.models names 2." in ended.stdout
    assert "Logs" not in ended.stdout


def test_each_model_has_a_worker_with_an_address() -> None:
    models = ["dllm-demo", "tiny-qwen3", "/models/mine.yaml"]
    several = Settings(up=UpSettings(models=models), worker=WorkerSettings(host="::1", port=9000))
    found = workers(several)
    assert [worker.name for worker in found] == ["worker-1", "worker-2", "worker-3"]
    assert [worker.model for worker in found] == models
    assert [(worker.listener.host, worker.listener.port) for worker in found] == [
        ("::1", 9000),
        ("::1", 9001),
        ("::1", 9002),
    ]
    anywhere = Settings(up=UpSettings(models=models), worker=WorkerSettings(port=0))
    assert [worker.listener.port for worker in workers(anywhere)] == [0, 0, 0]
    assert [(worker.name, worker.model) for worker in workers(Settings())] == [("worker", "dllm-demo")]


def neighbours() -> tuple[int, socket.socket]:
    """A free port, and a listener on the next one."""
    while True:
        port = free_port()
        with suppress(OSError):  # somebody else is there
            return port, listen("127.0.0.1", port + 1)


def test_a_port_taken_from_one_of_several_workers_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    port, taken = neighbours()
    settings = Settings(
        gateway=GatewaySettings(port=0),
        router=RouterSettings(port=0),
        worker=WorkerSettings(port=port),
        up=UpSettings(models=["dllm-demo", "tiny-qwen3"]),
    )
    with taken:
        assert stack_module.run(settings) == 1
    output = capsys.readouterr().out
    assert f"The worker-2 cannot listen on 127.0.0.1:{port + 1}" in output
    assert "DLLM_WORKER__PORT" in output


def test_ctrl_c_during_the_start_stops_everything(stack: LocalStack) -> None:
    running = children(stack)
    assert stack.stop() == 0
    assert not any(map(runs, running))
    assert re.findall(r"^(\w+) +stopped", stack.output(), re.MULTILINE) == [
        "gateway",
        "worker",
        "router",
        "valkey",
    ]
    assert "did not start" not in stack.output()


def test_ctrl_c_before_anything_is_ready_stops_everything() -> None:
    # The time to the first fork varies, so this falls into the start of one service or another.
    for delay_s in (0.0, 0.05, 0.2, 0.5):
        with LocalStack(until="valkey   ready", **NO_ENGINE) as stack:
            time.sleep(delay_s)
            assert stack.stop() == 0
            assert "Traceback" not in stack.output()


def test_services_end_with_up_and_the_next_one_removes_its_logs(tmp_path: Path) -> None:
    temporary = {"TMPDIR": str(tmp_path)}
    with LocalStack(until="gateway  ready", **NO_ENGINE, **temporary) as stack:
        running = children(stack)
        stack.kill()
        eventually(lambda: not any(map(runs, running)))
    assert list(tmp_path.glob("dllm-*"))
    with listen("127.0.0.1", port := free_port()):
        assert up(DLLM_GATEWAY__PORT=str(port), **temporary).returncode == 1
    assert list(tmp_path.glob("dllm-*")) == []


@pytest.mark.parametrize("name", ["router", "gateway", "valkey"])
def test_a_service_that_dies_is_started_again(stack: LocalStack, name: str) -> None:
    service = stack.service(name)
    service.send_signal(signal.SIGKILL)
    eventually(lambda: f"{name:<8} ended with status -9, starting it again" in stack.output())

    def is_back() -> bool:
        with socket.socket() as client:
            host, port = re.search(rf"{name} +ready +\w+://([\d.]+):(\d+)", stack.output()).groups()  # type: ignore[union-attr]
            return client.connect_ex((host, int(port))) == 0

    eventually(is_back)
    assert stack.service(name).pid != service.pid
