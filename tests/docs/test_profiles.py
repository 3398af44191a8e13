"""docs/profiles.md lists the models, the machines, their command lines, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest
import yaml

from dllm_stack.settings import CONFIGS
from tests.docs.pages import DOCS, assert_holds, blocks, code, table
from worker import cpu
from worker.engine import arguments, catalog, checkpoint, command, decoder_file, preflight
from worker.engine.catalog import CatalogError, Dllm, Engine, Model, Profile
from worker.engine.checkpoint import CheckpointError
from worker.engine.hardware import Gpu, Hardware

SGLANG = "0.5.23"
_WIDTH = 84  # of a line of a command, before its last option


def models() -> list[Model]:
    return [catalog.load_model(file.stem) for file in sorted((CONFIGS / "models").glob("*.yaml"))]


def profiles() -> list[Profile]:
    return [catalog.load_profile(file.stem) for file in sorted((CONFIGS / "profiles").glob("*.yaml"))]


def test_every_model_is_listed() -> None:
    rows = []
    for model in models():
        facts = checkpoint.facts(model, checkpoint.locate(model))
        assert facts.weights_gb
        size = [f"{round(facts.weights_gb, 3):g}", str(facts.context_length)]
        decoding = ["none: autoregressive", "-"]
        if model.dllm and model.dllm.mode:
            decoding = [code(family_of(model)), code(model.dllm.mode)]
        pinned = code(model.revision[:12]) if model.revision else "-"
        rows.append([code(model.name), code(model.checkpoint), pinned, *size, *decoding])
    header = ["model", "checkpoint", "revision", "weights, GB", "context", "modes", "unless asked"]
    assert_holds("profiles.md", table(header, *rows))


def family_of(model: Model) -> str:
    content = yaml.safe_load((CONFIGS / "models" / f"{model.name}.yaml").read_text())
    return str(content["dllm"]["modes"])


def test_every_mode_is_listed() -> None:
    rows = []
    for file in sorted((CONFIGS / "modes").glob("*.yaml")):
        for name, mode in yaml.safe_load(file.read_text()).items():
            algorithm = mode.pop("algorithm")
            parameters = ", ".join(f"{parameter} {value}" for parameter, value in mode.items())
            rows.append([code(file.stem), code(name), code(algorithm), parameters])
    assert_holds("profiles.md", table(["modes", "mode", "algorithm", "its parameters"], *rows))


def test_what_a_round_does_is_listed() -> None:
    engine = Engine(mem_fraction=0.5, max_running_requests=1)
    rows = [
        [code(vendor), *map(str, decoder_file.rounds(engine, vendor, 1))]
        for vendor in ("nvidia", "amd", "cpu")
    ]
    header = ["vendor", "`prompt_rows`", "`mixed_prompt_rows`", "`steps_per_round`"]
    assert_holds("profiles.md", table(header, *rows))


def test_every_profile_is_listed() -> None:
    rows = []
    for profile in profiles():
        machine = (
            f"{profile.gpus} x {profile.gpu}, {profile.gpu_memory_gib:g} GiB" if profile.gpu else "no GPU"
        )
        for engine, names in groupby(profile.models.items(), key=lambda entry: entry[1]):
            sizes = [engine.tp, f"{engine.mem_fraction:g}", engine.max_running_requests]
            served = ", ".join(code(name) for name, _ in names)
            rows.append([code(profile.name), machine, served, *map(str, sizes)])
    header = ["profile", "machine", "models", "tp", "memory fraction", "requests at once"]
    assert_holds("profiles.md", table(header, *rows))


def command_line(model: Model, profile: Profile) -> str:
    location = "DEMO" if model.checkpoint == checkpoint.DEMO else model.checkpoint
    facts = checkpoint.facts(model, checkpoint.locate(model))
    built = command.build(
        model, profile, location, facts, port=31000, run_dir=Path("RUN"), sglang_version=SGLANG
    )
    lines = [["python", *built.argv[1:3]]]
    for argument in built.argv[3:]:
        option = argument.startswith("--")
        if option and len(" ".join([*lines[-1], argument])) > _WIDTH:
            lines.append([])
        lines[-1].append(argument.replace("31000", "PORT"))
    return " \\\n  ".join(" ".join(line) for line in lines) + "\n"


@pytest.mark.parametrize("name", ["llada2.1-mini", "llada2.1-flash", "dllm-demo"])
def test_the_command_line_on_each_machine(name: str) -> None:
    model = catalog.load_model(name)
    lines: dict[str, list[str]] = {}
    for profile in profiles():
        if name in profile.models:
            lines.setdefault(command_line(model, profile), []).append(profile.gpu or "a CPU")
    for line, machines in lines.items():
        assert_holds("profiles.md", f"{code(name)} on {', '.join(machines)}:\n\n```\n{line}```\n")


def test_the_examples_of_files_have_every_field(tmp_path: Path) -> None:
    model_example, profile_example = blocks("profiles.md", "yaml")
    file = tmp_path / "example.yaml"
    file.write_text(model_example.replace("/models", str(DOCS / "examples"), 2))
    model = catalog.load_model(str(file))
    assert model.facts
    assert model.dllm
    file.write_text(profile_example)
    profile = catalog.load_profile(str(file))
    (engine,) = profile.models.values()
    for record in (model, model.facts, profile, engine):
        assert type(record).model_fields.keys() == record.model_fields_set
    assert Dllm.model_fields.keys() - {"algorithm", "config"} == model.dllm.model_fields_set


def test_every_reserved_argument_is_listed() -> None:
    rows = [[code(name), instead] for name, instead in arguments.RESERVED.items()]
    assert_holds("profiles.md", table(["argument", "instead"], *rows))


def refused(
    model: str = "llada2.1-mini",
    profile: str = "h200-8x",
    *engine_args: str,
    gpu: str = "NVIDIA H200",
    gpus: int = 8,
    is_slice: bool = False,
    sglang: str | None = SGLANG,
    **facts: object,
) -> str:
    """The sentences of a worker that refuses."""
    loaded, machine = catalog.load_model(model), catalog.load_profile(profile)
    memory = int((machine.gpu_memory_gib or 0) * 2**30)
    seen = Gpu(gpu, memory, "", is_slice=is_slice)
    hardware = Hardware("nvidia", (seen,) * gpus) if gpus else Hardware("cpu")
    known = checkpoint.facts(loaded, checkpoint.locate(loaded))
    with pytest.raises(preflight.Refused) as refusal:
        preflight.check(
            loaded,
            machine,
            known.model_copy(update=facts),
            hardware,
            engine_args=engine_args,
            sglang_version=sglang,
        )
    (reason,) = refusal.value.reasons
    return reason


def missing_checkpoint() -> str:
    with pytest.raises(CheckpointError) as refusal:
        checkpoint.locate(catalog.load_model("llada2.1-mini"), "/models/mine")
    return str(refusal.value)


def missing_model() -> str:
    with pytest.raises(CatalogError) as refusal:
        catalog.load_model("llada3")
    return str(refusal.value)


MINI, H200 = "llada2.1-mini", "h200-8x"
REFUSALS: dict[str, Callable[[], str]] = {
    "a model that is in no file": missing_model,
    "a checkpoint that is nowhere": missing_checkpoint,
    "no SGLang": lambda: refused(sglang=None),
    "no GPU": lambda: refused(gpus=0),
    "another GPU": lambda: refused(gpu="NVIDIA H20"),
    "a folder without a chat template": lambda: refused(chat_template=False),
    "an unknown mask": lambda: refused(mask_id=None, vocab_size=1000),
    "a mask that is no token": lambda: refused(mask_id=157184),
    "a model that the profile does not know": lambda: refused(MINI, "cpu-dev", gpus=0),
    "a model that cannot fit": lambda: refused("llada2.1-flash", "l4-4x", gpu="NVIDIA L4", gpus=4),
    "a dLLM without an algorithm": lambda: refused(MINI, H200, "--dllm-algorithm", ""),
    "another architecture's algorithm": lambda: refused(MINI, H200, "--dllm-algorithm", "Gemma4Renoise"),
    "an algorithm for an autoregressive model": lambda: refused(
        "gpt-oss-120b", H200, "--dllm-algorithm", "LowConfidence"
    ),
    "an algorithm's file that is not there": lambda: refused(
        MINI, H200, "--dllm-algorithm", "LowConfidence", "--dllm-algorithm-config", "/mine.yaml"
    ),
    "an algorithm's file without the algorithm": lambda: refused(
        MINI, H200, "--dllm-algorithm-config", "configs/modes/llada2.1.yaml"
    ),
    "modes where there is no mask": lambda: refused(
        MINI, H200, architecture="DiffusionGemmaForBlockDiffusion", mask_id=None
    ),
    "causal attention": lambda: refused(MINI, H200, "--attention-backend", "aiter"),
    "no requests": lambda: refused(MINI, H200, "--max-running-requests", "0"),
    "no share of memory": lambda: refused(MINI, H200, "--mem-fraction-static", "1.5"),
    "too many GPUs": lambda: refused(MINI, H200, "--tp-size", "4", gpus=2),
    "slices of GPUs": lambda: refused(MINI, H200, "--tp-size", "2", is_slice=True),
    "heads that do not split": lambda: refused(MINI, H200, "--tp-size", "3"),
    "weights that do not fit": lambda: refused("llada2.1-flash", H200, "--tp-size", "1"),
    "more ranks than cores": lambda: refused("dllm-demo", "cpu-dev", "--tp-size", "2", gpus=0),
    "the worker's own argument": lambda: refused(MINI, H200, "--port", "30000"),
    "an abbreviation": lambda: refused(MINI, H200, "--attention", "triton"),
    "a value in the option's item": lambda: refused(MINI, H200, "--tp-size 4"),
    "an option without its value": lambda: refused(MINI, H200, "--tp-size"),
}


def test_every_refusal_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "cores", lambda: [0])
    rows = [[what, sentence().replace("|", "\\|")] for what, sentence in REFUSALS.items()]
    assert_holds("profiles.md", table(["what", "the worker says"], *rows))
