"""Who asks the running engine, and what its answers are compared with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import tokenizers

from tests.engine.decoding.plain import PlainDecoder
from tests.engine.reference import Reference


@pytest.fixture
async def engine(engine_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=engine_url, timeout=280) as client:
        yield client


@pytest.fixture(scope="session")
def reference(model_folder: Path) -> Reference:
    return Reference(model_folder)


@pytest.fixture(scope="session")
def plain(reference: Reference) -> PlainDecoder:
    return PlainDecoder(reference)


@pytest.fixture(scope="session")
def tokenizer(model_folder: Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(model_folder / "tokenizer.json"))
