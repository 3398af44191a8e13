"""A running engine for the tests that ask for one: one of each SGLang in turn, or the one at
DLLM_TEST_ENGINE_URL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from dllm_stack.local.service import free_port, stop_with
from worker import cpu, tiny_checkpoint
from worker.engine import catalog, checkpoint, command

# A start takes 15 s on two idle cores, and many times that on busy ones.
START_S = 600

RUNNING = os.environ.get("DLLM_TEST_ENGINE_URL")

# An algorithm of a user's own, beside the model's modes.
OWN = Path(__file__).resolve().parents[2] / "docs" / "examples" / "leftmost.py"
ENDS_WITHIN_S = 200

OLDEST, INSTALLED = "0.5.17", command.sglang_version() or ""
_OLDEST_FOLDER = Path(sys.prefix) / f"sglang-{OLDEST}"


def sglang_environment(sglang: str) -> dict[str, str]:
    """What a process has to have in its environment for its CPU engine to be of this version."""
    added = cpu.engine_environment()
    if sglang != OLDEST:
        return added
    if not (_OLDEST_FOLDER / "sglang").is_dir():
        pytest.fail(f"there is no sglang {OLDEST}: run make {_OLDEST_FOLDER}/.installed")
    return added | {"PYTHONPATH": f"{_OLDEST_FOLDER}{os.pathsep}{added['PYTHONPATH']}"}


def engine_command(
    location: Path,
    port: int,
    run_dir: Path,
    dllm: catalog.Dllm | None = None,
    *,
    sglang: str = INSTALLED,
    engine_args: Sequence[str] = (),
    **of_profile: Any,
) -> command.EngineCommand:
    """The worker's own command for the CPU, for any checkpoint.

    Args:
        dllm: instead of the model file's.
        sglang: the version, one of OLDEST and INSTALLED.
        of_profile: instead of what the profile says of the engine.
    """
    model, profile = catalog.load_model("tiny-llada2"), catalog.load_profile("cpu-dev")
    if dllm is not None:
        model = model.model_copy(update={"dllm": dllm})
    engine = profile.models[model.name].model_copy(update=of_profile)
    return command.build(
        model,
        profile.model_copy(update={"models": {model.name: engine}}),
        str(location),
        checkpoint.facts(model, str(location)),
        port=port,
        run_dir=run_dir,
        engine_args=engine_args,
        sglang_version=sglang,
    )


@contextmanager
def engine_process(
    location: Path,
    port: int,
    run_dir: Path,
    dllm: catalog.Dllm | None = None,
    *,
    sglang: str = INSTALLED,
    **more: Any,
) -> Iterator[subprocess.Popen[bytes]]:
    """An engine, run as `engine_command` says; output goes to run_dir/engine.log."""
    planned = engine_command(location, port, run_dir, dllm, sglang=sglang, **more)
    planned.write_files()
    with (run_dir / "engine.log").open("wb") as log:
        process = subprocess.Popen(
            planned.argv,
            env=os.environ | planned.env | sglang_environment(sglang),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that all of it can be killed
            preexec_fn=stop_with(os.getpid()),
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="session", params=[RUNNING] if RUNNING else [OLDEST, INSTALLED])
def sglang(request: pytest.FixtureRequest) -> str:
    """The engine's version. Tests that use it, or the engine, run once with each; pytest sorts them, so
    that no two engines run at once."""
    if RUNNING:
        return str(httpx.get(f"{RUNNING}/server_info").json()["version"])
    return str(request.param)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint that the engines run, wherever it came from."""
    if RUNNING:
        return Path(httpx.get(f"{RUNNING}/model_info").json()["model_path"])
    return tiny_checkpoint.write(tmp_path_factory.mktemp("checkpoint") / "tiny")


@dataclass(frozen=True)
class Running:
    """
    Attributes:
        launcher: None when it is somebody else's.
    """

    url: str
    launcher: psutil.Process | None


@pytest.fixture(scope="session")
def running_engine(
    sglang: str, model_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """The worker's own command, with an algorithm of a user's own. SIGTERM has to end all of it."""
    if RUNNING:
        yield Running(RUNNING, None)
        return
    run_dir, port = tmp_path_factory.mktemp("engine"), free_port()
    url, log = f"http://127.0.0.1:{port}", run_dir / "engine.log"
    dllm = catalog.load_model("tiny-llada2").dllm
    assert dllm is not None
    dllm = dllm.model_copy(update={"algorithms": {"Leftmost": OWN}})
    with engine_process(model_folder, port, run_dir, dllm, sglang=sglang) as process:
        wait_until_up(process, url, log)
        launcher = psutil.Process(process.pid)
        yield Running(url, launcher)
        processes = [launcher, *launcher.children(recursive=True)]
        process.terminate()
        _, left = psutil.wait_procs(processes, timeout=ENDS_WITHIN_S)
        assert left == [], log.read_text(errors="replace")[-2000:]


@pytest.fixture(scope="session")
def engine_url(running_engine: Running) -> str:
    return running_engine.url


def wait_until_up(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/model_info", timeout=60).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise RuntimeError(f"the engine did not start:\n{log.read_text(errors='replace')[-4000:]}")
