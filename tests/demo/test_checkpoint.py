"""SGLang loads a checkpoint of the demo model's size and decodes as the plain reference does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dllm_stack.local.service import free_port
from models.demo import checkpoint, tokenizer
from models.demo.chat import Chat
from models.demo.data.example import single
from tests.demo.random_model import random_model
from tests.engine.conftest import START_S, engine_process
from tests.engine.reference import Reference

pytestmark = pytest.mark.timeout(START_S + 100)

QUESTIONS = ["Write the number from 1 to 128", "请介绍一下长城", "What is a diffusion language model?"]
MAX_TOKENS = 70


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    checkpoint.save(random_model("demo"), tokenizer.load(), folder)
    return folder


@pytest.fixture(scope="module")
def engine_url(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, run_dir = free_port(), tmp_path_factory.mktemp("engine")
    url = f"http://127.0.0.1:{port}"
    with engine_process(folder, port, run_dir) as process:
        while not _is_up(url):
            assert process.poll() is None, (run_dir / "engine.log").read_text()[-4000:]
            time.sleep(0.2)
        yield url


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/model_info", timeout=5).is_success
    except httpx.TransportError:
        return False


async def test_the_engine_equals_the_reference(engine_url: str, folder: Path) -> None:
    reference, built = Reference(folder), tokenizer.load()
    prompts = [built.encode(Chat().render(single(question, ""))).ids for question in QUESTIONS]

    async with httpx.AsyncClient(base_url=engine_url, timeout=60) as client:

        async def answer(prompt: list[int]) -> list[int]:
            sampling = {"temperature": 0, "max_new_tokens": MAX_TOKENS, "ignore_eos": True}
            response = await client.post("/generate", json={"input_ids": prompt, "sampling_params": sampling})
            ids: list[int] = response.raise_for_status().json()["output_ids"]
            return ids

        answers = await asyncio.gather(*map(answer, prompts))
    assert len({token for each in answers for token in each}) > 10  # no single word over and over
    assert answers == [reference.generate(prompt, MAX_TOKENS).token_ids for prompt in prompts]
