"""Each setting that the worker refuses, and that it starts everything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dllm_stack.settings import CONFIGS
from tests.worker import checkpoints
from worker import cpu
from worker.engine import catalog, checkpoint, preflight
from worker.engine.catalog import Facts, Model, Profile
from worker.engine.hardware import Gpu, Hardware

NO_GPU = Hardware("cpu")
DETERMINISTIC = "--enable-deterministic-inference"
NAMES = {
    "H100": "NVIDIA H100 80GB HBM3",
    "H200": "NVIDIA H200",
    "H20": "NVIDIA H20",
    "B200": "NVIDIA B200",
    "L4": "NVIDIA L4",
    "MI300X": "AMD Instinct MI300X OAM",
    "MI325X": "AMD Instinct MI325X",
    "MI355X": "AMD Instinct MI355X",
}


def machine(profile: Profile, gpus: int | None = None) -> Hardware:
    """The hardware that a profile is for."""
    if profile.vendor == "cpu":
        return NO_GPU
    assert profile.gpu
    assert profile.gpu_memory_gib
    gpu = Gpu(NAMES[profile.gpu], int(profile.gpu_memory_gib * 2**30), uuid="")
    return Hardware(profile.vendor, (gpu,) * (profile.gpus if gpus is None else gpus))


def reasons(
    model: str | Model,
    profile: str | Profile,
    *,
    hardware: Hardware | None = None,
    facts: Facts | None = None,
    engine_args: list[str] | None = None,
    sglang_version: str | None = "0.5.23",
) -> list[str]:
    """Why it is refused; nothing, if it is not. On the profile's own machine unless another is given."""
    model = catalog.load_model(model) if isinstance(model, str) else model
    profile = catalog.load_profile(profile) if isinstance(profile, str) else profile
    try:
        preflight.check(
            model,
            profile,
            facts or checkpoint.facts(model, checkpoint.locate(model)),
            hardware or machine(profile),
            engine_args=engine_args or [],
            sglang_version=sglang_version,
        )
    except preflight.Refused as refused:
        return refused.reasons
    return []


def of_folder(folder: Path, **fields: Any) -> tuple[Model, Facts]:
    """A model file that names a folder, as a user would write it, and what the folder says."""
    model = Model.model_validate({"name": "llada2.0-mini", "checkpoint": str(folder), **fields})
    return model, checkpoint.facts(model, checkpoint.locate(model))


def entries() -> list[tuple[str, str]]:
    profiles = sorted(file.stem for file in (CONFIGS / "profiles").glob("*.yaml"))
    return [(model, profile) for profile in profiles for model in catalog.load_profile(profile).models]


@pytest.mark.parametrize(("model", "profile"), entries())
def test_every_model_of_every_profile_is_started(model: str, profile: str) -> None:
    assert reasons(model, profile) == []


@pytest.mark.parametrize(("model", "profile"), entries())
def test_a_pod_sees_the_gpus_of_its_engine_only(model: str, profile: str) -> None:
    loaded = catalog.load_profile(profile)
    assert reasons(model, profile, hardware=machine(loaded, gpus=loaded.models[model].tp)) == []


@pytest.mark.parametrize(
    ("profile", "name"),
    [("mi325x-8x", "AMD Instinct MI325 OAM"), ("mi355x-8x", "AMD Instinct MI355 OAM")],
)
def test_a_driver_that_leaves_out_amds_x(profile: str, name: str) -> None:
    gpu = Gpu(name, 2**38, uuid="")
    assert reasons("llada2.1-mini", profile, hardware=Hardware("amd", (gpu,))) == []


def test_newlines_for_ever_cannot_happen(tmp_path: Path) -> None:
    """The known bad start: LLaDA2 without --dllm-algorithm, its tokenizer without a chat template."""
    folder = checkpoints.write(tmp_path / "LLaDA2.0-mini", checkpoints.LLADA2_MINI, chat_template=None)
    model, facts = of_folder(folder)
    assert reasons(model, "l4-4x", facts=facts) == [
        "The checkpoint has no chat template, so it would not see the roles of a conversation: add "
        "chat_template.jinja, or `chat_template` in tokenizer_config.json, to its folder.",
        "LLaDA2MoeModelLM is a diffusion model, whose answers are nonsense without a dLLM algorithm: set "
        "`dllm.modes` in the model file, or `dllm.algorithm` to one of JointThreshold, JointThresholdInDel, "
        "LowConfidence.",
    ]


@pytest.mark.parametrize("architecture", ["SDARForCausalLM", "SDARMoeForCausalLM", "LLaDA2MoeModelLM"])
def test_a_diffusion_model_needs_an_algorithm(tmp_path: Path, architecture: str) -> None:
    config = checkpoints.LLADA2_MINI | {"architectures": [architecture]}
    model, facts = of_folder(checkpoints.write(tmp_path / "model", config))
    (reason,) = reasons(model, "h100-8x", facts=facts)
    assert f"{architecture} is a diffusion model, whose answers are nonsense without" in reason


@pytest.mark.parametrize(
    "engine_args", [["--dllm-algorithm", ""], ["--dllm-algorithm="], ["--dllm-algorithm"]]
)
def test_the_users_arguments_cannot_take_the_algorithm_away(engine_args: list[str]) -> None:
    (reason,) = reasons("llada2.1-mini", "h100-8x", engine_args=engine_args)
    assert "nonsense without a dLLM algorithm" in reason


def test_another_checkpoint_under_an_autoregressive_models_name(tmp_path: Path) -> None:
    """worker.checkpoint replaces the model file's: what counts is what will be loaded."""
    model = catalog.load_model("gpt-oss-120b")
    folder = checkpoints.write(tmp_path / "model", checkpoints.LLADA2_MINI)
    facts = checkpoint.facts(model, checkpoint.locate(model, str(folder)))
    (reason,) = reasons(model, "h100-8x", facts=facts)
    assert "nonsense without a dLLM algorithm" in reason


def test_an_algorithm_for_an_autoregressive_model(tmp_path: Path) -> None:
    folder = checkpoints.write(tmp_path / "model", checkpoints.LLAMA)
    model, facts = of_folder(folder, dllm={"algorithm": "LowConfidence"})
    (reason,) = reasons(model, "h100-8x", facts=facts)
    assert reason.startswith("The dLLM algorithm 'LowConfidence' cannot decode LlamaForCausalLM")
    (reason,) = reasons("gpt-oss-120b", "h100-8x", engine_args=["--dllm-algorithm", "JointThreshold"])
    assert reason.startswith("The dLLM algorithm 'JointThreshold' cannot decode GptOssForCausalLM")


def test_an_unknown_algorithm() -> None:
    assert reasons("llada2.0-mini", "h100-8x", engine_args=["--dllm-algorithm", "lowconfidence"]) == [
        "'lowconfidence' is no dLLM algorithm for LLaDA2MoeModelLM: choose one of JointThreshold, "
        "JointThresholdInDel, LowConfidence."
    ]


def test_an_algorithm_of_another_architecture() -> None:
    (reason,) = reasons("llada2.0-mini", "h100-8x", engine_args=["--dllm-algorithm", "Gemma4Renoise"])
    assert reason.startswith("'Gemma4Renoise' is no dLLM algorithm for LLaDA2MoeModelLM")


def test_an_algorithms_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    engine_args = ["--dllm-algorithm", "LowConfidence", "--dllm-algorithm-config", str(path)]
    assert reasons("llada2.0-mini", "h100-8x", engine_args=engine_args) == [
        f"--dllm-algorithm-config {path} does not exist: give the path of a YAML file."
    ]
    path.write_text("threshold: 0.9\n")
    assert reasons("llada2.0-mini", "h100-8x", engine_args=engine_args) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("threshold: [", "cannot be read"),
        ("\0", "cannot be read"),
        ("- threshold", "holds no parameters"),
        ("block_size: many", "has the block_size 'many'"),
        ("block_size: 0", "has the block_size 0"),
    ],
)
def test_an_algorithms_file_that_is_none(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    engine_args = ["--dllm-algorithm", "LowConfidence", "--dllm-algorithm-config", str(path)]
    (given,) = reasons("llada2.0-mini", "h100-8x", engine_args=engine_args)
    assert given.startswith(f"--dllm-algorithm-config {path} {reason}")


def test_an_algorithms_file_without_an_algorithm(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("threshold: 0.9\n")
    assert reasons("llada2.0-mini", "h100-8x", engine_args=["--dllm-algorithm-config", str(path)]) == [
        "Engine argument --dllm-algorithm-config is for an algorithm of SGLang's: give --dllm-algorithm too, "
        "or write the parameters into `dllm.modes` of the model file."
    ]


def test_our_own_decoder_is_not_asked_for_by_an_argument() -> None:
    (reason,) = reasons("llada2.0-mini", "h100-8x", engine_args=["--dllm-algorithm", "PerRequest"])
    assert reason.startswith("Engine argument --dllm-algorithm PerRequest is what a model file with")


def test_modes_for_a_model_without_a_mask(tmp_path: Path) -> None:
    model = catalog.load_model("llada2.0-mini")
    facts = checkpoint.facts(model, model.checkpoint)
    facts = facts.model_copy(update={"architecture": "DiffusionGemmaForBlockDiffusion"})
    assert reasons(model, "h100-8x", facts=facts) == [
        "DiffusionGemmaForBlockDiffusion decodes without a mask, so it has no modes: set `dllm.algorithm` in "
        "the model file to one of Gemma4Renoise instead of `dllm.modes`."
    ]


@pytest.mark.parametrize(
    ("profile", "version", "backend"),
    [
        ("h100-8x", "0.5.17", "flashinfer"),
        ("h100-8x", "0.5.23", "flashinfer"),
        ("mi300x-8x", "0.5.17", "triton"),
    ],
)
def test_deterministic_inference_where_it_ends_the_engine(profile: str, version: str, backend: str) -> None:
    assert reasons("llada2.1-mini", profile, engine_args=[DETERMINISTIC], sglang_version=version) == [
        f"Engine argument {DETERMINISTIC} would end the engine at its first request, because with {backend} "
        f"SGLang {version} cuts prompts where a diffusion model's cannot be cut: remove it."
    ]


@pytest.mark.parametrize(
    ("model", "profile", "version"),
    [("llada2.1-mini", "mi300x-8x", "0.5.23"), ("gpt-oss-120b", "h100-8x", "0.5.17")],
)
def test_deterministic_inference_where_it_works(model: str, profile: str, version: str) -> None:
    assert reasons(model, profile, engine_args=[DETERMINISTIC], sglang_version=version) == []


def test_deterministic_inference_with_another_attention_backend() -> None:
    """As long as graphs are captured, SGLang takes flashinfer for them, whatever is asked for."""
    triton = [DETERMINISTIC, "--attention-backend", "triton"]
    (reason,) = reasons("llada2.1-mini", "h100-8x", engine_args=triton)
    assert "with flashinfer" in reason
    graphless = [*triton, "--cuda-graph-backend-decode", "disabled"]
    assert reasons("llada2.1-mini", "h100-8x", engine_args=graphless) == []
    (reason,) = reasons("llada2.1-mini", "h100-8x", engine_args=["--enable-deterministic"])
    assert reason.endswith(f"is an abbreviation: write {DETERMINISTIC}.")


def test_deterministic_inference_on_a_cpu() -> None:
    profile = catalog.load_profile("cpu-dev")
    profile = profile.model_copy(update={"models": {"llada2.0-mini": profile.models["tiny-llada2"]}})
    (reason,) = reasons("llada2.0-mini", profile, engine_args=[DETERMINISTIC])
    assert reason.endswith("SGLang does not start with torch_native: remove it.")


@pytest.mark.parametrize("template", [None, ""])
def test_no_chat_template(tmp_path: Path, template: str | None) -> None:
    folder = checkpoints.write(tmp_path / "model", checkpoints.LLADA2_MINI, chat_template=template)
    model, facts = of_folder(folder, dllm={"algorithm": "LowConfidence"})
    (reason,) = reasons(model, "h100-8x", facts=facts)
    assert reason.startswith("The checkpoint has no chat template")
    (folder / "chat_template.jinja").write_text(checkpoints.TEMPLATE)
    assert reasons(model, "h100-8x", facts=checkpoint.facts(model, str(folder))) == []


def test_more_tensor_parallelism_than_gpus() -> None:
    h100 = catalog.load_profile("h100-8x")
    assert reasons("llada2.1-flash", h100, hardware=machine(h100, gpus=2)) == [
        "--tp-size 4 needs 4 GPUs, but the worker sees 2: lower it, or give the worker more."
    ]
    assert reasons("llada2.1-flash", h100, hardware=machine(h100, gpus=4)) == []
    (reason,) = reasons("llada2.1-flash", h100, engine_args=["--tp", "16"])
    assert reason.startswith("--tp-size 16 needs 16 GPUs, but the worker sees 8")


def test_tensor_parallelism_on_a_cpu_takes_a_core_for_each_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "cores", lambda: [0, 3])
    profile = catalog.load_profile("cpu-dev")
    profile = profile.model_copy(update={"models": {"llada2.0-mini": profile.models["tiny-llada2"]}})
    assert reasons("llada2.0-mini", profile, engine_args=["--tp", "2"]) == []
    (reason,) = reasons("llada2.0-mini", profile, engine_args=["--tp", "4"])
    assert reason == ("--tp-size 4 needs 4 cores where there is no GPU, but the worker may use 2: lower it.")


@pytest.mark.parametrize("tp", ["3", "5", "6", "7"])
def test_tensor_parallelism_that_does_not_divide_the_heads(tp: str) -> None:
    assert reasons("llada2.1-flash", "mi300x-8x", engine_args=["--tp-size", tp]) == [
        f"--tp-size {tp} does not split the 32 attention heads and 4 KV heads evenly: "
        "choose one of 1, 2, 4, 8, 16, 32."
    ]


def test_kv_heads_are_split_or_copied_evenly(tmp_path: Path) -> None:
    config = checkpoints.LLADA2_MINI | {"num_attention_heads": 24, "num_key_value_heads": 4}
    model, facts = of_folder(
        checkpoints.write(tmp_path / "model", config), dllm={"algorithm": "LowConfidence"}
    )
    for tp in ("2", "4", "8"):
        assert reasons(model, "h100-8x", facts=facts, engine_args=["--tp", tp]) == []
    (reason,) = reasons(model, "h100-8x", facts=facts, engine_args=["--tp", "6"])
    assert reason.endswith("choose one of 1, 2, 4, 8, 12, 24.")


def test_slices_of_a_gpu_share_no_model() -> None:
    slices = Hardware(
        "nvidia", (Gpu("NVIDIA H200", 70 * 2**30, "MIG-0", is_slice=True), Gpu("NVIDIA H200", 70 * 2**30, ""))
    )
    assert reasons("llada2.1-mini", "h200-8x", hardware=slices) == []
    (reason,) = reasons("llada2.1-mini", "h200-8x", hardware=slices, engine_args=["--tp", "2"])
    assert reason.startswith("--tp-size 2 needs whole GPUs, but the worker sees slices of them (MIG)")


def test_weights_that_do_not_fit() -> None:
    assert reasons("llada2.1-flash", "h100-8x", engine_args=["--tp", "2"]) == [
        "206 GB of weights at --tp-size 2 are 103 GB a GPU, and --mem-fraction-static 0.8 leaves 68 of its "
        "85 GB: raise --tp-size, or use larger GPUs."
    ]
    assert reasons("llada2.1-flash", "h200-8x", engine_args=["--tp", "2"]) == []
    (reason,) = reasons(
        "llada2.1-flash", "h200-8x", engine_args=["--tp", "2", "--mem-fraction-static", "0.6"]
    )
    assert "--mem-fraction-static 0.6 leaves 90 of its 150 GB" in reason


def test_the_memory_that_counts_is_that_of_the_gpus_present() -> None:
    h100 = catalog.load_profile("h100-8x")
    a_small_one = Hardware(
        "nvidia", (Gpu("NVIDIA H100 80GB HBM3", 85 * 10**9, ""), Gpu("NVIDIA H100", 30 * 10**9, ""))
    )
    (reason,) = reasons("llada2.0-mini", h100, hardware=a_small_one)
    assert "32 GB of weights at --tp-size 1 are 32 GB a GPU" in reason
    assert "leaves 24 of its 30 GB" in reason


def test_a_flash_on_l4() -> None:
    assert reasons("llada2.1-flash", "l4-4x") == [
        "llada2.1-flash does not fit on l4-4x: it has 206 GB of weights and the 4 GPUs hold 94 GB; "
        "choose the profile of a larger machine."
    ]


def test_a_model_that_the_profile_does_not_know() -> None:
    assert reasons("gpt-oss-120b", "mi300x-8x") == [
        "The profile mi300x-8x has no entry for gpt-oss-120b: choose a profile that has, or write a profile "
        "file with one under `models`."
    ]


def test_a_gpu_profile_without_a_gpu() -> None:
    assert reasons("llada2.1-mini", "h100-8x", hardware=NO_GPU) == [
        "The profile h100-8x is for nvidia GPUs, but this machine has no GPU: choose another profile, or run "
        "the worker where those GPUs are."
    ]


def test_a_profile_for_another_vendor() -> None:
    amd = machine(catalog.load_profile("mi300x-8x"))
    (reason,) = reasons("llada2.1-mini", "h100-8x", hardware=amd)
    assert "is for nvidia GPUs, but this machine has amd GPUs" in reason


def test_a_profile_for_another_gpu() -> None:
    h200 = machine(catalog.load_profile("h200-8x"))
    assert reasons("llada2.1-mini", "h20-8x", hardware=h200) == [
        "The profile h20-8x is for H20, but this machine has NVIDIA H200: choose the profile of that GPU, or "
        "write one."
    ]


def test_a_cpu_profile_where_there_is_a_gpu() -> None:
    assert reasons("dllm-demo", "cpu-dev", hardware=machine(catalog.load_profile("l4-4x"))) == []


@pytest.mark.parametrize("requests", ["0", "-1", "many", "1.5", "8.0"])
def test_no_running_requests(requests: str) -> None:
    assert reasons("llada2.1-mini", "h100-8x", engine_args=[f"--max-running-requests={requests}"]) == [
        f"--max-running-requests is {requests}, but an engine runs 1 or more: set `max_running_requests` in "
        "the profile to how many."
    ]


@pytest.mark.parametrize("fraction", ["0", "1", "80", "most", "nan"])
def test_no_share_of_the_memory(fraction: str) -> None:
    (reason,) = reasons("llada2.1-mini", "h100-8x", engine_args=["--mem-fraction-static", fraction])
    assert reason.startswith(f"--mem-fraction-static is {fraction}, which is no share of the memory")


@pytest.mark.parametrize("tp", ["0", "two", "1.5", "4.0", "inf"])
def test_no_number_of_gpus(tp: str) -> None:
    (reason,) = reasons("llada2.1-mini", "h100-8x", engine_args=["--tp", tp])
    assert reason == f"--tp-size is {tp}, which is no number of GPUs: set it to 1 or more."


@pytest.mark.parametrize(
    "engine_args",
    [
        ["--host", "0.0.0.0"],
        ["--port=8000"],
        ["--served-model-name", "x"],
        ["--model", "x"],
        ["--model-path", "x"],
        ["--stream-interval", "1"],
        ["--config", "all.yaml"],
        ["--json-model-override-args", '{"architectures": ["LlamaForCausalLM"]}'],
        ["--dp", "2"],
        ["--pipeline-parallel-size", "2"],
    ],
)
def test_arguments_that_are_the_workers_own(engine_args: list[str]) -> None:
    (reason,) = reasons("llada2.1-mini", "h100-8x", engine_args=engine_args)
    assert reason.startswith("Engine argument --")
    assert "is the worker's own: " in reason


@pytest.mark.parametrize(
    ("engine_args", "reason"),
    [
        (["--tp"], "Engine argument --tp-size has no value: add one."),
        (
            ["--max-running", "4"],
            "Engine argument --max-running is an abbreviation: write --max-running-requests.",
        ),
        (["--tp 2"], "Engine argument '--tp 2' holds a space: give the option and its value as two items."),
        (["tp", "2"], "Engine argument 'tp' is no option: the first argument must begin with --."),
    ],
)
def test_arguments_that_cannot_be_read(engine_args: list[str], reason: str) -> None:
    assert reasons("llada2.1-mini", "h100-8x", engine_args=engine_args) == [reason]


def test_a_causal_attention_backend() -> None:
    engine_args = ["--attention-backend", "aiter"]
    (reason,) = reasons("llada2.1-mini", "mi300x-8x", engine_args=engine_args)
    assert "causal inside a block" in reason


def test_a_mask_that_is_unknown(tmp_path: Path) -> None:
    config = checkpoints.LLADA2_MINI | {"vocab_size": 512}
    model, facts = of_folder(
        checkpoints.write(tmp_path / "model", config), dllm={"algorithm": "LowConfidence"}
    )
    assert reasons(model, "h100-8x", facts=facts) == [
        "The checkpoint does not say which token is the mask, and SGLang's 156895 lies outside its "
        "vocabulary of 512: add mask_token_id to its config.json."
    ]


def test_a_mask_outside_the_vocabulary(tmp_path: Path) -> None:
    config = checkpoints.LLADA2_MINI | {"vocab_size": 512, "mask_token_id": 512}
    model, facts = of_folder(
        checkpoints.write(tmp_path / "model", config), dllm={"algorithm": "LowConfidence"}
    )
    (reason,) = reasons(model, "h100-8x", facts=facts)
    assert reason.startswith("mask_token_id 512 lies outside the checkpoint's vocabulary of 512")


def test_sglang_is_missing() -> None:
    assert reasons("llada2.1-mini", "h100-8x", sglang_version=None) == [
        "SGLang is not installed beside the worker: install dllm-stack[engine]."
    ]


def test_all_reasons_are_given_at_once() -> None:
    refused = reasons(
        "llada2.1-flash",
        "h100-8x",
        hardware=NO_GPU,
        engine_args=["--tp", "3", "--max-running-requests", "0", "--dllm-algorithm", "None"],
    )
    assert len(refused) == 5
    assert all(reason.endswith(".") and ": " in reason for reason in refused)
