"""Model and profile files, and the checkpoints they name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dllm_stack.decoding import Decision
from dllm_stack.messages import DecodingCard
from dllm_stack.settings import CONFIGS
from tests.worker import checkpoints
from worker import tiny_checkpoint
from worker.engine import catalog, checkpoint
from worker.engine.catalog import CatalogError, Model
from worker.engine.checkpoint import CheckpointError

QUALITY = {"algorithm": "JointThreshold", "threshold": 0.7, "edit_threshold": 0.5}
MODEL = {
    "name": "mine",
    "checkpoint": "org/mine",
    "dllm": {"modes": {"quality": QUALITY}, "mode": "quality"},
}
STOCK = {"name": "mine", "checkpoint": "org/mine", "dllm": {"algorithm": "LowConfidence"}}
PROFILE = {
    "name": "mine",
    "vendor": "nvidia",
    "gpu": "H100",
    "gpus": 8,
    "gpu_memory_gib": 79,
    "dllm_attention_backend": "flashinfer",
    "models": {"mine": {"tp": 4, "mem_fraction": 0.8, "max_running_requests": 8}},
}


def write(folder: Path, content: Any) -> str:
    path = folder / "mine.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def changed(content: dict[str, Any], field: str, value: Any) -> dict[str, Any]:
    """A deep copy with the field at a dotted path set."""
    copy: dict[str, Any] = json.loads(json.dumps(content))
    *parents, last = field.split(".")
    inner = copy
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    return copy


@pytest.mark.parametrize("file", sorted((CONFIGS / "models").glob("*.yaml")), ids=lambda file: file.stem)
def test_every_model_file_is_named_as_its_model(file: Path) -> None:
    assert catalog.load_model(file.stem).name == file.stem
    assert catalog.load_model(str(file)) == catalog.load_model(file.stem)


@pytest.mark.parametrize("file", sorted((CONFIGS / "profiles").glob("*.yaml")), ids=lambda file: file.stem)
def test_every_profile_is_named_as_its_file_and_lists_known_models(file: Path) -> None:
    profile = catalog.load_profile(file.stem)
    assert profile.name == file.stem
    for model in profile.models:
        catalog.load_model(model)


@pytest.mark.parametrize("file", sorted((CONFIGS / "profiles").glob("*-8x.yaml")), ids=lambda file: file.stem)
def test_a_node_has_room_for_whole_engines(file: Path) -> None:
    profile = catalog.load_profile(file.stem)
    for engine in profile.models.values():
        assert profile.gpus % engine.tp == 0


def decoding(model: str) -> DecodingCard:
    dllm = catalog.load_model(model).dllm
    assert dllm
    assert dllm.decoding
    return dllm.decoding


def test_decoding_of_llada() -> None:
    low_confidence = Decision(algorithm="LowConfidence", parameters={"threshold": 0.95})
    for name in ("llada2.0-mini", "llada2.0-mini-cap", "llada2.0-flash", "llada2.0-flash-cap"):
        assert decoding(name).default == decoding(name).modes["quality"] == low_confidence
    for name in ("llada2.1-mini", "llada2.1-flash"):
        modes = decoding(name).modes
        assert decoding(name).default == modes["speed"]
        joint = {"max_post_edit_steps": 16, "penalty_lambda": 0}
        assert modes == {
            "speed": Decision(
                algorithm="JointThreshold", parameters={"threshold": 0.5, "edit_threshold": 0.0, **joint}
            ),
            "quality": Decision(
                algorithm="JointThreshold", parameters={"threshold": 0.7, "edit_threshold": 0.5, **joint}
            ),
        }
    assert catalog.load_model("gpt-oss-120b").dllm is None


@pytest.mark.parametrize("model", ["dllm-demo", "tiny-llada2"])
def test_the_small_models_have_modes_of_both_families(model: str) -> None:
    card = decoding(model)
    assert {name: mode.algorithm for name, mode in card.modes.items()} == {
        "quality": "LowConfidence",
        "speed": "JointThreshold",
    }
    assert card.default == card.modes["quality"]
    assert card.sampling == ["LowConfidence"]
    assert card.algorithms["Hierarchical"] == ["low_threshold", "max_steps", "threshold"]


def test_modes_may_be_in_a_file_of_ones_own(tmp_path: Path) -> None:
    family = tmp_path / "family.yaml"
    family.write_text(yaml.safe_dump({"quality": QUALITY, "careful": {"algorithm": "Credit"}}))
    path = write(tmp_path, changed(MODEL, "dllm.modes", str(family)))
    dllm = catalog.load_model(path).dllm
    assert dllm
    assert {name: mode.algorithm for name, mode in dllm.modes.items()} == {
        "quality": "JointThreshold",
        "careful": "Credit",
    }


def test_an_algorithm_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.touch()
    modes = {"quality": {"algorithm": "Mine", "greed": 7}}
    own = {"modes": modes, "mode": "quality", "algorithms": {"Mine": str(file)}}
    dllm = catalog.load_model(write(tmp_path, changed(MODEL, "dllm", own))).dllm
    assert dllm
    assert dllm.decoding
    assert dllm.decoding.default == Decision(algorithm="Mine", parameters={"greed": 7})
    assert dllm.decoding.algorithms["Mine"] == []


def test_a_model_file_says_the_same_when_it_is_written_out(tmp_path: Path) -> None:
    model = catalog.load_model("llada2.1-mini")
    assert catalog.load_model(write(tmp_path, model.model_dump(exclude_none=True))) == model


def test_sglangs_own_algorithm_leaves_nothing_to_choose(tmp_path: Path) -> None:
    dllm = catalog.load_model(write(tmp_path, STOCK)).dllm
    assert dllm
    assert (dllm.algorithm, dllm.decoding) == ("LowConfidence", None)


@pytest.mark.parametrize(
    ("dllm", "message"),
    [
        ({}, "dllm: mode must be one of the modes, and there are none"),
        ({"modes": {"quality": QUALITY}}, "dllm: mode must be one of quality"),
        ({"modes": {"quality": QUALITY}, "mode": "speed"}, "dllm: mode must be one of quality"),
        ({"modes": "llada3", "mode": "speed"}, "dllm.modes: no 'llada3' in configs/modes: choose "),
        ({"modes": "llada2.1", "mode": "speed", "algorithm": "X"}, "dllm: algorithm is for all requests"),
        ({"modes": "llada2.1", "mode": "speed", "config": {"a": 1}}, "dllm: config is that of an algorithm"),
        ({"modes": {"a:b": QUALITY}, "mode": "a:b"}, "dllm.modes.a:b.[key]: String should match pattern"),
        ({"modes": {"a": {"threshold": 1}}, "mode": "a"}, "dllm.modes.a.algorithm: Field required"),
        (
            {"modes": {"a": {"algorithm": "Mine"}}, "mode": "a"},
            "dllm: modes.a.algorithm: there is no Mine: choose LowConfidence, JointThreshold",
        ),
        (
            {"modes": {"a": {"algorithm": "LowConfidence", "threshold": 7}}, "mode": "a"},
            "dllm: modes.a.threshold: expected `float` <= 1.0",
        ),
        (
            {
                "modes": {"a": {"algorithm": "Mine", "greed": "much"}},
                "mode": "a",
                "algorithms": {"Mine": __file__},
            },
            "dllm: modes.a.greed must be a number",
        ),
        (
            {"modes": {"a": {"algorithm": "LowConfidence", "greed": 7}}, "mode": "a"},
            "dllm: modes.a.greed is not a decoding parameter",
        ),
        (
            {"modes": {"a": {"algorithm": "LowConfidence", "edit_threshold": 0.5}}, "mode": "a"},
            "dllm: modes.a.edit_threshold is not a parameter of LowConfidence, which takes ",
        ),
        (
            {"modes": {"a": QUALITY}, "mode": "a", "algorithms": {"Mine": "/no/such.py"}},
            "dllm: algorithms.Mine: there is no file /no/such.py",
        ),
        (
            {"modes": {"a": QUALITY}, "mode": "a", "algorithms": {"Credit": "/no/such.py"}},
            "dllm: algorithms.Credit: is the name of one that there is already",
        ),
    ],
)
def test_a_wrong_way_to_decode(tmp_path: Path, dllm: dict[str, Any], message: str) -> None:
    path = write(tmp_path, changed(MODEL, "dllm", dllm))
    with pytest.raises(CatalogError) as caught:
        catalog.load_model(path)
    assert f"{path}: {message}" in str(caught.value)


@pytest.mark.parametrize("file", sorted((CONFIGS / "modes").glob("*.yaml")), ids=lambda file: file.stem)
def test_every_file_of_modes_is_used(file: Path) -> None:
    models = [yaml.safe_load(each.read_text()) for each in (CONFIGS / "models").glob("*.yaml")]
    assert file.stem in {model.get("dllm", {}).get("modes") for model in models}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", "a:b", "name: String should match pattern"),
        ("name", "{pool}", "name: String should match pattern"),
        ("checkpoint", "", "checkpoint: String should have at least 1 character"),
        ("dllm.algorithm", 5, "dllm.algorithm: Input should be a valid string"),
        ("dllm.config", ["threshold"], "dllm.config: Input should be a valid dictionary"),
        ("algorithm", "LowConfidence", "algorithm: Extra inputs are not permitted"),
        ("facts", {"architecture": "X"}, "facts.attention_heads: Field required"),
    ],
)
def test_a_wrong_model_file(tmp_path: Path, field: str, value: Any, message: str) -> None:
    path = write(tmp_path, changed(MODEL, field, value))
    with pytest.raises(CatalogError) as caught:
        catalog.load_model(path)
    assert f"{path}: {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("vendor", "intel", "vendor: Input should be 'nvidia', 'amd' or 'cpu'"),
        ("vendor", "cpu", "vendor cpu has no gpu, gpus or gpu_memory_gib"),
        ("gpu", None, "vendor nvidia needs gpu, gpus and gpu_memory_gib"),
        ("models.mine.tp", 16, "models.mine.tp: 16 is more than the machine's 8 GPUs"),
        ("models.mine.tp", 0, "models.mine.tp: Input should be greater than or equal to 1"),
        ("models.mine.mem_fraction", 80, "models.mine.mem_fraction: Input should be less than 1"),
        ("models.mine.max_running_requests", 0, "models.mine.max_running_requests: Input should be greater"),
        (
            "models.mine.prompt_rows",
            -1,
            "models.mine.prompt_rows: Input should be greater than or equal to 0",
        ),
        ("models.mine.steps_per_round", 0, "models.mine.steps_per_round: Input should be greater"),
        ("models.mine.args", "--x", "models.mine.args: Input should be a valid list"),
        ("models.mine.tensor_parallel", 4, "models.mine.tensor_parallel: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_profile(tmp_path: Path, field: str, value: Any, message: str) -> None:
    path = write(tmp_path, changed(PROFILE, field, value))
    with pytest.raises(CatalogError) as caught:
        catalog.load_profile(path)
    assert f"{path}: {message}" in str(caught.value)


def test_every_wrong_field_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, {"name": 1, "vendor": "nvidia"})
    with pytest.raises(CatalogError) as caught:
        catalog.load_profile(path)
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == [
        "name",
        "dllm_attention_backend",
        "models",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "must be a mapping"), ("- a", "must be a mapping"), ("a: [", "not YAML"), ("a: \x00", "not YAML")],
)
def test_a_file_that_is_no_mapping(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(CatalogError, match=message) as caught:
        catalog.load_model(path)
    assert path in str(caught.value)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(CatalogError, match=r"no 'llada3' in configs/models: choose .*llada2\.1-mini"):
        catalog.load_model("llada3")
    with pytest.raises(CatalogError, match=r"no 'a100' in configs/profiles: choose .*h100-8x"):
        catalog.load_profile("a100")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="No such file"):
        catalog.load_model(str(tmp_path / "mine.yaml"))


def test_a_folder_says_what_it_is(tmp_path: Path) -> None:
    folder = checkpoints.write(tmp_path / "mine", checkpoints.LLADA2_MINI)
    (folder / "model-1.safetensors").write_bytes(b"1" * 1_500_000)
    (folder / "model-2.safetensors").write_bytes(b"1" * 500_000)
    model = Model(name="mine", checkpoint=str(folder))
    facts = checkpoint.facts(model, checkpoint.locate(model))
    assert facts.is_dllm
    assert (facts.attention_heads, facts.kv_heads) == (16, 4)
    assert (facts.block_size, facts.mask_id) == (32, 156895)
    assert facts.weights_gb == 0.002
    assert facts.context_length == 32768
    assert facts.chat_template is True


def test_the_checkpoints_own_mask_and_block_size_come_first(tmp_path: Path) -> None:
    config = checkpoints.LLADA2_MINI | {"mask_token_id": 7, "block_size": 16}
    folder = checkpoints.write(tmp_path / "mine", config)
    facts = checkpoint.facts(Model(name="mine", checkpoint="org/mine"), str(folder))
    assert (facts.block_size, facts.mask_id) == (16, 7)


def test_an_autoregressive_folder(tmp_path: Path) -> None:
    folder = checkpoints.write(tmp_path / "mine", checkpoints.LLAMA)
    facts = checkpoint.facts(Model(name="mine", checkpoint="org/mine"), str(folder))
    assert not facts.is_dllm
    assert facts.kv_heads == 32
    assert facts.block_size is None


def test_a_multimodal_folder(tmp_path: Path) -> None:
    inner = {k: v for k, v in checkpoints.LLADA2_MINI.items() if k != "architectures"}
    config = {
        "architectures": ["DiffusionGemmaForBlockDiffusion"],
        "canvas_length": 128,
        "text_config": inner,
    }
    folder = checkpoints.write(tmp_path / "mine", config)
    facts = checkpoint.facts(Model(name="mine", checkpoint="org/mine"), str(folder))
    assert (facts.block_size, facts.attention_heads) == (128, 16)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "architectures: missing"),
        ({"architectures": ["X"]}, "missing or wrong: attention_heads, kv_heads, context_length, vocab_size"),
        (checkpoints.LLAMA | {"vocab_size": "many"}, "missing or wrong: vocab_size"),
        ([], "must be an object"),
    ],
)
def test_a_config_that_cannot_be_used(tmp_path: Path, config: Any, message: str) -> None:
    folder = checkpoints.write(tmp_path / "mine", config)
    with pytest.raises(CheckpointError, match=message) as caught:
        checkpoint.facts(Model(name="mine", checkpoint="org/mine"), str(folder))
    assert str(folder / "config.json") in str(caught.value)


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No such file"):
        checkpoint.facts(Model(name="mine", checkpoint="org/mine"), str(tmp_path))


def test_where_a_checkpoint_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(name="mine", checkpoint="org/mine")
    assert checkpoint.locate(model) == "org/mine"
    assert checkpoint.locate(model, "other/one") == "other/one"
    assert checkpoint.locate(model, str(tmp_path)) == str(tmp_path)
    monkeypatch.chdir(tmp_path.parent)
    assert checkpoint.locate(model, f"./{tmp_path.name}") == str(tmp_path)
    for wrong in ("/no/such/folder", "./nothing", "nothing", "a/b/c", "-x/y"):
        with pytest.raises(CheckpointError, match="no such folder"):
            checkpoint.locate(model, wrong)


def test_the_demo_checkpoint_comes_with_the_package() -> None:
    model = catalog.load_model("dllm-demo")
    location = checkpoint.locate(model)
    assert Path(location) == CONFIGS.parent / "models" / "demo" / "checkpoint"
    facts = checkpoint.facts(model, location)
    assert facts.is_dllm
    assert facts.chat_template is True
    assert (facts.block_size, facts.context_length) == (32, 2048)


def test_a_package_without_the_demo_checkpoint_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_DEMO_FOLDER", tmp_path)
    with pytest.raises(CheckpointError, match=f"{tmp_path}: the demo model's weights are not there"):
        checkpoint.locate(catalog.load_model("dllm-demo"))


def test_the_tiny_checkpoint_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = catalog.load_model("tiny-llada2")
    location = checkpoint.locate(model)
    assert Path(location).parent == tmp_path / "dllm-stack"
    written = (Path(location) / "model.safetensors").stat()
    assert checkpoint.locate(model) == location
    assert (Path(location) / "model.safetensors").stat() == written
    facts = checkpoint.facts(model, location)
    assert facts.is_dllm
    assert facts.chat_template is True
    assert facts.mask_id is not None
    assert facts.mask_id < facts.vocab_size


def test_another_generator_writes_another_tiny_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = catalog.load_model("tiny-llada2")
    location = checkpoint.locate(model)
    (tmp_path / "generator.py").write_text("another")
    monkeypatch.setattr(tiny_checkpoint, "__file__", str(tmp_path / "generator.py"))
    monkeypatch.setattr(tiny_checkpoint, "write", lambda folder, **_: folder)
    assert checkpoint.locate(model) != location


def test_facts_before_the_download() -> None:
    model = catalog.load_model("llada2.1-flash")
    facts = checkpoint.facts(model, model.checkpoint)
    assert (facts.attention_heads, facts.kv_heads, facts.weights_gb) == (32, 4, 205.8)
    assert (facts.block_size, facts.mask_id, facts.chat_template) == (32, 156895, None)


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's client offline, with an empty cache."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def test_another_hub_id_is_asked_for_its_config(hub_cache: Path) -> None:
    repository = hub_cache / "models--org--other"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text("abc")
    (repository / "snapshots").mkdir()
    checkpoints.write(repository / "snapshots/abc", checkpoints.LLAMA)
    index = {"metadata": {"total_size": 3_000_000_000}}
    (repository / "snapshots/abc/model.safetensors.index.json").write_text(json.dumps(index))
    facts = checkpoint.facts(catalog.load_model("llada2.1-mini"), "org/other")
    assert (facts.architecture, facts.weights_gb) == ("LlamaForCausalLM", 3.0)


def test_a_hub_id_that_cannot_be_read(hub_cache: Path) -> None:
    with pytest.raises(CheckpointError, match="org/other: cannot be read from the hub: "):
        checkpoint.facts(catalog.load_model("llada2.1-mini"), "org/other")
