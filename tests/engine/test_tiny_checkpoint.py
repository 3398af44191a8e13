"""The generated checkpoint: the same every time, whole or absent, and fit to stand in for a real model."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoTokenizer

from tests.engine.reference import Reference
from worker import tiny_checkpoint
from worker.tiny_checkpoint import vocabulary

FRAME = "<role>SYSTEM</role>{}detailed thinking off<|role_end|><role>HUMAN</role>{}<|role_end|>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.write(tmp_path_factory.mktemp("checkpoint") / "tiny")


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_same_seed_same_bytes(folder: Path, tmp_path: Path) -> None:
    assert contents(tiny_checkpoint.write(tmp_path / "again")) == contents(folder)
    other = contents(tiny_checkpoint.write(tmp_path / "other", seed=1))
    assert other["model.safetensors"] != contents(folder)["model.safetensors"]


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    folder = tiny_checkpoint.write(tmp_path / "tiny")
    (folder / "config.json").write_text("edited")
    assert tiny_checkpoint.write(folder) == folder
    assert (folder / "config.json").read_text() == "edited"


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(folder: Path, *_: object) -> None:
        (folder / "model.safetensors").write_text("half")
        raise OSError("no space left")

    monkeypatch.setattr(tiny_checkpoint, "_fill", full_disk)
    with pytest.raises(OSError, match="no space left"):
        tiny_checkpoint.write(tmp_path / "tiny")
    assert list(tmp_path.iterdir()) == []


def test_another_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OSError, match="not empty"):
        tiny_checkpoint.write(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_chat_template_is_lladas_role_format(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def render(*messages: tuple[str, str]) -> str:
        turns = [{"role": role, "content": content} for role, content in messages]
        rendered: str = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return rendered

    assert render(("user", "hi")) == FRAME.format("", "hi") + "<role>ASSISTANT</role>"
    assert render(
        ("system", "Be brief."), ("user", "hi"), ("assistant", "Hello."), ("tool", "4"), ("user", "so?")
    ) == FRAME.format("Be brief.\n", "hi") + (
        "<role>ASSISTANT</role>Hello.<|role_end|><role>OBSERVATION</role>4<|role_end|>"
        "<role>HUMAN</role>so?<|role_end|><role>ASSISTANT</role>"
    )
    assert render(("developer", "Be brief."), ("user", "hi")) == render(
        ("system", "Be brief."), ("user", "hi")
    )


def test_any_text_survives_the_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in ("the sun, and the moon.\n", "长城很长", "zürich 🏰 \t x+y=2"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert [len(tokenizer.encode(token).ids) for token in vocabulary.spoken()] == [1] * len(
        vocabulary.spoken()
    )
    assert len(tokenizer.encode(FRAME).ids) < 20


def test_noise_decodes_like_a_trained_model(folder: Path) -> None:
    """Several tokens a forward, all of them whole words, and different answers to different prompts."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    reference = Reference(folder)
    prompts = ["hi", "Write the number from 1 to 128", "你好", "The sun was warm."]
    answers = [
        reference.generate(tokenizer.encode(FRAME.format("", prompt)).ids, max_tokens=96)
        for prompt in prompts
    ]
    tokens = [token for answer in answers for token in answer.token_ids]
    assert 2 < len(tokens) / sum(answer.forwards for answer in answers) < 6
    spoken = {*vocabulary.spoken(), vocabulary.END_OF_TEXT}
    assert {tokenizer.decode([token], skip_special_tokens=False) for token in tokens} <= spoken
    assert len({tuple(answer.token_ids) for answer in answers}) == len(prompts)


def test_the_autoregressive_one(tmp_path: Path) -> None:
    """The same every time, and files that transformers reads: SGLang loads it in tests/stack."""
    folder = tiny_checkpoint.write(tmp_path / "one", autoregressive=True)
    assert contents(tiny_checkpoint.write(tmp_path / "two", autoregressive=True)) == contents(folder)
    other = contents(tiny_checkpoint.write(tmp_path / "three", seed=1, autoregressive=True))
    assert other["model.safetensors"] != contents(folder)["model.safetensors"]
    config = AutoConfig.from_pretrained(folder)
    assert config.architectures == ["Qwen3ForCausalLM"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.eos_token_id == config.eos_token_id
    assert tokenizer.mask_token is None
    assert not [*folder.glob("*.py")]
