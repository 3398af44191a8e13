"""The command line of every engine we know how to start, and that SGLang takes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dllm_stack.settings import CONFIGS
from tests.worker.sglang_arguments import ask
from worker import cpu
from worker.engine import arguments, catalog, checkpoint, command
from worker.engine.architectures import BLOCK_DIFFUSION
from worker.engine.catalog import Facts

RUN_DIR = Path("/run/dllm")

ROWS = 64  # of prompts, beside those of the requests; on AMD and a CPU:
FEW_ROWS = 16

# profile: tp of a mini, tp of a flash, requests at once
SIZES = {
    "h100-8x": (1, 4, 32),
    "h200-8x": (1, 4, 32),
    "b200-8x": (1, 2, 32),
    "h20-8x": (1, 4, 16),
    "mi300x-8x": (1, 4, 32),
    "mi325x-8x": (1, 4, 32),
    "mi355x-8x": (1, 4, 32),
}

CHECKPOINTS = {
    "llada2.0-mini": "inclusionAI/LLaDA2.0-mini",
    "llada2.0-mini-cap": "inclusionAI/LLaDA2.0-mini-CAP",
    "llada2.0-flash": "inclusionAI/LLaDA2.0-flash",
    "llada2.0-flash-cap": "inclusionAI/LLaDA2.0-flash-CAP",
    "llada2.1-mini": "inclusionAI/LLaDA2.1-mini",
    "llada2.1-flash": "inclusionAI/LLaDA2.1-flash",
}

PINNED = {
    "llada2.0-mini": "--revision d23215abc5f5675daf171f6739d0386eab53f712",
    "llada2.1-mini": "--revision bbb5715c881500b34234071e68dbf38c3d657c4e",
}

START = """
    --model-path {checkpoint} --served-model-name {model} {pinned} --trust-remote-code
    --host 127.0.0.1 --port 31000 --enable-metrics
    --tp-size {tp} --mem-fraction-static {fraction} --max-running-requests {requests}
"""
DECODING = "--dllm-algorithm PerRequest --dllm-algorithm-config /run/dllm/dllm-algorithm.yaml"
NVIDIA = "--attention-backend flashinfer --cuda-graph-backend-prefill disabled --stream-interval 32"
AMD = """
    --attention-backend triton --cuda-graph-backend-decode disabled --cuda-graph-backend-prefill disabled
    --stream-interval 32
"""
L4 = "--kv-cache-dtype bf16 --max-total-tokens 16384 --chunked-prefill-size 4096 --enable-p2p-check"

ON_CPU = """
    --model-path /checkpoint --served-model-name {model} --trust-remote-code
    --host 127.0.0.1 --port 31000 --enable-metrics
    --tp-size 1 --mem-fraction-static 0.5 --max-running-requests 24
    --device cpu
    --dllm-algorithm PerRequest --dllm-algorithm-config /run/dllm/dllm-algorithm.yaml
    --attention-backend torch_native --stream-interval 32
    --dtype=float32 --max-total-tokens=16384 --sleep-on-idle --skip-server-warmup
"""
GPT_OSS = """
    --model-path openai/gpt-oss-120b --served-model-name gpt-oss-120b
    --revision b5c939de8f754692c1647ca79fbf85e8c1e70f8a
    --host 127.0.0.1 --port 31000 --enable-metrics
    --tp-size {tp} --mem-fraction-static 0.8 --max-running-requests 64
    --incremental-streaming-output
"""

TINY = Facts(
    architecture="LLaDA2MoeModelLM",
    attention_heads=4,
    kv_heads=2,
    context_length=2048,
    vocab_size=1024,
    block_size=32,
    mask_id=1000,
    chat_template=True,
)


def build(model: str, profile: str, **changes: Any) -> command.EngineCommand:
    loaded = catalog.load_model(model)
    facts = checkpoint.facts(loaded, loaded.checkpoint) if loaded.facts else TINY
    location = loaded.checkpoint if loaded.facts else "/checkpoint"
    given: dict[str, Any] = {
        "location": location,
        "facts": facts,
        "port": 31000,
        "run_dir": RUN_DIR,
        "sglang_version": "0.5.23",
    }
    return command.build(loaded, catalog.load_profile(profile), **(given | changes))


def entries() -> list[tuple[str, str]]:
    """Every model of every profile."""
    profiles = sorted(file.stem for file in (CONFIGS / "profiles").glob("*.yaml"))
    return [(model, profile) for profile in profiles for model in catalog.load_profile(profile).models]


def expected(model: str, template: str, **sizes: float) -> list[str]:
    names = {"model": model, "checkpoint": CHECKPOINTS[model], "pinned": PINNED.get(model, "")}
    return template.format(**names, **sizes).split()


@pytest.fixture(scope="module")
def sglang() -> Any:
    """SGLang's own answer about all commands; one process, since it takes a while to import."""
    return ask([build(*entry).argv[3:] for entry in entries()])


@pytest.mark.parametrize("profile", SIZES)
@pytest.mark.parametrize("model", CHECKPOINTS)
def test_llada_on_eight_gpus(model: str, profile: str) -> None:
    mini_tp, flash_tp, requests = SIZES[profile]
    tp = flash_tp if "flash" in model else mini_tp
    amd = profile.startswith("mi")
    template = " ".join([START, DECODING, AMD if amd else NVIDIA])
    requests += FEW_ROWS if amd else ROWS
    assert build(model, profile).argv == [
        *(sys.executable, "-m", "sglang.launch_server"),
        *expected(model, template, tp=tp, fraction=0.8, requests=requests),
    ]


@pytest.mark.parametrize("model", ["llada2.0-mini", "llada2.0-mini-cap", "llada2.1-mini"])
def test_a_mini_on_four_l4(model: str) -> None:
    template = " ".join([START, DECODING, NVIDIA, L4])
    assert build(model, "l4-4x").argv[3:] == expected(
        model, template, tp=4, fraction=0.85, requests=16 + ROWS
    )


def test_no_flash_on_four_l4() -> None:
    with pytest.raises(KeyError):
        build("llada2.0-flash", "l4-4x")


@pytest.mark.parametrize("model", ["dllm-demo", "tiny-llada2"])
def test_a_small_model_on_a_cpu(model: str) -> None:
    assert build(model, "cpu-dev").argv[3:] == ON_CPU.format(model=model).split()


@pytest.mark.parametrize(("profile", "tp"), [("h100-8x", 4), ("h200-8x", 4), ("b200-8x", 2), ("h20-8x", 4)])
def test_an_autoregressive_model(profile: str, tp: int) -> None:
    assert build("gpt-oss-120b", profile).argv[3:] == GPT_OSS.format(tp=tp).split()


def test_sglang_parses_every_command(sglang: Any) -> None:
    for (model, profile), parsed in zip(entries(), sglang["parsed"], strict=True):
        built, engine = build(model, profile), catalog.load_profile(profile).models[model]
        assert parsed["tp_size"] == engine.tp
        assert parsed["mem_fraction_static"] == engine.mem_fraction
        rows = (
            0
            if model in ("gpt-oss-120b", "tiny-qwen3")
            else FEW_ROWS
            if profile[:2] in ("mi", "cp")
            else ROWS
        )
        assert built.slots == engine.max_running_requests
        assert parsed["max_running_requests"] == built.slots + rows
        assert parsed["dllm_algorithm"] == built.algorithm
        assert parsed["host"] == "127.0.0.1"


def test_our_list_of_spellings_is_sglangs(sglang: Any) -> None:
    ours = {*arguments.RESERVED, *arguments.CHECKED, arguments.DETERMINISTIC}
    for spellings in sglang["spellings"]:
        for known in ours & set(spellings):
            assert {arguments.ALIASES.get(other, other) for other in spellings} == {known}
            ours.discard(known)
    assert not ours, "no option of SGLang"


def test_no_option_of_sglang_is_taken_for_an_abbreviation(sglang: Any) -> None:
    for spelling in (spelling for spellings in sglang["spellings"] for spelling in spellings):
        if spelling.startswith("--"):
            list(arguments.options([spelling]))


def test_our_list_of_algorithms_is_sglangs(sglang: Any) -> None:
    ours = {algorithm for known in BLOCK_DIFFUSION.values() for algorithm in known.algorithms}
    assert sorted(ours) == sglang["algorithms"]


def test_our_list_of_architectures_is_sglangs(sglang: Any) -> None:
    assert sorted(BLOCK_DIFFUSION) == sorted(sglang["architectures"])
    for name, stock in sglang["architectures"].items():
        known = BLOCK_DIFFUSION[name]
        assert stock["mask_id"] == known.mask_id
        assert stock.get("block_size", known.block_size) == known.block_size
        assert stock.get("algorithm", "LowConfidence") in known.algorithms
        separate = {each for each in known.algorithms if each in sglang["separate_context"]}
        assert separate == (known.algorithms if known.blocks_follow_prompt else set())


def written(built: command.EngineCommand) -> Any:
    """The file that tells the engine how to decode."""
    return yaml.safe_load(built.files[Path(built.values["--dllm-algorithm-config"])])


def test_what_the_engine_does_unasked_goes_into_a_file(tmp_path: Path) -> None:
    built = build("llada2.1-mini", "h200-8x", run_dir=tmp_path / "run")
    built.write_files()
    assert yaml.safe_load(Path(built.values["--dllm-algorithm-config"]).read_text()) == {
        "slots": 32,
        "prompt_rows": 64,
        "mixed_prompt_rows": 32,
        "steps_per_round": 64,
        "default": {
            "algorithm": "JointThreshold",
            "threshold": 0.5,
            "edit_threshold": 0.0,
            "max_post_edit_steps": 16,
            "penalty_lambda": 0,
        },
    }


def test_a_profile_may_say_how_much_a_round_does() -> None:
    profile = catalog.load_profile("h200-8x")
    engine = profile.models["llada2.1-mini"].model_copy(
        update={"prompt_rows": 0, "mixed_prompt_rows": 0, "steps_per_round": 1}
    )
    model = catalog.load_model("llada2.1-mini")
    built = of_model(model, profile.model_copy(update={"models": {model.name: engine}}))
    content = written(built)
    assert [content[name] for name in ("prompt_rows", "mixed_prompt_rows", "steps_per_round")] == [0, 0, 1]
    assert built.values["--max-running-requests"] == "32"


def test_an_algorithm_of_ones_own_goes_into_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.touch()
    dllm = catalog.Dllm.model_validate(
        {
            "modes": {"only": {"algorithm": "Mine", "greed": 7}},
            "mode": "only",
            "algorithms": {"Mine": str(file)},
        }
    )
    model = catalog.load_model("llada2.1-mini").model_copy(update={"dllm": dllm})
    content = written(of_model(model))
    assert content["default"] == {"algorithm": "Mine", "greed": 7}
    assert content["algorithms"] == {"Mine": str(file)}


def test_an_algorithm_of_sglangs_in_the_model_file_stays_as_it_is() -> None:
    dllm = catalog.Dllm(algorithm="JointThreshold", config={"threshold": 0.5})
    built = of_model(catalog.load_model("llada2.1-mini").model_copy(update={"dllm": dllm}))
    assert (built.algorithm, built.values["--max-running-requests"]) == ("JointThreshold", "32")
    assert written(built) == {"threshold": 0.5}
    assert built.slots == 32


def of_model(model: catalog.Model, profile: catalog.Profile | None = None) -> command.EngineCommand:
    return command.build(
        model,
        profile or catalog.load_profile("h200-8x"),
        model.checkpoint,
        checkpoint.facts(model, model.checkpoint),
        port=31000,
        run_dir=RUN_DIR,
        sglang_version="0.5.23",
    )


def test_the_users_arguments_come_last_and_win() -> None:
    built = build("llada2.1-flash", "h200-8x", engine_args=["--tp=8", "--max-running-requests", "4"])
    capacity = ["--max-running-requests", str(4 + ROWS)]
    assert built.argv[-5:] == ["--tp=8", "--max-running-requests", "4", *capacity]
    assert (built.slots, written(built)["slots"]) == (4, 4)
    assert built.values["--tp-size"] == "8"


def test_an_algorithm_of_the_users_comes_without_the_parameters_of_another() -> None:
    built = build("llada2.1-mini", "h200-8x", engine_args=["--dllm-algorithm", "LowConfidence"])
    assert built.algorithm == "LowConfidence"
    assert built.values["--max-running-requests"] == "32"
    assert "--dllm-algorithm-config" not in built.argv
    assert "PerRequest" not in built.argv
    assert built.files == {}


def test_a_block_size_among_the_parameters_outranks_the_checkpoints() -> None:
    model = catalog.load_model("llada2.0-mini")
    assert model.dllm
    stock = catalog.Dllm(algorithm="LowConfidence", config={"threshold": 0.9, "block_size": 16})
    for dllm in (model.dllm.model_copy(update={"block_size": 16}), stock):
        built = of_model(model.model_copy(update={"dllm": dllm}))
        assert built.block_size == 16
        assert written(built)["block_size"] == 16
        assert built.values["--stream-interval"] == "16"


@pytest.mark.parametrize(("parameters", "size"), [("block_size: 16", 16), ("threshold: 0.9", 32), ("", 32)])
def test_a_block_size_in_the_users_file_is_the_engines(tmp_path: Path, parameters: str, size: int) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(parameters)
    algorithm = ["--dllm-algorithm", "JointThreshold", f"--dllm-algorithm-config={path}"]
    built = build("llada2.0-mini", "h200-8x", engine_args=algorithm)
    assert built.block_size == size
    assert built.values["--stream-interval"] == str(size)


@pytest.mark.parametrize(
    ("version", "interval"), [("0.5.17", "1"), ("0.5.21.post1", "1"), ("0.5.22", "32"), ("0.6.0rc1", "32")]
)
def test_streams_by_block_where_sglang_can(version: str, interval: str) -> None:
    built = build("llada2.0-mini", "h100-8x", sglang_version=version)
    assert built.values["--stream-interval"] == interval


@pytest.mark.parametrize("version", ["0.5.17", "0.5.17.post1"])
def test_without_a_prefix_cache_where_that_needs_a_gpu(version: str) -> None:
    options = ["--disable-radix-cache", "--page-size", "1"]
    ours = build("tiny-llada2", "cpu-dev", sglang_version=version).argv
    assert ours[ours.index("--disable-radix-cache") :][:3] == options
    for model, profile, other in (
        ("tiny-llada2", "cpu-dev", "0.5.23"),
        ("llada2.1-mini", "h100-8x", version),
        ("llada2.1-mini", "mi300x-8x", version),
    ):
        assert not {*options[:2]} & {*build(model, profile, sglang_version=other).argv}


def test_a_revision_belongs_to_the_model_files_checkpoint() -> None:
    model = catalog.load_model("llada2.0-mini").model_copy(update={"revision": "abc123"})
    facts = checkpoint.facts(model, model.checkpoint)
    profile = catalog.load_profile("h100-8x")
    at: dict[str, Any] = {"port": 31000, "run_dir": RUN_DIR, "sglang_version": "0.5.23"}
    assert command.build(model, profile, model.checkpoint, facts, **at).values["--revision"] == "abc123"
    assert "--revision" not in command.build(model, profile, "/models/mine", facts, **at).argv


def test_only_llada_runs_code_of_its_checkpoint() -> None:
    assert "--trust-remote-code" in build("llada2.1-flash", "b200-8x").argv
    assert "--trust-remote-code" not in build("gpt-oss-120b", "b200-8x").argv


def test_the_environment_is_for_a_cpu_only_on_a_cpu() -> None:
    on_gpu, on_cpu = build("llada2.1-mini", "h100-8x").env, build("tiny-llada2", "cpu-dev").env
    assert on_gpu == {"SGLANG_CUDA_COREDUMP_BEFORE_CRASH": "0"}
    assert on_cpu == on_gpu | cpu.engine_environment()


def test_on_a_cpu_each_rank_has_cores_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    variable = "SGLANG_CPU_OMP_THREADS_BIND"
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(cpu, "cores", lambda: [0, 2, 3, 5, 7])
    for tp, bound in [("1", None), ("2", "0,2|3,5"), ("4", "0|2|3|5"), ("10000000000", None)]:
        built = build("tiny-llada2", "cpu-dev", engine_args=["--tp-size", tp])
        assert built.env.get(variable) == bound
        assert ("SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK" in built.env) == (bound is not None)
    monkeypatch.setenv(variable, "4|5")
    assert build("tiny-llada2", "cpu-dev", engine_args=["--tp", "2"]).env[variable] == "4|5"


@pytest.mark.parametrize(("arguments", "steps"), [([], 64), (["--tp", "2"], 4)])
def test_an_engine_of_several_gpus_takes_few_steps_a_round(arguments: list[str], steps: int) -> None:
    """Also where not the profile says that it has several."""
    (content,) = build("llada2.1-mini", "h200-8x", engine_args=arguments).files.values()
    assert yaml.safe_load(content)["steps_per_round"] == steps


def test_an_autoregressive_model_commits_single_tokens() -> None:
    built = build("gpt-oss-120b", "h100-8x")
    assert (built.block_size, built.algorithm) == (1, None)
