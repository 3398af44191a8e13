"""A running engine for every test below: one of each SGLang in turn, or the one at DLLM_TEST_ENGINE_URL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import tokenizers

from dllm_stack.local.service import free_port
from tests.engine.reference import Reference
from worker import cpu, tiny_checkpoint
from worker.engine import catalog, checkpoint, command

# A start takes 15 s on two idle cores, and several times that on busy ones.
START_S = 300


RUNNING = os.environ.get("DLLM_TEST_ENGINE_URL")

PER_REQUEST = catalog.Dllm(
    algorithm="PerRequest",
    config={"default": {"algorithm": "LowConfidence", "threshold": 0.95}, "steps_per_round": 8},
)

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


@contextmanager
def engine_process(
    location: Path,
    port: int,
    run_dir: Path,
    dllm: catalog.Dllm | None = None,
    *,
    sglang: str = INSTALLED,
    engine_args: Sequence[str] = (),
) -> Iterator[subprocess.Popen[bytes]]:
    """The worker's own command for the CPU, run on any checkpoint; output goes to run_dir/engine.log.

    Args:
        dllm: instead of the model file's.
        sglang: the version, one of OLDEST and INSTALLED.
    """
    model = catalog.load_model("tiny-llada2")
    if dllm is not None:
        model = model.model_copy(update={"dllm": dllm})
    planned = command.build(
        model,
        catalog.load_profile("cpu-dev"),
        str(location),
        checkpoint.facts(model, str(location)),
        port=port,
        run_dir=run_dir,
        engine_args=engine_args,
        sglang_version=sglang,
    )
    planned.write_files()
    with (run_dir / "engine.log").open("wb") as log:
        process = subprocess.Popen(
            planned.argv,
            env=os.environ | planned.env | sglang_environment(sglang),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that all of it can be killed
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
def engine_url(sglang: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if RUNNING:
        yield RUNNING
        return
    run_dir = tmp_path_factory.mktemp("engine")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    location = tiny_checkpoint.write(run_dir / "tiny")
    with engine_process(location, port, run_dir, PER_REQUEST, sglang=sglang) as process:
        wait_until_up(process, url, run_dir / "engine.log")
        yield url


@pytest.fixture
async def engine(engine_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=engine_url, timeout=60) as client:
        yield client


def wait_until_up(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/model_info", timeout=5).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise RuntimeError(f"the engine did not start:\n{log.read_text(errors='replace')[-4000:]}")


@pytest.fixture(scope="session")
def model_folder(engine_url: str) -> Path:
    """The checkpoint that the engine runs, wherever it came from."""
    return Path(httpx.get(f"{engine_url}/model_info").json()["model_path"])


@pytest.fixture(scope="session")
def reference(model_folder: Path) -> Reference:
    return Reference(model_folder)


@pytest.fixture(scope="session")
def tokenizer(model_folder: Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(model_folder / "tokenizer.json"))
