"""The life of an engine's process, as small programs in its place show it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client import CollectorRegistry

from dllm_stack.settings import WorkerSettings
from tests.stack.conditions import runs
from tests.waiting import eventually
from worker.engine.command import EngineCommand
from worker.engine.process import EngineProcess
from worker.engine.supervisor import Engine, EngineGivenUp
from worker.metrics import WorkerMetrics


def program(source: str) -> EngineCommand:
    """A Python program in the place of SGLang."""
    return EngineCommand([sys.executable, "-c", source], {}, {}, 32, "8")


async def start(source: str, run_dir: Path) -> EngineProcess:
    return await EngineProcess.start(program(source), "http://127.0.0.1:9", run_dir)


# A launcher with one child, both of which ignore SIGTERM; it tells when both do.
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    print("up", child, flush=True)
time.sleep(600)
"""


async def stubborn(run_dir: Path) -> tuple[EngineProcess, psutil.Process]:
    """The process, and its child."""
    process = await start(STUBBORN, run_dir)

    async def is_up() -> bool:
        return len(process.tail().split()) == 2

    await eventually(is_up)
    return process, psutil.Process(int(process.tail().split()[1]))


async def gone(*processes: psutil.Process) -> bool:
    return not any(map(runs, processes))


async def test_the_end_of_the_launcher_is_told_with_its_status(tmp_path: Path) -> None:
    process = await start("print('out of memory'); raise SystemExit(3)", tmp_path)
    assert await process.ended() == "ended with status 3"
    await process.stop()
    assert process.tail() == "out of memory"


async def test_stopping_leaves_none_of_its_processes(tmp_path: Path) -> None:
    process, child = await stubborn(tmp_path)
    await process.stop()
    assert await gone(child)
    assert await process.ended() == "ended with status -9"


# Shares memory as SGLang does, under a name that it tells, and as others may.
SHARING = """
import mmap, multiprocessing, os, time
lock = multiprocessing.get_context("spawn").Lock()
names = [f"/dev/shm/{name}_{os.getpid()}" for name in ("sglang_loads", "nccl-Xy", "checkpoint")]
for name in names:
    with open(name, "w+b") as file:
        file.truncate(4096)
        globals()[name] = mmap.mmap(file.fileno(), 4096)
print(f"/dev/shm/sem.{lock._semlock.name[1:]}", *names, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("ended", [False, True])
async def test_nor_of_the_memory_they_shared(tmp_path: Path, ended: bool) -> None:
    process = await start(SHARING, tmp_path)

    async def is_up() -> bool:
        return "checkpoint" in process.tail()

    await eventually(is_up)
    *shared, foreign = map(Path, process.tail().split())
    members = [psutil.Process(process.pid), *psutil.Process(process.pid).children()]
    assert len(members) == 3, "the program, the one that ties it to us, and Python's resource tracker"
    if ended:
        process.watch_children()
        members[0].kill()
        await process.ended()
    await process.stop()
    assert await gone(*members)
    assert [path for path in shared if path.exists()] == []
    foreign.unlink()


async def test_a_full_disk_does_not_make_it_wait(tmp_path: Path) -> None:
    (tmp_path / "engine.log").symlink_to("/dev/full")
    process = await start("print('x' * 1_000_000)", tmp_path)
    assert await process.ended() == "ended with status 0"
    await process.stop()


async def test_a_lost_child_is_the_end_once_it_is_watched(tmp_path: Path) -> None:
    process, child = await stubborn(tmp_path)
    process.watch_children()
    ended = asyncio.create_task(process.ended())
    child.kill()
    assert "lost its process" in await ended
    await process.stop()


async def test_the_log_is_bounded(tmp_path: Path) -> None:
    process = await start("for n in range(40 * 1024): print(f'{n:05}' + 1018 * '.')", tmp_path)
    assert await process.ended() == "ended with status 0"
    await process.stop()
    old, new = ((tmp_path / name).stat().st_size for name in ("engine.log.old", "engine.log"))
    assert max(old, new) < 17 << 20
    assert old + new < 40 << 20
    assert process.tail(1).startswith("40959")


async def test_what_the_engine_leaves_behind_is_in_the_run_folder(tmp_path: Path) -> None:
    source = "import tempfile; print(tempfile.mkstemp()[1])"
    process = await start(source, tmp_path)
    await process.ended()
    await process.stop()
    assert Path(process.tail()).parent == tmp_path


def engine_of(source: str, run_dir: Path, **settings: Any) -> Engine:
    return Engine(
        lambda: start(source, run_dir),
        lambda info: None,
        WorkerSettings(**settings),
        WorkerMetrics(CollectorRegistry(), "tiny"),
        lambda: None,
    )


async def test_an_engine_that_never_gets_ready_is_given_up_with_its_output(tmp_path: Path) -> None:
    engine = engine_of("print('no kernel for this GPU'); raise SystemExit(7)", tmp_path)
    with pytest.raises(EngineGivenUp, match=r"(?s)status 7 before it was ready.*no kernel for this GPU"):
        await engine.run()
    assert (tmp_path / "engine.log").read_text().count("no kernel") == 3


async def test_an_engine_that_loads_for_too_long_is_given_up(tmp_path: Path) -> None:
    engine = engine_of("import time; time.sleep(600)", tmp_path, start_timeout_s=0.3)
    with pytest.raises(EngineGivenUp, match=r"was not ready after 0\.3 s"):
        await engine.run()


async def test_what_an_engine_inherits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of collectives across GPUs, and which GPUs a pod or `up` has given it: nothing is left out or set."""
    given = {
        "NCCL_DEBUG": "INFO",
        "NCCL_SOCKET_IFNAME": "eth0",
        "RCCL_MSCCL_ENABLE": "0",
        "NVIDIA_VISIBLE_DEVICES": "GPU-5aaa",
        "CUDA_VISIBLE_DEVICES": "GPU-5aaa,GPU-6aaa",
        "ROCR_VISIBLE_DEVICES": "4,5",
        "HIP_VISIBLE_DEVICES": "1",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    told = "import json, os; print(json.dumps({name: os.environ[name] for name in %r}))"
    process = await start(told % list(given), tmp_path)
    await process.ended()
    await process.stop()
    assert json.loads(process.tail()) == given
