"""What a worker knows of an engine before that runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dllm_stack.settings import WorkerSettings
from worker import plan
from worker.engine import catalog, checkpoint, hardware
from worker.engine.client import EngineInfo
from worker.engine.hardware import Gpu
from worker.prompt import Limits

MODEL = """
name: mine
checkpoint: "tiny:"
dllm: {dllm}
"""


STOCK = "{algorithm: LowConfidence, config: {block_size: 16}}"
MODES = "{modes: llada2.1, mode: speed}"


def attached(folder: Path, dllm: str = MODES) -> plan.Plan:
    file = folder / "mine.yaml"
    file.write_text(MODEL.format(dllm=dllm))
    settings = WorkerSettings(model=str(file), engine_url="http://127.0.0.1:30000")
    return plan.make(settings, created=0)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:30000",
        "http://",
        "http://:30000",
        "http://engine:300000",
        "http://engine/v1",
        "ftp://engine",
    ],
)
def test_an_engines_address_is_a_servers(tmp_path: Path, url: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(MODEL.format(dllm=MODES))
    with pytest.raises(plan.Refusal, match=r"worker\.engine_url"):
        plan.make(WorkerSettings(model=str(file), engine_url=url), created=0)


@pytest.mark.parametrize(
    ("dllm", "size"),
    [
        (MODES, 32),
        ("{modes: llada2.1, mode: speed, block_size: 16}", 16),
        ("{algorithm: LowConfidence}", 32),
        (STOCK, 16),
    ],
)
def test_the_block_size_of_an_attached_engine_is_the_model_files(
    tmp_path: Path, dllm: str, size: int
) -> None:
    assert attached(tmp_path, dllm).model.block_size == size


def engine(algorithm: str) -> EngineInfo:
    limits = Limits(prompt=2000, context=2046)
    return EngineInfo(limits, slots=8, algorithm=algorithm, attention_backend=None, streams_deltas=False)


def test_the_card_tells_what_may_be_chosen(tmp_path: Path) -> None:
    made = attached(tmp_path)
    for card in (made.model, made.card(engine("PerRequest"))):
        assert card.decoding
        assert card.decoding.default == card.decoding.modes["speed"]
        assert card.algorithm == "JointThreshold"
    assert made.card(engine("PerRequest")).context_length == 2046


def test_the_card_tells_of_no_choice_where_the_engine_has_none(tmp_path: Path) -> None:
    assert attached(tmp_path, STOCK).model.decoding is None
    card = attached(tmp_path).card(engine("JointThresholdInDel"))
    assert (card.algorithm, card.decoding) == ("JointThresholdInDel", None)


def test_an_engine_of_our_own_is_known_to_do_the_default(tmp_path: Path) -> None:
    own = plan.make(WorkerSettings(model="tiny-llada2"), created=0)
    assert own.model.decoding
    assert own.decisions.default == own.model.decoding.default
    assert attached(tmp_path).decisions.default is None
    arguments = ["--dllm-algorithm", "LowConfidence"]
    stock = plan.make(WorkerSettings(model="tiny-llada2", engine_args=arguments), created=0)
    assert (stock.model.algorithm, stock.model.decoding) == ("LowConfidence", None)


@pytest.mark.parametrize(
    ("architecture", "follow"),
    [("LLaDA2MoeModelLM", False), ("DiffusionGemmaForBlockDiffusion", True), ("GptOssForCausalLM", False)],
)
def test_where_blocks_begin_depends_on_the_architecture(
    tmp_path: Path, architecture: str, follow: bool
) -> None:
    made = attached(tmp_path)
    facts = made.facts.model_copy(update={"architecture": architecture})
    assert replace(made, facts=facts).blocks_follow_prompt is follow


def test_an_engine_gets_its_gpus_as_sglang_can_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads numbers only; a device plugin, or somebody by hand, may have given UUIDs."""
    gpus = [Gpu("NVIDIA H200", 140 * 2**30, f"GPU-{number}aaa", number) for number in range(4)]
    monkeypatch.setattr(hardware, "nvidia_gpus", lambda: gpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-3aaa,GPU-1aaa")
    model = catalog.load_model("llada2.1-flash")
    facts = checkpoint.facts(model, checkpoint.locate(model))
    settings = WorkerSettings(model=model.name, profile="h200-8x", engine_args=["--tp-size", "2"])
    built = plan._builder(settings, model, model.checkpoint, facts)(30000, Path())
    assert built.env["CUDA_VISIBLE_DEVICES"] == "3,1"
    assert built.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
