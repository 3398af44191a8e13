"""The charts say the same as configs/ and the code: there is one truth."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from dllm_stack.settings import CONFIGS, Settings
from tests.helm.conftest import CHARTS, HELMS, THIN, Manifest, Render, one, tool
from worker.engine import arguments, catalog, checkpoint, command
from worker.engine.architectures import NEEDS_REMOTE_CODE
from worker.engine.catalog import Facts, Model, Profile

PROFILES = sorted(file.stem for file in (CONFIGS / "profiles").glob("*.yaml"))
MOUNT = "/etc/dllm"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
BASE = CHARTS / "dllm-stack"


def test_there_is_a_chart_for_every_profile() -> None:
    assert THIN == PROFILES


@pytest.mark.parametrize("name", PROFILES)
def test_a_worker_runs_as_if_it_had_the_names(render: Render, name: str, tmp_path: Path) -> None:
    """Its engine's command line, from what the ConfigMap mounts, is that from configs/; for every model."""
    profile = catalog.load_profile(name)
    models = {f"m{number}": catalog.load_model(model) for number, model in enumerate(profile.models)}
    pools = {pool: {"model": model.name} | pinned(model) for pool, model in models.items()}
    manifests = render("dllm-stack", values={"profile": name, "pools": pools})
    for pool, model in models.items():
        mounted_model, mounted_profile = mounted(manifests, pool, tmp_path / pool)
        wanted = model.model_copy(update=pinned(model))
        assert mounted_model == wanted
        assert mounted_profile.models == {model.name: profile.models[model.name]}
        facts = checkpoint.facts(model, checkpoint.locate(model))
        assert built(mounted_model, mounted_profile, facts) == built(wanted, profile, facts)


def pinned(model: Model) -> dict[str, str]:
    """A revision, where the model's file has none and the chart wants one."""
    on_the_hub = model.facts is not None
    return {"revision": COMMIT} if on_the_hub and not model.revision else {}


def mounted(manifests: list[Manifest], pool: str, folder: Path) -> tuple[Model, Profile]:
    """The pool's files as its pods have them, read as the worker reads them."""
    folder.mkdir()
    for name, content in one(manifests, "ConfigMap", f"x-worker-{pool}")["data"].items():
        (folder / name).write_text(content.replace(MOUNT, str(folder)))
    return catalog.load_model(f"{folder}/model.yaml"), catalog.load_profile(f"{folder}/profile.yaml")


def built(model: Model, profile: Profile, facts: Facts) -> command.EngineCommand:
    run_dir = Path("/run/dllm")
    location = model.checkpoint
    return command.build(
        model, profile, location, facts, port=31000, run_dir=run_dir, sglang_version="0.5.23"
    )


def test_a_pools_engine_stands_over_the_profiles(render: Render, tmp_path: Path) -> None:
    engine = {"tp": 2, "prompt_rows": 0, "args": ["--max-total-tokens", "16384"]}
    values = {"dllm-stack": {"pools": {"mini": {"engine": engine}}}}
    manifests = render("h200-8x", values=values)
    model, profile = mounted(manifests, "mini", tmp_path / "mini")
    changed = profile.models[model.name]
    assert changed == catalog.load_profile("h200-8x").models[model.name].model_copy(update=engine)
    assert changed.prompt_rows == 0  # a zero counts, too
    assert one(manifests, "Deployment", "x-worker-mini")["spec"]["replicas"] == 4


def test_a_model_of_ones_own(render: Render, tmp_path: Path) -> None:
    mine = yaml.safe_load((CONFIGS / "models" / "llada2.1-mini.yaml").read_text())
    del mine["name"]
    mine["checkpoint"] = "/weights/mine"
    mine["dllm"]["modes"] = {"careful": {"algorithm": "LowConfidence", "threshold": 0.99}}
    mine["dllm"]["mode"] = "careful"
    values = {
        "models": {"mine": mine},
        "weights": {"volume": {"hostPath": "/data"}},
        "pools": {
            "mine": {"model": "mine", "engine": {"tp": 2, "mem_fraction": 0.8, "max_running_requests": 16}}
        },
    }
    manifests = render("h200-8x", values={"dllm-stack": values})
    model, profile = mounted(manifests, "mine", tmp_path / "mine")
    assert model == Model.model_validate({"name": "mine"} | mine)
    assert profile.models["mine"].tp == 2
    assert "modes.yaml" not in one(manifests, "ConfigMap", "x-worker-mine")["data"]


def test_another_checkpoint_leaves_the_revision_behind(render: Render, tmp_path: Path) -> None:
    values: dict[str, Any] = {"pools": {"mini": {"checkpoint": "example/fork", "revision": COMMIT}}}
    model, _ = mounted(render("h200-8x", values={"dllm-stack": values}), "mini", tmp_path / "hub")
    assert (model.checkpoint, model.revision) == ("example/fork", COMMIT)
    values = {"pools": {"mini": {"checkpoint": "/data/fork"}}}
    model, _ = mounted(render("h200-8x", values={"dllm-stack": values}), "mini", tmp_path / "folder")
    assert (model.checkpoint, model.revision) == ("/data/fork", None)


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("models", "models"),
        ("modes", "modes"),
        ("profiles", "profiles"),
        ("prometheus", "prometheus"),
        ("dashboards", "grafana/dashboards"),
    ],
)
def test_the_charts_files_are_those_of_configs(folder: str, source: str) -> None:
    assert (BASE / "files" / folder).resolve() == CONFIGS / source


@pytest.mark.parametrize("helm", HELMS)
def test_a_package_holds_them(helm: str, tmp_path: Path) -> None:
    package = [tool(helm), "package", str(CHARTS / "h200-8x"), "--destination", str(tmp_path)]
    subprocess.run(package, check=True, capture_output=True, timeout=250)
    (archive,) = tmp_path.glob("*.tgz")
    inside = "dllm-stack-h200-8x/charts/dllm-stack/files"
    with tarfile.open(archive) as tar:
        for folder in ("models", "modes", "profiles"):
            for file in (CONFIGS / folder).glob("*.yaml"):
                packed = tar.extractfile(f"{inside}/{folder}/{file.name}")
                assert packed
                assert packed.read() == file.read_bytes()


def test_there_is_one_version() -> None:
    version = tomllib.loads((CHARTS.parents[1] / "pyproject.toml").read_text())["project"]["version"]
    for chart in ("dllm-stack", *THIN):
        about = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text())
        needed = [dependency["version"] for dependency in about.get("dependencies", [])]
        assert {about["version"], about["appVersion"], *needed} == {version}


def defined(name: str) -> Any:
    """What a named template without actions holds, as YAML."""
    templates = "".join(file.read_text() for file in sorted((BASE / "templates").glob("*.tpl")))
    found = re.search(rf'define "{re.escape(name)}" -}}}}\n(.*?){{{{- end }}}}', templates, re.DOTALL)
    assert found
    return yaml.safe_load(found[1])


def test_the_defaults_that_the_chart_counts_with_are_the_services() -> None:
    settings = Settings()
    for group, defaults in defined("dllm-stack.defaults").items():
        for name, value in defaults.items():
            assert getattr(getattr(settings, group), name) == value, f"{group}.{name}"


def test_whose_code_runs_is_known() -> None:
    assert set(defined("dllm-stack.bringCode")) == NEEDS_REMOTE_CODE


def test_every_spelling_of_tensor_parallelism_is_refused() -> None:
    source = (BASE / "templates" / "_checks.tpl").read_text()
    found = re.search(r'regexMatch "\^--\(([^)]*)\)', source)
    assert found
    known = {name for name, of in arguments.ALIASES.items() if of == "--tp-size"} | {"--tp-size"}
    assert {f"--{name}" for name in found[1].split("|")} == known


def test_ports_are_the_services_own(render: Render) -> None:
    settings = Settings()
    manifests = render("h200-8x", "dllm-stack.keys.mode=redis")
    ports = {
        (manifest["metadata"]["name"], port["name"]): port["containerPort"]
        for manifest in manifests
        if manifest["kind"] == "Deployment"
        for port in manifest["spec"]["template"]["spec"]["containers"][0]["ports"]
    }
    assert ports == {
        ("x-gateway", "http"): settings.gateway.port,
        ("x-gateway", "admin"): settings.admin.port,
        ("x-router", "http"): settings.router.port,
        ("x-worker-mini", "http"): settings.worker.port,
    }
