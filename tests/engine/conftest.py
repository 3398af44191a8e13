"""One running SGLang for every test below: DLLM_TEST_ENGINE_URL if that is set, else one of our own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import tokenizers

from dllm_stack.local.service import free_port
from tests.engine.reference import Reference
from worker import tiny_checkpoint
from worker.engine import catalog, checkpoint, command

# A start takes 15 s on two idle cores, and several times that on busy ones.
START_S = 300


@contextmanager
def engine_process(
    location: Path, port: int, run_dir: Path, dllm: catalog.Dllm | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The worker's own command for the CPU, run on any checkpoint; output goes to run_dir/engine.log.

    Args:
        dllm: instead of LowConfidence.
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
        sglang_version=command.sglang_version() or "",
    )
    planned.write_files()
    with (run_dir / "engine.log").open("wb") as log:
        process = subprocess.Popen(
            planned.argv,
            env=os.environ | planned.env,
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


@pytest.fixture(scope="session")
def engine_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if running := os.environ.get("DLLM_TEST_ENGINE_URL"):
        yield running
        return
    run_dir = tmp_path_factory.mktemp("engine")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with engine_process(tiny_checkpoint.write(run_dir / "tiny"), port, run_dir) as process:
        wait_until_up(process, url, run_dir / "engine.log")
        yield url


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
