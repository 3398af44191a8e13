"""The trained checkpoint: what its code says it is, and decoded by SGLang's JointThreshold as by our own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import httpx
import pytest

from dllm_stack.local.service import free_port
from models.demo import checkpoint, shape, tokenizer
from models.demo.data.example import single
from models.demo.decoding import Decoder, JointThreshold, LowConfidence
from models.demo.rows import Encoder
from tests.engine.running import START_S, engine_process, wait_until_up
from worker.engine import catalog
from worker.engine.checkpoint import locate
from worker.tiny_checkpoint.files import CHAT_TEMPLATE

pytestmark = pytest.mark.timeout(START_S + 100)

# So low that wrong tokens are committed at first, and edited.
EAGER = JointThreshold(threshold=0.1)
QUESTIONS = [
    "Write the number from 1 to 128",
    "请介绍一下长城",
    "What is 487 + 96 * 7?",
    "Tom has 87 coins, gets 46 more and gives away 58. How many coins does Tom have now?",
]
MAX_TOKENS = 70


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(locate(catalog.load_model("dllm-demo")))


@pytest.fixture(scope="module")
def engine_url(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An engine that decodes by EAGER."""
    port, run_dir = free_port(), tmp_path_factory.mktemp("engine")
    url = f"http://127.0.0.1:{port}"
    dllm = catalog.Dllm(algorithm="JointThreshold", config=asdict(EAGER))
    with engine_process(folder, port, run_dir, dllm) as process:
        wait_until_up(process, url, run_dir / "engine.log")
        yield url


def test_its_files_are_what_the_code_would_write(folder: Path) -> None:
    built = tokenizer.load()
    assert json.loads((folder / "config.json").read_text()) == shape.config("demo", built)
    assert (folder / "tokenizer.json").read_bytes() == tokenizer.FILE.read_bytes()
    assert (folder / CHAT_TEMPLATE.name).read_bytes() == CHAT_TEMPLATE.read_bytes()


def test_it_is_below_40_megabytes(folder: Path) -> None:
    assert sum(file.stat().st_size for file in folder.iterdir()) < 40e6


async def test_the_engine_edits_as_the_plain_decoder_does(engine_url: str, folder: Path) -> None:
    encoder, model = Encoder(tokenizer.load()), checkpoint.load(folder)
    prompts = [encoder.prompt(single(question, "")) for question in QUESTIONS]

    async with httpx.AsyncClient(base_url=engine_url, timeout=280) as client:

        async def answer(prompt: list[int]) -> list[int]:
            sampling = {"temperature": 0, "max_new_tokens": MAX_TOKENS}
            response = await client.post("/generate", json={"input_ids": prompt, "sampling_params": sampling})
            ids: list[int] = response.raise_for_status().json()["output_ids"]
            return ids[: ids.index(encoder.end)] if encoder.end in ids else ids

        answers = await asyncio.gather(*map(answer, prompts))
    expected, _ = Decoder(model, EAGER).generate(prompts, MAX_TOKENS)
    assert answers == expected
    unedited, _ = Decoder(model, LowConfidence(EAGER.threshold)).generate(prompts, MAX_TOKENS)
    assert answers != unedited
